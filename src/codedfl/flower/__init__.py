"""Studies on Flower: an engine on its grid, and the two apps (``pip install 'codedfl[flower]'``).

``make_client_app`` and ``make_server_app`` take part in the study that their configuration names; ``apps/flower`` is an
app made of them. What is not to be seen in Flower's records or in its ``Context`` stays in a private folder on each
node.

Each name is imported when it is first used: a client app loads nothing of the server's.
"""

from typing import TYPE_CHECKING

from codedfl.on_demand import names_on_demand

__all__ = ["make_client_app", "make_server_app"]

if TYPE_CHECKING:
    from codedfl.flower.client import make_client_app
    from codedfl.flower.server import make_server_app
else:  # hidden from type checkers, which would take every name for a good one
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "codedfl.flower.client": ["make_client_app"],
            "codedfl.flower.server": ["make_server_app"],
        },
    )

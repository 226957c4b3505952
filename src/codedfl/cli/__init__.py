"""The command line: groups by who types them, listed in `tree`; a command is loaded when it is run."""

import sys

from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.on_demand import loading


def main() -> None:
    """The entry point of ``codedfl`` and of ``python -m codedfl``."""
    try:
        # Here and not above: while modules are loaded, Ctrl-C must not print a traceback.
        with loading():
            from codedfl.cli.app import app
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    app()

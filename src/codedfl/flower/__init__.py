"""The same protocol on real machines: the state machines on Flower (``pip install 'codedfl[flower]'``).

``make_client_app`` takes a function that loads a device's local rows, ``make_server_app`` nothing at all; the rest is
configuration (``RunConfig``, ``Learning``). ``apps/flower`` is an app made of them. What is not to be seen in Flower's
records or in its ``Context`` stays in a private folder on each node.
"""

from __future__ import annotations

from codedfl.engine.learning import Learning
from codedfl.engine.run_config import RunConfig
from codedfl.flower.client import make_client_app
from codedfl.flower.server import make_server_app

__all__ = ["Learning", "RunConfig", "make_client_app", "make_server_app"]

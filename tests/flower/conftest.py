"""Studies on Flower: the rehearsal's bits by its grid and its apps.

Flower's messages can be made inside of a run only; the tests pretend to be in one, and leave the logs alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from flwr.supercore.task_identity import TaskIdentity


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_run_id", 1), ("_node_id", 1), ("_task_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)


@pytest.fixture(autouse=True)
def logs_as_before(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The apps hand codedfl's logs over to Flower: pytest looks there too, and the next test finds them as before."""
    ours, flowers = logging.getLogger("codedfl"), logging.getLogger("flwr")
    level, propagate, handlers = ours.level, ours.propagate, ours.handlers
    ours.setLevel(logging.INFO)
    flowers.addHandler(caplog.handler)
    yield
    flowers.removeHandler(caplog.handler)
    ours.setLevel(level)
    ours.propagate, ours.handlers = propagate, handlers

"""Flower's messages can be made inside of a run only; the tests pretend to be in one."""

from __future__ import annotations

import pytest
from flwr.supercore.task_identity import TaskIdentity


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_run_id", 1), ("_node_id", 1), ("_task_id", 1)):
        monkeypatch.setattr(TaskIdentity, name, value)

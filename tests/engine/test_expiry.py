"""Runs that a device has not heard of for long are wiped; the one that calls is not, whatever the clock says."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import numpy as np
import pytest

from codedfl.engine.calls import Call
from codedfl.engine.device_host import KEEP_SECONDS, DeviceHost
from codedfl.run.in_process import run_in_process
from fake_post import FakePost, Killed, epoch_of, make_conductor, make_hosts
from scenario import Scenario, descent


def age(folder: Path, seconds: float) -> None:
    """As if everything below had been written so long ago."""
    then = time.time() - seconds
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def states(folder: Path) -> list[Path]:
    return list(folder.glob("*/runs/*/index.msgpack"))


def left_behind(scenario: Scenario, folder: Path) -> None:
    """A run whose server is never heard of again."""
    post = FakePost(make_hosts(scenario, folder))

    def stop() -> None:
        if any(epoch_of(call) >= 2 for _, call in post.handled):
            raise Killed

    post.tick = stop
    with pytest.raises(Killed):
        make_conductor(scenario, post, folder, descent).run()
    for path in (folder / "server").glob("checkpoint/*"):
        path.unlink()


@pytest.mark.parametrize(("days_more", "wiped"), [(1, True), (-1, False)])
def test_a_run_not_heard_of_for_long_is_wiped_when_another_calls(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture, days_more: int, wiped: bool
):
    left_behind(scenario, tmp_path)
    assert len(states(tmp_path)) == scenario.n_devices
    age(tmp_path, KEEP_SECONDS + 86400 * days_more)
    with caplog.at_level(logging.WARNING):
        make_conductor(scenario, FakePost(make_hosts(scenario, tmp_path)), tmp_path, descent).run()
    assert (states(tmp_path) == []) is wiped
    warned = f"device-0: a run not heard of for {KEEP_SECONDS / 86400:.0f} days is wiped"
    assert (warned in caplog.messages) is wiped


def test_a_clock_that_jumps_in_the_middle_of_a_run_wipes_nothing_of_it(scenario: Scenario, tmp_path: Path):
    """A machine without a battery begins in the past, and has the time set while a run goes on."""
    post = FakePost(make_hosts(scenario, tmp_path))

    def jump(host: DeviceHost, call: Call) -> str:
        age(host.folder, 10 * KEEP_SECONDS)
        return ""

    post.fault = jump
    model = make_conductor(scenario, post, tmp_path, descent).run()
    assert np.array_equal(model, run_in_process(scenario.server(), scenario.devices()))

"""A device that stays in memory replies as one that is read from its folder for every call, also after a restart."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from codedfl.engine.calls import Call, Failed
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.resident_host import ResidentHost
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.run.in_process import run_in_process
from fake_post import FakePost, make_conductor, make_hosts
from scenario import Scenario, descent


@pytest.fixture(params=[CODED_KEYS, CODED_PADDED], ids=["coded-keys", "coded-padded"])
def scenario(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    monkeypatch.setattr("os.fdatasync", lambda handle: None)
    return Scenario((3, 5, 2, 4, 3), alpha=3, d=40, scheme=request.param)


def residents(scenario: Scenario, folder: Path) -> dict[int, DeviceHost]:
    return {node: resident(host) for node, host in make_hosts(scenario, folder).items()}


def resident(host: DeviceHost) -> ResidentHost:
    """A new process of the same device."""
    return ResidentHost(host.name, host.identity, host.folder, host.server_public, host.party)


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".key", ".lock")]


def test_residents_give_the_model_of_the_in_process_run(scenario: Scenario, tmp_path: Path):
    model = make_conductor(scenario, FakePost(residents(scenario, tmp_path)), tmp_path, descent).run()
    assert np.array_equal(model, run_in_process(scenario.server(), scenario.devices()))
    assert left(tmp_path) == []


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_resident_killed_behind_any_call_goes_on(scenario: Scenario, tmp_path: Path, every: int):
    """Restarted with nothing but its folder; some replies are lost with it."""
    post = FakePost(residents(scenario, tmp_path))
    calls = 0

    def restart(host: DeviceHost, call: Call) -> str:
        nonlocal calls
        calls += 1
        if calls % every == 0:
            node = next(node for node, other in post.hosts.items() if other is host)
            post.hosts[node] = resident(host)
        return "lose reply" if calls % 7 == 0 else ""

    post.fault = restart
    model = make_conductor(scenario, post, tmp_path, lambda: descent(8)).run()
    assert np.array_equal(model, run_in_process(scenario.server(descent(8)), scenario.devices()))
    assert left(tmp_path) == []


def test_what_could_not_be_saved_is_not_remembered_either(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A device that answers from memory what its disk does not know would answer twice after a restart."""
    post = FakePost(residents(scenario, tmp_path))
    full = [False]
    write, failures = os.write, []

    def limited(handle: int, data: bytes) -> int:
        if full[0]:
            failures.append(handle)
            return write(handle, data[:10])
        return write(handle, data)

    monkeypatch.setattr("os.write", limited)
    handle = ResidentHost.handle

    def filling(self: ResidentHost, call: Call) -> object:
        full[0] = self.name == "device-2" and len(failures) < 3 and self._memory.run is not None
        try:
            return handle(self, call)
        except OSError:
            assert self._memory.run is None
            return Failed("the disk is full")
        finally:
            full[0] = False

    monkeypatch.setattr(ResidentHost, "handle", filling)
    model = make_conductor(scenario, post, tmp_path, lambda: descent(30)).run()
    assert failures
    assert np.array_equal(model, run_in_process(scenario.server(descent(30)), scenario.devices()))

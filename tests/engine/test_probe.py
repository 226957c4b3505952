"""The fleet probe on a stand-in network whose speeds are known."""

from __future__ import annotations

import logging
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from codedfl.engine.calls import Call, Measured, Probe, Refused
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.probe import (
    FLEET_LINE,
    FleetProbe,
    ProbeConfig,
    answer_probe,
    link_rate,
    mac_rate_and_setup,
    time_products,
)
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.fleet.fleet import Fleet
from fake_post import FakePost, make_hosts
from scenario import Scenario
from wording import exactly

CONFIG = ProbeConfig.from_config(
    {"devices": 3, "join-seconds": 10.0, "probe-features": 50, "probe-outputs": 2, "probe-megabytes": 4.0}
)


def seconds_of(host: DeviceHost, call: Call) -> float:
    """2 s for a process, then 4 Mbit/s down and 1 Mbit/s up; ten times the rates on device-2."""
    if not isinstance(call, Probe):
        return 0.5
    speed = 10 if host.name == "device-2" else 1
    return 2.0 + (8 * len(call.payload) / 4e6 + 8 * call.reply_bytes / 1e6) / speed


def make_probe(tmp_path: Path, **hosts: object) -> tuple[FleetProbe, FakePost]:
    post = FakePost(make_hosts(Scenario(sizes=(3, 3, 3)), tmp_path, **hosts), delay=seconds_of)
    return FleetProbe(post, CONFIG, post.clock), post


def test_the_links_come_out_as_they_are(tmp_path: Path):
    probe, _ = make_probe(tmp_path)
    fleet = probe.run()
    assert [one.name for one in fleet.classes] == ["device-0", "device-1", "device-2"]
    assert fleet.uplink_rate == pytest.approx([1e6, 1e6, 1e7], rel=0.05)
    assert fleet.downlink_rate[:2] == pytest.approx([4e6, 4e6], rel=0.05)
    assert fleet.downlink_rate[2] == pytest.approx(32e6 / 3)  # 0.8 s are not noticeable: it has at least this rate
    assert fleet.mac_rate.min() > 1e6 and fleet.server_mac_rate > 1e6
    assert (fleet.failure_probability == 0).all() and (fleet.setup_factor >= 0).all()


def test_the_fleet_file_can_be_read_by_the_planner(tmp_path: Path):
    probe, _ = make_probe(tmp_path)
    probe.run().save(tmp_path / "fleet.toml")
    assert Fleet.load(tmp_path / "fleet.toml").n_devices == 3


def test_a_node_that_refuses_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    probe, _ = make_probe(tmp_path)
    handle = DeviceHost.handle

    def refusing(self: DeviceHost, call: Call) -> object:
        return Refused("no") if self.name == "device-1" and isinstance(call, Probe) else handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", refusing)
    assert [one.name for one in probe.run().classes] == ["device-0", "device-2"]
    expected = ("codedfl.engine.server", logging.ERROR, "device-1 cannot be measured: no")
    assert expected in caplog.record_tuples


@pytest.mark.parametrize(
    "seconds", [(), (0.0,) * 20, (float("nan"),) * 20, (float("inf"),) * 20, (-1.0,) * 20, (1.0,) * 19]
)
def test_a_node_with_odd_measurements_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: tuple[float, ...]
):
    probe, _ = make_probe(tmp_path)
    handle = DeviceHost.handle

    def odd(self: DeviceHost, call: Call) -> object:
        is_odd = self.name == "device-1" and isinstance(call, Probe) and call.products
        return Measured(seconds) if is_odd else handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", odd)
    assert [one.name for one in probe.run().classes] == ["device-0", "device-2"]
    reason = "device-1 cannot be measured: got another reply than asked for"
    assert ("codedfl.engine.server", logging.ERROR, reason) in caplog.record_tuples


def test_a_node_whose_rate_no_fleet_can_have_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    probe, _ = make_probe(tmp_path)
    handle = DeviceHost.handle

    def odd(self: DeviceHost, call: Call) -> object:
        is_odd = self.name == "device-1" and isinstance(call, Probe) and call.products
        return Measured((1e-320,) * 20) if is_odd else handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", odd)
    assert [one.name for one in probe.run().classes] == ["device-0", "device-2"]
    assert any(text.startswith("device-1 cannot be measured: ") for _, _, text in caplog.record_tuples)


def test_what_a_node_says_cannot_begin_a_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    probe, post = make_probe(tmp_path)
    post.hosts[101] = replace(post.hosts[101], name=f"a\n{FLEET_LINE}")
    handle = DeviceHost.handle

    def refusing(self: DeviceHost, call: Call) -> object:
        is_odd = self.name == "device-2" and isinstance(call, Probe)
        return Refused(f"no\r\n{FLEET_LINE}\u2028\x1b") if is_odd else handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", refusing)
    assert [one.name for one in probe.run().classes] == ["device-0"]
    texts = [text for logger, _, text in caplog.record_tuples if logger == "codedfl.engine.server"]
    assert all(text.isprintable() for text in texts)
    assert f"device-2 cannot be measured: no\\r\\n{FLEET_LINE}\\u2028\\x1b" in texts
    assert f"node 101 cannot take part: a device's name must be printable, got 'a\\n{FLEET_LINE}'" in texts


def test_without_nodes_there_is_no_fleet(tmp_path: Path):
    probe, post = make_probe(tmp_path)
    post.hosts.clear()
    with pytest.raises(NotEnoughDevices, match=r"^at least one device must let itself be measured, got none$"):
        probe.run()


def test_the_model_of_computing_is_fitted():
    rate, setup = mac_rate_and_setup([2.0, 3.0, 4.0], 1000)
    assert rate == 500.0
    assert setup == pytest.approx(0.5)


def test_a_link_too_fast_to_notice_gets_a_rate_it_has_at_least():
    assert link_rate(1_000_000, 5.0, 1.0) == 2e6
    assert link_rate(1_000_000, 1.0, 1.1) == 8e6 / 3


def test_a_node_measures_itself():
    assert len(time_products(30, 2, 4)) == 4
    measured = answer_probe(Probe(30, 2, 3, b"ignored", 100))
    assert len(measured.seconds) == 3 and len(measured.payload) == 100
    assert answer_probe(Probe(0, 0, 0)) == Measured(())


@pytest.mark.parametrize(("d", "c"), [(1200, 10), (30, 10_000), (1, 400_000)])
def test_a_probe_takes_the_memory_it_may(d: int, c: int):
    """8 bytes for each of d d + 4 d c numbers, of which a node grants 2^25."""
    time_products(10, 2, 1)  # what is compiled or imported once does not count
    tracemalloc.start()
    try:
        time_products(d, c, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * d * (d + 4 * c) + (1 << 20)
    with pytest.raises(
        MessageRefused, match=r"^a probe's product must be of at most 33554432 numbers \(d d \+ 4 d c\), "
    ):
        answer_probe(Probe(40 * d, 40 * c, 1))


@pytest.mark.parametrize("call", [Probe(20_000, 1, 1), Probe(1, 1, 2000), Probe(0, 0, 0, b"", 10**9), Probe(-1, 1, 1)])
def test_a_probe_cannot_exhaust_a_node(call: Probe):
    with pytest.raises(MessageRefused, match=r"^a probe('s product)? must"):
        answer_probe(call)


def test_a_bad_configuration_is_refused():
    message = "calls of a probe must be at least 1, got 0"
    with pytest.raises(InvalidInput, match=exactly(message)):
        ProbeConfig.from_config({"devices": 3, "probe-calls": 0})

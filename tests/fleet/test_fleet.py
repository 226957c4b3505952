"""Fleets: the shipped one, other sizes, files with every kind of mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.fleet.fleet import DEFAULT_LATENCY, DeviceClass, Fleet
from wording import exactly

SMALL = """\
[server]
mac_rate = 1e12

[defaults]
setup_factor = 0.5
uplink_rate = 5e6
downlink_rate = 10e6
failure_probability = 0.1
header_overhead = 0.1

[[device]]
count = 2
mac_rate = 1e6

[[device]]
name = "odd"
count = 1
mac_rate = 2e6
failure_probability = 0
"""


def test_the_papers_fleet_has_the_papers_values():
    fleet = Fleet.load("paper")
    assert fleet.n_devices == 25
    assert fleet.mac_rate.tolist() == [25e6] * 10 + [5e6] * 5 + [2.5e6] * 5 + [1.25e6] * 5
    assert fleet.server_mac_rate == 8.24e12
    assert fleet.pad_macs_per_number == 13
    for values, expected in (
        (fleet.setup_factor, 0.5),
        (fleet.uplink_rate, 5e6),
        (fleet.downlink_rate, 10e6),
        (fleet.failure_probability, 0.1),
        (fleet.header_overhead, 0.1),
    ):
        assert values.tolist() == [expected] * 25
    assert fleet.class_of_device.tolist() == [0] * 10 + [1] * 5 + [2] * 5 + [3] * 5


def test_repr():
    paper = Fleet.load("paper")
    assert repr(paper) == "<Fleet 'paper': 25 devices, 1.25e+06 to 2.5e+07 MAC/s>"
    assert repr(paper.scaled_to(1)) == "<Fleet 'paper': 1 device, 2.5e+07 MAC/s>"


def test_arrays_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        Fleet.load("paper").mac_rate[0] = 1


@pytest.mark.parametrize(
    ("n_devices", "counts"),
    [
        (120, [48, 24, 24, 24]),
        (1000, [400, 200, 200, 200]),
        (25, [10, 5, 5, 5]),
        (7, [3, 2, 1, 1]),  # 2.8, 1.4, 1.4, 1.4: ties go to the first class
        (1, [1]),
    ],
)
def test_scaled_to_keeps_the_mix(n_devices: int, counts: list[int]):
    fleet = Fleet.load("paper").scaled_to(n_devices)
    assert fleet.n_devices == n_devices
    assert [c.count for c in fleet.classes] == counts


def test_scaled_to_refuses_an_empty_fleet():
    with pytest.raises(InvalidInput, match=r"^n_devices must be an integer from 1 to 1000000, got 0$"):
        Fleet.load("paper").scaled_to(0)


def test_defaults_give_way_to_a_classs_own_values():
    fleet = Fleet.loads(SMALL, name="small")
    assert fleet.failure_probability.tolist() == [0.1, 0.1, 0.0]
    assert [c.name for c in fleet.classes] == ["class 0", "odd"]
    assert fleet.name == "small"


def test_the_cost_factors_are_charged_unless_the_file_says_otherwise():
    assert Fleet.loads(SMALL).pad_macs_per_number == 13
    free = Fleet.loads(SMALL + "[costs]\npad_macs_per_number = 0\nseal_macs_per_number = 0\n")
    assert (free.pad_macs_per_number, free.seal_macs_per_number) == (0, 0)


def test_dumps_and_loads_are_inverse():
    paper = Fleet.load("paper")
    assert Fleet.loads(paper.dumps()) == paper
    odd = replace(paper, name='"quoted"\n\\ \x7f é', pad_macs_per_number=1e-20)
    assert Fleet.loads(odd.dumps()) == odd


def test_save_and_load(tmp_path: Path):
    (tmp_path / "lab.toml").write_text(SMALL)
    fleet = Fleet.load(tmp_path / "lab.toml")
    assert fleet.name == "lab"
    (tmp_path / "copy.toml").write_text(fleet.dumps())
    assert Fleet.load(str(tmp_path / "copy.toml")) == fleet


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mac_rate = 2e6", "mac_rate = 0", "device[1].mac_rate must be positive, got 0"),
        ("mac_rate = 2e6", "mac_rate = -1e6", "device[1].mac_rate must be positive, got -1000000.0"),
        ("mac_rate = 2e6", "mac_rate = nan", "device[1].mac_rate must be a finite number, got nan"),
        ("mac_rate = 2e6", "mac_rate = inf", "device[1].mac_rate must be a finite number, got inf"),
        ("mac_rate = 2e6", "mac_rate = true", "device[1].mac_rate must be a finite number, got True"),
        ("mac_rate = 2e6", 'mac_rate = "2e6"', "device[1].mac_rate must be a finite number, got '2e6'"),
        ("mac_rate = 2e6\n", "", "device[1].mac_rate must be given, got nothing"),
        (
            "failure_probability = 0\n",
            "failure_probability = 1.2\n",
            "device[1].failure_probability must be in [0, 1), got 1.2",
        ),
        (
            "failure_probability = 0.1",
            "failure_probability = 1",
            "defaults.failure_probability must be in [0, 1), got 1",
        ),
        (
            "setup_factor = 0.5",
            "setup_factor = -0.5",
            "defaults.setup_factor must be zero or positive, got -0.5",
        ),
        ("count = 1", "count = 1\nlatency = -0.1", "device[1].latency must be zero or positive, got -0.1"),
        ("count = 1", "count = 1\nlatency = nan", "device[1].latency must be a finite number, got nan"),
        (
            "header_overhead = 0.1",
            "header_overhead = -1",
            "defaults.header_overhead must be zero or positive, got -1",
        ),
        ("uplink_rate = 5e6", "uplink_rate = 0", "defaults.uplink_rate must be positive, got 0"),
        ("downlink_rate = 10e6", "downlink_rate = []", "defaults.downlink_rate must be a finite number, got []"),
        ("count = 1", "count = 0", "device[1].count must be an integer from 1 to 1000000, got 0"),
        ("count = 1", "count = 1.5", "device[1].count must be an integer from 1 to 1000000, got 1.5"),
        ("count = 1", "count = true", "device[1].count must be an integer from 1 to 1000000, got True"),
        ('name = "odd"', 'name = ""', "device[1].name must be a non-empty string, got ''"),
        ("mac_rate = 1e12", "mac_rate = 0", "server.mac_rate must be positive, got 0"),
        ("mac_rate = 1e12", "", "server.mac_rate must be given, got nothing"),
        (
            "mac_rate = 1e12",
            "mac_rate = 1e12\ncores = 4",
            "server.cores is not a known key (mac_rate), got 4",
        ),
        (
            "[server]",
            "[costs]\npad_macs_per_number = -1\n[server]",
            "costs.pad_macs_per_number must be zero or positive, got -1",
        ),
        (
            "[server]",
            "[costs]\npads = 1\n[server]",
            "costs.pads is not a known key (pad_macs_per_number, seal_macs_per_number, hash_macs_per_number,"
            " verification_macs, signature_macs, exchange_macs), got 1",
        ),
        ("[server]", "name = 7\n[server]", "name must be a non-empty string, got 7"),
        (
            "[server]",
            "devices = 3\n[server]",
            "devices is not a known key (name, server, costs, defaults, device, latency_models, like), got 3",
        ),
        ("[server]\nmac_rate = 1e12", "server = 3", "server must be a table, got 3"),
        (
            "count = 1",
            "count = 1\nmac_rte = 3e6",
            "device[1].mac_rte is not a known key (name, count, mac_rate, setup_factor, uplink_rate, "
            "downlink_rate, failure_probability, header_overhead, latency), got 3000000.0",
        ),
    ],
)
def test_a_bad_value_is_named_with_its_file_key_and_rule(old: str, new: str, message: str):
    text = SMALL[::-1].replace(old[::-1], new[::-1], 1)[::-1]  # the last occurrence
    with pytest.raises(InvalidInput) as caught:
        Fleet.loads(text, source="lab.toml")
    assert str(caught.value) == f"lab.toml: {message}"


def test_a_fleet_has_devices():
    text = SMALL[: SMALL.index("[[device]]")]
    with pytest.raises(InvalidInput, match=r"^lab.toml: device must have at least one class, got none$"):
        Fleet.loads(text, source="lab.toml")
    with pytest.raises(InvalidInput, match=r"^lab.toml: device must be an array of tables, got \{'count': 3\}$"):
        Fleet.loads(text + "[device]\ncount = 3\n", source="lab.toml")


def test_an_integer_beyond_floats_is_refused():
    text = SMALL.replace("mac_rate = 2e6", f"mac_rate = {10**400}")
    with pytest.raises(InvalidInput, match=r"^fleet: device\[1\].mac_rate must be a finite number, got 10+$"):
        Fleet.loads(text)


def test_text_that_is_not_toml():
    with pytest.raises(InvalidInput, match=r"^lab.toml: a fleet must be valid TOML, got: .*at line 2, column 1.*"):
        Fleet.loads("[server]\n= 3", source="lab.toml")


def test_a_fleet_that_does_not_exist(tmp_path: Path):
    path = str(tmp_path / "none.toml")
    shipped = "coming-and-going, congested, drifting, fast-processors, heavy-tailed, paper"
    message = f"fleet must be a readable TOML file or a shipped fleet ({shipped}), got {path!r}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        Fleet.load(path)


def test_a_class_made_in_code_is_checked_too():
    with pytest.raises(InvalidInput, match=r"^failure_probability must be in \[0, 1\), got 1.2$"):
        DeviceClass("x", 1, 1e6, 0.5, 1e6, 1e6, 1.2, 0.1)
    count: Any = np.int64(3)  # numpy's numbers are welcome
    made = DeviceClass("x", count, np.float64(1e6), 0.5, 1e6, 1e6, 0.0, 0.0)
    fleet = Fleet("lab", (made,), 1e12)
    assert Fleet.loads(fleet.dumps()) == fleet


def test_a_message_has_the_latency_of_lte_unless_the_fleet_says_otherwise():
    assert (Fleet.load("paper").latency == 0).all(), "the paper counts none"
    assert (Fleet.loads(SMALL).latency == DEFAULT_LATENCY).all()
    own = Fleet.loads(SMALL.replace("header_overhead = 0.1", "header_overhead = 0.1\nlatency = 0.2"))
    assert (own.latency == 0.2).all()
    assert (Fleet.loads(own.dumps()).latency == 0.2).all()

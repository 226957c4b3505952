from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_runner import Run

OWN = """
[server]
mac_rate = 1e9

[costs]
seal_macs_per_number = 10

[[device]]
name = "[phone]"
count = 3
mac_rate = 1e6
setup_factor = 0
uplink_rate = 1e6
downlink_rate = 2e6
failure_probability = 0
header_overhead = 0
latency = 0.04
"""


def test_the_paper_s_fleet_has_the_paper_s_epochs_with_masks_and_sealing_charged(run: Run):
    outcome = json.loads(run("lab", "fleet", "show", "--json", "-").stdout)
    assert [(one["name"], one["count"]) for one in outcome["classes"]] == [
        ("fast", 10),
        ("medium", 5),
        ("slow", 5),
        ("slowest", 5),
    ]
    means = {one.get("alpha", one["scheme"]): one["epoch_s_mean"] for one in outcome["epochs"]}
    assert means == {
        "conventional": pytest.approx(33, rel=0.03),
        6: pytest.approx(33.2, rel=0.03),  # the paper, which has no masks: 31.5, 4.3, 2.22, 2.01
        16: pytest.approx(4.79, rel=0.03),
        23: pytest.approx(2.55, rel=0.03),
        25: pytest.approx(2.32, rel=0.03),
    }
    assert [one["waits_for"] for one in outcome["epochs"]] == [25, 20, 10, 3, 1]


def test_in_words(run: Run):
    result = run("lab", "fleet", "show", "--devices", "10")
    said = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert said[0] == "Fleet 'paper': 10 devices; how long each takes to answer, on average"
    assert said[3] == "fast 4 2.5e+07 0.5 5/10 10 % 10 % 0 ms 3.13 s 2.80 s"
    assert any(line.startswith("conventional FL the last of 10 answers") for line in said)
    assert any(line.startswith("coded-padded, α = 9 the first 2 of 10 answers") for line in said)
    assert any(line.startswith("coded-padded, α = 10 the first of 10 answers") for line in said)


def test_a_fleet_of_the_user_s_is_computed_by_hand(run: Run):
    Path("own.toml").write_text(OWN)
    arguments = ("--n-features", "100", "--n-outputs", "2", "--samples", "300")
    result = run("lab", "fleet", "show", "own.toml", *arguments, "--json", "-")
    outcome = json.loads(result.stdout)
    assert "[phone]" in result.stderr, "a name is not markup"
    numbers, seal, pad = 100 * 2, 10, 13
    # d^2 c MACs, sealing and masks at 1e6 MAC/s; d c numbers of 48 bits down at 2 and up at 1 Mbit/s, 40 ms each way.
    link = numbers * 48 * (1 / 1e6 + 1 / 2e6) + 2 * 0.04

    def coded(alpha: int, devices: int) -> float:
        streams = min(alpha + 1, devices)
        return (100 * numbers + seal * numbers + streams * (pad + 1) * numbers) / 1e6 + link

    devices = sum(one["count"] for one in outcome["classes"])
    for one in outcome["epochs"][1:]:
        assert one["epoch_s_mean"] == pytest.approx(coded(one["alpha"], devices))

from __future__ import annotations

import json

import pytest
from command_runner import Run

from codedfl.schemes import SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_a_table(run: Run, scheme: str):
    result = run("privacy", scheme, "--devices", 8)
    assert result.exit_code == 0, result.stderr
    assert "server" in result.stdout


def test_a_collusion_exposes_the_alpha_devices_answered_for(run: Run):
    result = run("privacy", "coded-keys", "--devices", 8, "--alpha", 3, "--json", "-")
    rows = {row["party"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["server"]["exposed"] == 0
    assert rows["server and one device"]["exposed"] == 2  # its own member is not counted


def test_alpha_makes_no_sense_without_a_code(run: Run):
    result = run("privacy", "conventional", "--alpha", 3)
    message = "error: --alpha and --groups must be left out with conventional, which has no code\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_spare_answers_are_an_option_of_train(run: Run):
    result = run("train", "digits", "--devices", 6, "--n-features", 30, "--spare", 2, "--epochs", 3)
    assert result.exit_code == 0, result.stderr
    too_many = run(
        "train", "digits", "--devices", 6, "--n-features", 30, "--scheme", "coded-keys", "--alpha", 2, "--spare", 2
    )
    assert too_many.exit_code == 2

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


def test_the_default_withstands_one_colluder(run: Run):
    outcome = json.loads(run("privacy", "--json", "-").stdout)
    assert (outcome["scheme"], outcome["z"], outcome["devices"]) == ("role-keys", 1, 25)
    assert outcome["protection"] == "no device is exposed by one colluder"
    exposed = {row["party"]: row["exposed"] for row in outcome["rows"]}
    assert exposed["server and any 1 device(s)"] == 0
    assert exposed["server and 2 devices of different roles"] == 23


@pytest.mark.parametrize(
    ("options", "title"),
    [
        (("role-keys", "--colluders", 2), "role-keys, z = 2, 25 devices"),
        (("role-sums",), "role-sums, z = 1, 25 devices"),
        (("coded-padded",), "coded-padded, α = 23, 25 devices"),
        (("coded-keys", "--groups", 5, "--alpha", 2), "coded-keys, α = 2, 5 groups, 25 devices"),
        (("conventional",), "conventional FL, 25 devices"),
        (("role-keys", "--devices", 3), "role-keys, z = 0, 3 devices"),
    ],
)
def test_the_table_says_what_it_is_about(run: Run, options: tuple[object, ...], title: str):
    result = run("privacy", *options)
    assert result.stdout.splitlines()[0].strip() == title


def test_options_of_other_schemes_are_refused(run: Run):
    message = "error: --alpha and --groups must be left out with role-keys, which has no code\n"
    result = run("privacy", "role-keys", "--alpha", 3)
    assert (result.exit_code, result.stderr) == (2, message)
    message = "error: --colluders must be left out with coded-keys, which has no roles, got 2\n"
    result = run("privacy", "coded-keys", "--colluders", 2)
    assert (result.exit_code, result.stderr) == (2, message)
    message = "error: the number of devices must be at least colluders + 2 (6), got 5\n"
    result = run("privacy", "--colluders", 4, "--devices", 5)
    assert (result.exit_code, result.stderr) == (2, message)


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

from __future__ import annotations

import json

import pytest
from command_runner import Run

from codedfl_lab.schemes.registry import SCHEMES


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_a_table(run: Run, scheme: str):
    result = run("lab", "privacy", scheme, "--devices", 8)
    assert result.exit_code == 0, result.stderr
    assert "server" in result.stdout


def test_a_collusion_exposes_the_alpha_devices_answered_for(run: Run):
    result = run("lab", "privacy", "coded-keys", "--devices", 8, "--alpha", 3, "--json", "-")
    rows = {row["party"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["server"]["exposed"] == 0
    assert rows["server and one device"]["exposed"] == 2  # its own member is not counted


def test_the_default_withstands_one_colluder(run: Run):
    outcome = json.loads(run("lab", "privacy", "--json", "-").stdout)
    assert (outcome["scheme"], outcome["z"], outcome["devices"]) == ("role-keys", 1, 25)
    assert outcome["protection"] == "no device is exposed by one colluder"
    exposed = {row["party"]: row["exposed"] for row in outcome["rows"]}
    assert exposed["server and one device"] == 0
    assert exposed["server and two devices (worst pair)"] == 23


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
    result = run("lab", "privacy", *options)
    assert result.stdout.splitlines()[0].strip() == title


def test_options_of_other_schemes_are_refused(run: Run):
    message = "error: --alpha must be left out with scheme role-keys, which has roles instead of a code, got 3\n"
    result = run("lab", "privacy", "role-keys", "--alpha", 3)
    assert (result.exit_code, result.stderr) == (2, message)
    message = "error: --colluders must be left out with scheme coded-keys, which has no roles, got 2\n"
    result = run("lab", "privacy", "coded-keys", "--colluders", 2)
    assert (result.exit_code, result.stderr) == (2, message)
    message = "error: the number of devices must be at least colluders + 2 (6), got 5\n"
    result = run("lab", "privacy", "--colluders", 4, "--devices", 5)
    assert (result.exit_code, result.stderr) == (2, message)


def test_alpha_makes_no_sense_without_a_code(run: Run):
    result = run("lab", "privacy", "conventional", "--alpha", 3)
    message = "error: --alpha must be left out with scheme conventional, which has no code, got 3\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_spare_answers_are_an_option_of_train(run: Run):
    result = run("lab", "train", "digits", "--devices", 6, "--n-features", 30, "--set", "spare=2", "--epochs", 3)
    assert result.exit_code == 0, result.stderr
    too_many = run(
        "lab",
        "train",
        "digits",
        "--devices",
        6,
        "--n-features",
        30,
        "--scheme",
        "coded-keys",
        "--alpha",
        2,
        "--set",
        "spare=2",
    )
    assert too_many.exit_code == 2


def test_noise_is_promised_for_the_run(run: Run):
    result = run("lab", "privacy", "role-sums", "--epsilon", 1, "--honest", 20, "--json", "-")
    assert result.exit_code == 0, result.stderr
    (this_run,) = json.loads(result.stdout)["noise"]
    assert "made of this run by at most a factor of 2.72 (epsilon = 1), but for 1e-05 (delta)" in this_run


def test_noise_needs_a_scheme_that_has_it(run: Run):
    result = run("lab", "privacy", "coded-keys", "--epsilon", 1, "--honest", 3)
    message = "error: --epsilon must go with role-sums or role-keys, got coded-keys, whose devices add no noise\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_noise_is_an_option_of_train(run: Run):
    result = run(
        "lab", "train", "digits", "--devices", 6, "--n-features", 30, "--epsilon", 8, "--set", "honest=4", "--json", "-"
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["scheme"], told["epsilon"], told["delta"], told["honest"]) == ("role-sums", 8, 1e-5, 4)
    assert told["score"] > 0.2
    assert 0 < told["shortened"] < told["train_rows"]

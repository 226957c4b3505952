"""Plan files: one writer, one reader for ``train`` and for federations, and a plan only where it was made for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from codedfl.errors import InvalidInput
from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.planning.plan_file import MadeFor, PlanFile, fleet_digest, load_plan, scheme_of

PAPER = Fleet.load("paper")
HERE = MadeFor.of('with "quotes"', 1438, 500, 10, PAPER)


@pytest.mark.parametrize(
    "scheme",
    [CodedKeys(23, 1, 2), CodedPadded(8, 3), OneShot(25), RoleKeys(4, 12, 2), Conventional(), CodedFedL(0.5)],
    ids=lambda s: s.name,
)
def test_a_plan_comes_back_with_all_its_parameters(tmp_path: Path, scheme) -> None:
    path = tmp_path / "plan.toml"
    made = PlanFile(scheme, "closed-form", 7, 0.95, HERE, {"seconds_mean": 70.5})
    made.save(path)
    assert load_plan(path) == made
    assert "seconds_mean = 70.5" in path.read_text()


def test_a_scheme_comes_back_from_what_results_say_of_it() -> None:
    """Results call the colluders of role keys z."""
    for scheme in (RoleKeys(4, 12), CodedKeys(23), CodedFedL(0.5)):
        assert scheme_of(scheme.name, scheme.parameters) == scheme


def test_a_plan_is_refused_for_other_data_naming_both() -> None:
    plan = PlanFile(CodedKeys(5), "cg", 12, 0.95, HERE)
    plan.check_fits(HERE)
    other = MadeFor.of("mnist", 60_000, 2000, 10, PAPER)
    with pytest.raises(InvalidInput) as caught:
        plan.check_fits(other)
    assert str(caught.value) == (
        'the plan was made for with "quotes" (1438 rows, 500 features, 10 outputs), got mnist (60000 rows, 2000'
        " features, 10 outputs): make one with codedfl plan"
    )


def test_a_plan_is_refused_for_another_fleet_naming_both() -> None:
    plan = PlanFile(CodedKeys(5), "cg", 12, 0.95, HERE)
    slower = replace(PAPER, classes=tuple(replace(one, mac_rate=one.mac_rate / 2) for one in PAPER.classes))
    with pytest.raises(InvalidInput) as caught:
        plan.check_fits(replace(HERE, fleet_digest=fleet_digest(slower)))
    assert str(caught.value) == (
        f"the plan was made for the fleet 'paper' (25 devices, digest {fleet_digest(PAPER)}), got 'paper' (25 devices,"
        f" digest {fleet_digest(slower)}): make one with codedfl plan"
    )


def test_a_fleet_is_known_by_its_numbers() -> None:
    assert fleet_digest(PAPER) == fleet_digest(replace(PAPER, name="renamed"))
    assert fleet_digest(PAPER) != fleet_digest(replace(PAPER, seal_macs_per_number=0.0))
    assert fleet_digest(PAPER) != fleet_digest(PAPER.scaled_to(24))


def test_spare_answers_are_the_plan_s_or_the_caller_s() -> None:
    plan = PlanFile(CodedKeys(5, 1, 2), "cg", 12)
    assert plan.coded_scheme() == plan.coded_scheme(2) == CodedKeys(5, 1, 2)
    assert PlanFile(CodedKeys(5), "cg", 12).coded_scheme(2) == CodedKeys(5, 1, 2)
    with pytest.raises(InvalidInput, match=r"^spare must be left out with this plan, which asks for 2, got 1$"):
        plan.coded_scheme(1)


def test_a_plan_without_a_code_cannot_be_run() -> None:
    with pytest.raises(InvalidInput) as caught:
        PlanFile(Conventional(), "gd", 200).coded_scheme()
    assert str(caught.value) == (
        "the plan's scheme must be one that runs as a protocol here (coded-padded, coded-keys, one-shot, role-keys,"
        " role-sums), got"
        " conventional"
    )


NEW = 'format = "codedfl-plan-2"\n[made_for]\ndataset = "d"\nsamples = 9\nfeatures = 3\noutputs = 2\nfleet = "f"\n'
NEW += 'fleet_digest = "0"\ndevices = 4\n[plan]\nscheme = "coded-keys"\nsolver = "cg"\nepochs = 3\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = [", "the plan file must be TOML, got "),
        (
            "a = 1",
            "the plan file must have format codedfl-plan-2 and a table [plan], got None: make one with codedfl plan",
        ),
        (
            'format = "codedfl-plan-2"\n[plan]\nscheme = 3\nepochs = 1\n[plan.parameters]\n',
            "scheme in the plan file must be of type str, got 3",
        ),
        (NEW, "parameters in the plan file must be a table, got None"),
        (NEW + "[plan.parameters]\n", "alpha in the plan file must be of type int, got None"),
        (NEW + "[plan.parameters]\nalpha = true\n", "alpha in the plan file must be of type int, got True"),
        (
            NEW + "[plan.parameters]\nalpha = 2\nbeta = 1\n",
            "parameters in the plan file must be those of coded-keys (alpha, groups, spare), got 'beta'",
        ),
        (
            NEW.replace("epochs = 3", "epochs = 0") + "[plan.parameters]\n",
            "epochs in the plan file must be at least 1, got 0",
        ),
        (NEW.replace("devices = 4", "devices = 4.0"), "devices in the plan file must be of type int, got 4.0"),
        (
            NEW.replace("coded-keys", "magic") + "[plan.parameters]\n",
            "scheme in the plan file must be one of coded-padded, coded-keys, one-shot, role-keys, role-sums,"
            " coded-fedl, coded-secagg, conventional, conventional-full-batch, drop-slowest, light-secagg, got 'magic'",
        ),
    ],
)
def test_bad_plan_files_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
        load_plan(path)


def test_a_missing_plan_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^the plan file must exist, got "):
        load_plan(tmp_path / "none.toml")

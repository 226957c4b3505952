"""The check that holds the race against results.json finds a figure that is not the run's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from experiments.race_tables import (
    CODED,
    LIGHT,
    RACE,
    goal_lines,
    missing,
    prepared_lines,
    race_lines,
    readme_lines,
    sentences,
)

from codedfl_lab.comparing.results import AtSize, ExposureResult, Preparation, Racer, Speedups, Timed
from codedfl_lab.reproduce.beyond import AIMS, COLUMNS
from made_up_results import entry, made_up_results, made_up_timed

README, METHODS, REPRODUCE = "README.md", "docs/methods.md", "docs/reproduce.md"


def made_up() -> dict[str, Any]:
    goals = tuple(
        Racer(
            *(aim.course.dataset, aim.scheme, aim.solver, aim.z, aim.course.devices, aim.course.features),
            columns=tuple(
                Timed(column, f"{aim.scheme}, z = {aim.z}", 21.5, 420.0 - place, 340.0, 576.0, 20.0 - place, aim.call)
                for place, column in enumerate(COLUMNS)
            ),
        )
        for aim in AIMS
    )
    rows = [
        entry(
            *(0.95, 21.5),
            label=label,
            solver=solver,
            sharing=sharing,
            private=sees == "the total only",
            exposure=ExposureResult(0, 0, 1),
            speedup_over_conventional=Speedups(424.0, low=340.0, high=576.0),
        )
        for (label, solver), sees in RACE.items()
        for sharing in ("authors", "per-message")
    ]
    steps = tuple(Preparation("role-keys, z = 1", 25, "enrol", kind, 1.5) for kind in ("fast", "slow"))
    scaling = (at_size(120, "coded-padded", 100.0, {"alpha": 24, "groups": 5}),)
    peers = tuple(at_size(size, name, took) for size in (25, 120) for name, took in ((LIGHT, 660.0), (CODED, 100.0)))
    made = made_up_results(rows, goals=goals, preparations=steps, scaling=scaling, peers=peers)
    found: dict[str, Any] = json.loads(made.json_bytes())
    return found


def at_size(devices: int, scheme: str, seconds: float, parameters: dict[str, float] | None = None) -> AtSize:
    timed = made_up_timed(scheme=scheme, solver="gd", seconds_mean=seconds, parameters=parameters or {"z": 1})
    return AtSize("mnist", devices, "multicast", True, timed, 11.2)


def documents(found: dict[str, Any]) -> dict[str, str]:
    prose = {name: "\n".join(wanted).replace(" the ", "\nthe ") for name, wanted in sentences(found).items()}
    methods = [*race_lines(found), *goal_lines(found), *prepared_lines(found), prose[METHODS]]
    return {README: "\n".join(readme_lines(found)), METHODS: "\n".join(methods), REPRODUCE: prose[REPRODUCE]}


def test_lines_are_those_of_the_run() -> None:
    made = documents(found := made_up())
    assert missing(found, made) == []
    assert (
        "| role-keys, z = 1 | block Krylov | 10 | 21.5 s | 424 (340 to 576) | the total only | none |" in made[METHODS]
    )
    assert (
        "| MNIST, 1000 | role-keys, z = 1 | 21.5 s | 420 (340 to 576) | 20.0 | 900: no goal |"
        " 21.5 s | 419 (340 to 576) | 19.0 | 900: no goal | 418 |" in made[METHODS]
    )
    assert "| 25: z = 1 | enrol | 1.50 | 1.50 |" in made[METHODS]
    assert "| role keys | 420 | 419 |" in made[README]


@pytest.mark.parametrize(
    ("name", "figure", "other"),
    [
        (README, "| role keys | 420 |", "| role keys | 421 |"),
        (METHODS, "| role-keys, z = 1 | block Krylov | 10 | 21.5 s", "| role-keys, z = 1 | block Krylov | 10 | 21.6 s"),
        (METHODS, "| Fashion-MNIST, 25 | role-keys, z = 9 | 21.5 s", "| Fashion-MNIST, 25 | role-keys, z = 9 | 21.6 s"),
        (METHODS, "| enrol | 1.50", "| enrol | 1.60"),
        (REPRODUCE, "in 5 groups, is 11.2 times", "in 5 groups, is 11.3 times"),
        (REPRODUCE, "CodedSecAgg is 6.6 and 6.6 times", "CodedSecAgg is 6.6 and 6.7 times"),
        (METHODS, "From zero\nthe 420 are 419", "From zero\nthe 420 are 418"),
    ],
)
def test_a_figure_that_is_not_the_runs_is_found(name: str, figure: str, other: str) -> None:
    made = documents(found := made_up())
    assert figure in made[name]
    assert len(missing(found, {**made, name: made[name].replace(figure, other)})) == 1

"""The check that holds the race against results.json finds a figure that is not the run's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from experiments.race_tables import RACE, goal_lines, missing, price_lines, race_lines, readme_lines

from codedfl_lab.comparing.results import AtPrice, ExposureResult, Speedups
from codedfl_lab.reproduce.beyond import AIMS, PRICES
from made_up_results import entry, made_up_results


def made_up() -> dict[str, Any]:
    prices = tuple(AtPrice(price, 420.0 - place, 340.0, 576.0) for place, price in enumerate(PRICES))
    goals = tuple(replace(aim, label=f"{aim.scheme}, z = {aim.z}, 32 bits", prices=prices) for aim in AIMS)
    faster = Speedups(424.0, low=340.0, high=576.0)
    rows = [
        entry(
            *(0.95, 21.5),
            label=label,
            solver=solver,
            private=sees == "the total only",
            exposure=ExposureResult(0, 0, 1),
            speedup_over_conventional=faster,
        )
        for (label, solver), sees in RACE.items()
    ]
    found: dict[str, Any] = json.loads(made_up_results(rows, goals=goals).json_bytes())
    return found


def test_a_figure_that_is_not_the_runs_is_found() -> None:
    found = made_up()
    readme = "\n".join(readme_lines(found))
    methods = "\n".join([*race_lines(found), *goal_lines(found), *price_lines(found)])
    assert "| role-keys, z = 1 | block Krylov | 10 | 21.5 s | 424 (340 to 576) | the total only | none |" in methods
    assert (
        "| MNIST, 1000 devices, z = 1 | 380 | 420 (340 to 576) | no goal | 419 | 418 | 417, 416, 415 | 414 |" in methods
    )
    assert "| role keys | conventional federated learning | 424 |" in readme
    assert readme.endswith("| the same | the strongest baseline | 420 |")
    assert missing(found, readme, methods) == []
    assert missing(found, readme.replace("learning | 424", "learning | 425"), methods) == readme.splitlines()[:-1]
    (wrong,) = missing(found, readme, methods.replace("Fashion-MNIST, 25 devices, z = 9 | 160 | 420", "| 421"))
    assert wrong.startswith("| Fashion-MNIST, 25 devices, z = 9 | 160 | 420")
    priced = methods.replace("| 416 (", "| 417 (")
    assert missing(found, readme, priced)[0].startswith("| pads × 2 |")

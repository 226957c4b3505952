"""The race in docs/methods.md and README, line by line, from results.json of ``codedfl lab reproduce beyond``.

``python -m experiments.race_tables results/beyond`` prints every line that the documents do not hold as it is, and ends
with 1 if there is one: figures are copied from one run of the command, and cannot drift from it unseen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codedfl.report.text import count, number
from codedfl_lab.comparing.names import FAIR_RIVAL, solver_name
from codedfl_lab.report.rows import dataset_name
from experiments.code_lines import ROOT

RACE = {
    ("conventional FL", "gd"): "each device's gradient",
    ("conventional FL, full batch", "block-krylov"): "each device's gradient",
    ("coded-padded, α = 23", "gd"): "the total only",
    ("coded-keys, α = 25", "block-krylov"): "the total only",
    ("role-keys, z = 1", "block-krylov"): "the total only",
    ("role-keys, z = 1, K = 5, 32 bits", "block-krylov"): "the total only",
    ("role-keys, z = 4, 32 bits", "block-krylov"): "the total only",
    ("role-keys, z = 9, 32 bits", "block-krylov"): "the total only",
}
"""Rows of the first table by label and solver, and what the server sees."""
_PAPERS = "conventional federated learning"
IN_README = {
    ("the paper's scheme (the paper: 6.6)", _PAPERS): ("coded-padded, α = 23", "gd"),
    ("the strongest baseline: a better solver, no privacy", _PAPERS): ("conventional FL, full batch", "block-krylov"),
    ("role keys", _PAPERS): ("role-keys, z = 1", "block-krylov"),
    ("role keys with blocks of rows, in fewer bits", _PAPERS): ("role-keys, z = 1, K = 5, 32 bits", "block-krylov"),
}
"""What README calls a row of the first table, and what that is compared with: its label and solver."""
CHARGED = (
    "as in the headline",
    "own pads too",
    "public-key operations too",
    "pads × 0",
    "pads × 2",
    "pads × 4",
    "48-bit work",
)


def race_lines(found: dict[str, Any]) -> Iterator[str]:
    """The first table: MNIST, mean times, messages in one lump."""
    rows = {
        (row["label"], row["solver"]): row
        for row in found["schemes"]
        if (row["dataset"], row["sharing"], row["chunked"]) == ("mnist", "authors", False)
    }
    for method, sees in RACE.items():
        row = rows[method]
        exposed = row["exposure"]["one_colluder"] if row["private"] else "all"
        faster = row["speedup_over_conventional"]
        yield _line(
            *(method[0], solver_name(method[1]) or "descent", count(row["epochs_to_target"]["median"])),
            f"{number(row['time_to_target_s']['median'])} s",
            _interval(faster["median"], faster["low"], faster["high"]),
            *(sees, str(exposed or "none")),
        )


def goal_lines(found: dict[str, Any]) -> Iterator[str]:
    """The second table: every row of role keys, judged."""
    for goal in found["goals"]:
        if goal["scheme"] != "role-keys":
            continue
        headline, *others = goal["prices"]
        own, keys, *pads, whole = (number(one["speedup"]) for one in others)
        variant = goal["label"].removeprefix("role-keys, ").removesuffix(", 32 bits")
        words = f"{dataset_name(goal['dataset'])}, {count(goal['devices'])} devices, {variant}"
        words += ", low frequencies" * (goal["features"] != "rbf")
        words += ", against the fair rival" * (goal["rival"] == FAIR_RIVAL)
        wanted = "–" if goal["goal"] is None else f"{goal['goal']:g}"
        reached = _interval(headline["speedup"], headline["low"], headline["high"])
        yield _line(words, wanted, reached, goal["verdict"], own, keys, ", ".join(pads), whole)


def price_lines(found: dict[str, Any]) -> Iterator[str]:
    """The table of prices: four schemes on MNIST, 25 devices, against conventional FL."""
    columns = [("conventional-full-batch", None), ("coded-padded", None), ("coded-keys", None), ("role-keys", 1)]
    goals = {
        (goal["scheme"], goal["z"]): goal["prices"]
        for goal in reversed(found["goals"])
        if (goal["dataset"], goal["devices"], goal["rival"], goal["features"]) == ("mnist", 25, "conventional", "rbf")
    }
    for place, words in enumerate(CHARGED):
        prices = (goals[column][place] for column in columns)
        yield _line(words, *(_interval(one["speedup"], one["low"], one["high"]) for one in prices))


def readme_lines(found: dict[str, Any]) -> Iterator[str]:
    """README's table: the paper's own comparison first."""
    faster = {
        (row["label"], row["solver"]): row["speedup_over_conventional"]["median"]
        for row in found["schemes"]
        if (row["dataset"], row["sharing"], row["chunked"]) == ("mnist", "authors", False)
    }
    for words, method in IN_README.items():
        yield _line(*words, number(faster[method]))
    (rival,) = (
        goal
        for goal in found["goals"]
        if (goal["scheme"], goal["dataset"], goal["devices"], goal["rival"], goal["features"])
        == ("role-keys", "mnist", 25, FAIR_RIVAL, "rbf")
    )
    yield _line("the same", "the strongest baseline", number(rival["prices"][0]["speedup"]))


def missing(found: dict[str, Any], readme: str, methods: str) -> list[str]:
    """Lines that a document does not hold."""
    wanted = {
        readme: list(readme_lines(found)),
        methods: [*race_lines(found), *goal_lines(found), *price_lines(found)],
    }
    return [line for text, lines in wanted.items() for line in lines if line not in text.splitlines()]


def _interval(middle: float | None, low: float | None, high: float | None) -> str:
    return number(middle) + (f" ({number(low)} to {number(high)})" if low != high else "")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(folder: str) -> None:
    """Print what is missing."""
    found = json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))
    lines = missing(found, *((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/methods.md")))
    print("\n".join(lines) or "README and docs/methods.md have the figures of this run")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The race in README and two pages of docs, line by line, from results.json of ``codedfl lab reproduce beyond``.

``python -m experiments.race_tables results/beyond`` prints every line and every sentence that the documents do not hold
as it is, and ends with 1 if there is one: figures are copied from one run of the command, and cannot drift from it
unseen. The sentences are those of their prose that have a figure of the race.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codedfl.report.text import count, number, seconds
from codedfl_lab.comparing.names import solver_name
from codedfl_lab.report.rows import dataset_name
from experiments.code_lines import ROOT

RACE = {
    ("conventional FL", "gd"): "each device's gradient",
    ("conventional FL, full batch", "block-krylov"): "each device's gradient",
    ("coded-padded, α = 23", "gd"): "the total only",
    ("coded-keys, α = 25", "block-krylov"): "the total only",
    ("role-keys, z = 1", "block-krylov"): "the total only",
    ("role-keys, z = 1, K = 5, 32 bits", "block-krylov"): "the total only",
    ("role-keys, z = 4, K = 2, 32 bits", "block-krylov"): "the total only",
    ("role-keys, z = 9, 32 bits", "block-krylov"): "the total only",
}
"""Rows of the first table by label and solver, and what the server sees."""
ROLES, RBF, DCT = ("role-keys", 1), "rbf", "dct-rbf"
IN_README = {
    "the paper's scheme (the paper: 6.6)": ("coded-padded", None, 25, RBF),
    "the strongest baseline: a better solver, no privacy": ("conventional-full-batch", None, 25, RBF),
    "role keys": (*ROLES, 25, RBF),
    "role keys on the pictures' low frequencies": (*ROLES, 25, DCT),
    "role keys, 1000 devices": (*ROLES, 1000, RBF),
    "role keys, 10 000 devices": (*ROLES, 10_000, RBF),
}
"""What README calls a racer on MNIST: its scheme, z, devices and features."""
LIGHT, CODED = "light-secagg", "coded-secagg"


def race_lines(found: dict[str, Any]) -> Iterator[str]:
    """The first table: MNIST from the call, mean times, messages in one lump."""
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
            _seconds(row["time_to_target_s"]["median"]),
            _interval(faster["median"], faster["low"], faster["high"]),
            *(sees, str(exposed or "none")),
        )


def goal_lines(found: dict[str, Any]) -> Iterator[str]:
    """The second table: every racer, from the call and from zero."""
    for racer in found["goals"]:
        call, zero, ring = racer["columns"]
        words = f"{dataset_name(racer['dataset'])}, {count(racer['devices'])}"
        words += ", low frequencies" * (racer["features"] != RBF)
        yield _line(words, _variant(call, zero), *_cells(call), *_cells(zero), number(ring["speedup"]))


def _variant(call: dict[str, Any], zero: dict[str, Any]) -> str:
    """The label, and of another variant that is faster from zero what sets it apart."""
    apart = zero["label"].partition(", ")[2]
    return call["label"] + (f" (from zero {apart})" if zero["label"] != call["label"] else "")


def _cells(at: dict[str, Any]) -> tuple[str, ...]:
    goal = "–" if at["goal"] is None else f"{at['goal']:g}: {at['verdict']}"
    faster = _interval(at["speedup"], at["low"], at["high"])
    return _seconds(at["time_s"]), faster, number(at["over_strongest"]), goal


def prepared_lines(found: dict[str, Any]) -> Iterator[str]:
    """The third table: what is done before the call, in seconds for each class of devices."""
    rows = found["preparations"]
    classes = list(dict.fromkeys(row["device"] for row in rows))
    of: dict[tuple[str, int, str], dict[str, float]] = {}
    for row in rows:
        of.setdefault((row["label"], row["devices"], row["step"]), {})[row["device"]] = row["seconds"]
    for (label, devices, step), mine in of.items():
        cells = (number(mine[one]) if one in mine else "–" for one in classes)
        yield _line(f"{count(devices)}: {label.removeprefix('role-keys, ')}", step, *cells)


def readme_lines(found: dict[str, Any]) -> Iterator[str]:
    """README's table."""
    for words, wanted in IN_README.items():
        call, zero, _ = racer_of(found, *wanted)["columns"]
        yield _line(words, number(call["speedup"]), number(zero["speedup"]))


def racer_of(found: dict[str, Any], scheme: str, z: int | None, devices: int, features: str) -> dict[str, Any]:
    """A racer on MNIST."""
    (one,) = (
        racer
        for racer in found["goals"]
        if (racer["dataset"], racer["scheme"], racer["z"]) == ("mnist", scheme, z)
        and (racer["devices"], racer["features"]) == (devices, features)
    )
    return one


def sentences(found: dict[str, Any]) -> dict[str, list[str]]:
    """Sentences with figures of the race, by the document that has them."""
    return {"docs/methods.md": list(_methods_sentences(found)), "docs/reproduce.md": list(_reproduce_sentences(found))}


def _methods_sentences(found: dict[str, Any]) -> Iterator[str]:
    call, zero, ring = racer_of(found, *ROLES, 25, RBF)["columns"]
    strongest = racer_of(found, "conventional-full-batch", None, 25, RBF)["columns"][0]
    yield (
        f"Of the {number(call['speedup'])}, {number(strongest['speedup'])} is the solver's, which the strongest"
        " baseline has as well."
    )
    yield (
        f"From zero the {number(call['speedup'])} are {number(zero['speedup'])}, {number(zero['over_strongest'])} times"
        " the strongest baseline's."
    )
    yield f"At the multiple of numpy's ring they are {number(ring['speedup'])}."
    verdicts = [at for racer in found["goals"] for at in racer["columns"] if at["goal"] is not None]
    missed = sum(at["verdict"] == "missed" for at in verdicts)
    below = sum(at["verdict"] == "met, interval reaches below" for at in verdicts)
    yield (
        f"Of {len(verdicts)} goals {len(verdicts) - missed} are met in the median over the seeds, {below} of them with"
        f" an interval that reaches below, and {missed} are missed."
    )
    drawn = {
        (row["label"], row["sharing"]): row["speedup_over_conventional"]["median"]
        for row in found["schemes"]
        if row["dataset"] == "mnist" and not row["chunked"]
    }
    messages = drawn["role-keys, z = 1, K = 5, 32 bits", "per-message"]
    yield f"Where messages are drawn one by one, in one lump, {number(call['speedup'])} becomes {number(messages)}."


def _reproduce_sentences(found: dict[str, Any]) -> Iterator[str]:
    """Of other sizes of the fleet."""
    (grouped,) = (
        row
        for row in found["scaling"]
        if (row["dataset"], row["devices"], row["timed"]["scheme"]) == ("mnist", 120, "coded-padded")
        and row["timed"]["solver"] == "gd"
    )
    code = f"alpha = {grouped['timed']['alpha']} in {grouped['timed']['groups']} groups"
    yield f"coded-padded with {code}, is {number(grouped['speedup'])} times faster."
    seconds_of = {
        (row["devices"], row["timed"]["scheme"]): row["timed"]["seconds_mean"]
        for row in found["peers"]
        if row["dataset"] == "mnist" and row["timed"]["z"] == 1 and row["timed"]["solver"] == "gd"
    }
    sizes = sorted({devices for devices, _ in seconds_of})
    *first, last = (f"{seconds_of[size, LIGHT] / seconds_of[size, CODED]:.1f}" for size in sizes)
    where = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
    yield f"CodedSecAgg is {', '.join(first)} and {last} times faster on MNIST with {where} devices."


def missing(found: dict[str, Any], documents: dict[str, str]) -> list[str]:
    """Lines and sentences that a document does not hold."""
    lines = {
        "README.md": list(readme_lines(found)),
        "docs/methods.md": [*race_lines(found), *goal_lines(found), *prepared_lines(found)],
    }
    lost = [line for name, wanted in lines.items() for line in wanted if line not in documents[name].splitlines()]
    prose = {name: " ".join(text.split()) for name, text in documents.items()}
    return lost + [one for name, wanted in sentences(found).items() for one in wanted if one not in prose[name]]


def _seconds(value: float | None) -> str:
    return "–" if value is None else seconds(value).replace("\u202f", " ")


def _interval(middle: float | None, low: float | None, high: float | None) -> str:
    return number(middle) + (f" ({number(low)} to {number(high)})" if low != high else "")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(folder: str) -> None:
    """Print what is missing."""
    found = json.loads((Path(folder) / "results.json").read_text(encoding="utf-8"))
    names = ("README.md", "docs/methods.md", "docs/reproduce.md")
    lost = missing(found, {name: (ROOT / name).read_text(encoding="utf-8") for name in names})
    print("\n".join(lost) or "README, docs/methods.md and docs/reproduce.md have the figures of this run")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Every figure and verdict of docs/reproduce.md that ``codedfl lab reproduce all`` finds, from its results.json files.

``python -m experiments.reproduce_figures results`` prints every line and sentence that the page does not hold as it is,
and ends with 1 if there is one. Tables are compared line by line, prose by its sentences, whatever the line breaks; the
table of fleets where ``codedfl lab reproduce fleets`` was run too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codedfl.report.text import THIN, number
from codedfl_lab.report.rows import dataset_name
from codedfl_lab.reproduce.fleets import DEALT, EARLY, USUAL
from experiments.code_lines import ROOT

Found = Mapping[str, Any]
"""What was found of each data set, by its name."""
DATASETS = ("mnist", "fashion-mnist")
SHARINGS = ("authors", "per-message", "multicast")
HEADLINES = {"mnist": ("coded-padded, α = 23", 6.6), "fashion-mnist": ("coded-padded, α = 25", 9.2)}
BEST = (
    "the best alpha is about 6.6 (MNIST, alpha = 23) or 9.2 (Fashion-MNIST, alpha = 25) times faster than conventional"
    " FL, within 15 %"
)
ABOUT = r"coded-padded with α = 2[35] is about "
SLIGHTLY = "coded-padded with α = 23 is slightly slower than CodedFedL"
SIX = "coded-padded with α = 6 is faster than conventional FL"
CLAIMS = {
    BEST: ABOUT,
    "below 90 % conventional FL is faster than any alpha": "conventional FL is faster than coded-padded with any α",
    "from 80 % to below 85 % some alpha is faster than alpha = 25 and than conventional FL": "from 80 % to below 85 %",
    "alpha = 23 is faster than CodedFedL with delta = 0.1": "coded-padded with α = 23 is faster than CodedFedL",
    "alpha = 23 is slightly slower than CodedFedL with delta = 0.8, 1 to 1.5 times as long": SLIGHTLY,
    "alpha = 6 is the fastest at no target": "coded-padded with α = 6 is the fastest scheme at no target",
    "alpha = 6 is faster than conventional FL at no target": SIX,
    "the fastest alpha changes with the target": "the fastest α changes",
    "coding gains over dropping, in time and without losing accuracy, on sorted data": "on sorted data coding gains",
    "the same on shuffled data": "on shuffled data coding gains",
}
"""What the page calls a claim, and how its statement begins."""


def claim_lines(found: Found) -> Iterator[str]:
    """The last table: one verdict, or three where the conventions of sharing differ."""
    for words, statement in CLAIMS.items():
        cells = [_verdicts(found[name], statement, charged) for name in DATASETS for charged in (False, True)]
        yield _line(words, *cells)


def _verdicts(found: Any, statement: str, charged: bool) -> str:
    said = [
        claim["verdict"]
        for sharing in SHARINGS
        for claim in found["claims"]
        if re.match(statement, claim["statement"].replace(THIN, " "))
        and (claim["sharing"], claim["charged"]) == (sharing, charged)
    ]
    return (said[0] if len(set(said)) == 1 else ", ".join(said)) if said else "–"


def headline_lines(found: Found) -> Iterator[str]:
    """The table of conventions, everything charged."""
    for name in DATASETS:
        label, paper = HEADLINES[name]
        for sharing in SHARINGS:
            for step in ("paper", "literal"):
                faster = _row(found[name], label, sharing, step)["speedup_over_conventional"]
                ends = [faster[key] for key in ("median", "low", "high")]
                cells = ["{:.2f} ({:.2f} to {:.2f})".format(*(end / by for end in ends)) for by in (1, paper)]
                yield _line(dataset_name(name), sharing, step, *cells)


def _row(found: Any, label: str, sharing: str, step: str) -> Any:
    (row,) = (
        one
        for one in found["schemes"]
        if (one["label"], one["sharing"], one["step"], one["chunked"]) == (label, sharing, step, False)
        and one["target_accuracy"] == found["headline_target"]
    )
    return row


def sentences(found: Found) -> Iterator[str]:
    """Prose with figures in it."""
    free = {name: _ratio(found[name], ABOUT, "authors", charged=False) for name in DATASETS}
    charged = {name: _ratio(found[name], ABOUT, "authors", charged=True)[2] for name in DATASETS}
    ends = {name: [number(float(end)) for end in free[name][2:]] for name in DATASETS}
    said = {name: "{} ({} to {}; paper: {})".format(*ends[name], HEADLINES[name][1]) for name in DATASETS}
    yield (
        f"With pads free and mean times MNIST has {said['mnist']} and Fashion-MNIST {said['fashion-mnist']}; everything"
        f" charged, {charged['mnist']} and {charged['fashion-mnist']}."
    )
    means, drawn = (_ratio(found["mnist"], SLIGHTLY, one, charged=False) for one in ("authors", "per-message"))
    yield (
        "With pads free alpha = 23 takes {2} ({3} to {4}) of its time by means, {0} against {1} s, and".format(*means)
        + " {2} ({3} to {4}) where every message is drawn, {0} against {1} s".format(*drawn)
    )
    last = _ratio(found["mnist"], SIX, "authors", charged=False, at="95 %")
    yield "At 95 % on MNIST it takes {} s and conventional FL {}, and is {} ({} to {}) times faster".format(*last)
    fashion = _ratio(found["fashion-mnist"], SIX, "authors", charged=False, at="84 %")
    yield "On Fashion-MNIST with pads free it is {2} ({3} to {4}) times faster at 84 %".format(*fashion)


_EVIDENCE = re.compile(r"in (\S+) s, [^:]* in (\S+) s: (\S+) \((\S+) to ([^)]+)\)")


def _ratio(found: Any, statement: str, sharing: str, *, charged: bool, at: str = "") -> list[str]:
    """Both times, the ratio and its interval, of a claim's evidence, where it has several ``at`` a target."""
    (evidence,) = (
        claim["evidence"].replace(THIN, " ")
        for claim in found["claims"]
        if re.match(statement, claim["statement"].replace(THIN, " "))
        and (claim["sharing"], claim["charged"]) == (sharing, charged)
    )
    part = next((one for one in evidence.split("; ") if one.startswith(at)), "") if at else evidence
    read = _EVIDENCE.search(part)
    if read is None:
        raise ValueError(f"evidence must have two times and a ratio, got {part!r}")
    return list(read.groups())


def fleet_lines(fleets: Any) -> Iterator[str]:
    """The table of fleets."""
    for devices in sorted({row["devices"] for row in fleets["rows"]}):
        for fleet in fleets["latency_models"]:
            rows = {
                row["words"]: row
                for row in fleets["rows"]
                if (row["fleet"], row["devices"], row["features"]) == (fleet, devices, USUAL)
            }
            baselines = [row["seconds"] for row in rows.values() if row["verdict"] == "baseline" and row["seconds"]]
            cells = [_faster(rows.get(words)) for words in ("coded-padded", "role-keys", DEALT, EARLY)]
            dealt = rows[DEALT]
            cells[2] = f"{number(dealt['seconds'])} s: {cells[2]}"
            yield _line(
                f"`{fleet}`, {devices}",
                f"{number(min(baselines))} s",
                *cells[:3],
                f"{number(dealt['sharing_s'])} s",
                cells[3],
            )


def _faster(row: Any) -> str:
    return "–" if row is None else "{} ({} to {})".format(*(number(row[end]) for end in ("faster", "low", "high")))


def missing(found: Found, page: str) -> list[str]:
    """Lines and sentences that the page does not hold."""
    lines, prose = page.splitlines(), " ".join(page.split())
    wanted = [*headline_lines(found), *claim_lines(found)]
    return [one for one in wanted if one not in lines] + [one for one in sentences(found) if one not in prose]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(folder: str) -> None:
    """Print what is missing."""
    found = {name: json.loads((Path(folder) / name / "results.json").read_text(encoding="utf-8")) for name in DATASETS}
    page = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    lines = missing(found, page)
    fleets = Path(folder) / "fleets" / "results.json"
    if fleets.exists():
        wanted = fleet_lines(json.loads(fleets.read_text(encoding="utf-8")))
        lines += [line for line in wanted if line not in page.splitlines()]
    print("\n".join(lines) or "docs/reproduce.md has the figures of this run")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The tables of docs/pretrained.md, line by line, from results.json of ``codedfl lab reproduce frozen``.

``python -m experiments.pretrained_tables results/frozen texts/frozen`` (pictures, then texts) prints every line that
the page does not hold as it is, and ends with 1 if there is one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codedfl_lab.reproduce.frozen_results import Lead, half_width
from experiments.code_lines import ROOT

PAGE = "docs/pretrained.md"
GRADIENT = ("FedAvg", "FedProx", "Scaffold")
_SEES = {
    "each device's model, every round": "each model, every round",
    "each device's X'X and X'Y": "each device's X'X",
}


def reached_lines(found: dict[str, Any]) -> Iterator[str]:
    """Test accuracy of every method: ours once, since it is the same on every split, others by number of devices."""
    for row in _first(found):
        yield _line(row["method"], "any", *[_share(row)] * len(_splits(found)))
    for devices in _sizes(found):
        for method in GRADIENT:
            rows = [row for row in found["rows"] if (row["method"], row["devices"]) == (method, devices)]
            yield _line(f"{method}, {rows[0]['rounds']} rounds", str(devices), *map(_share, rows))


def cost_lines(found: dict[str, Any]) -> Iterator[str]:
    """What each method takes on sorted rows: rounds, MB of a device, seconds on the paper's fleet."""
    for devices in _sizes(found):
        for row in found["rows"]:
            if (row["split"], row["devices"]) == ("sorted", devices) and "epsilon" not in row["method"]:
                megabytes = (f"{row[name] / 1e6:.1f}" for name in ("up", "most"))
                seconds = (f"{row[name]:.0f}" for name in ("seconds", "charged"))
                sees = _SEES.get(row["sees"], row["sees"])
                yield _line(row["method"], str(devices), str(row["rounds"]), *megabytes, *seconds, sees)


def lead_lines(found: dict[str, Any], ours: str = "ours") -> Iterator[str]:
    """By how many points ours is ahead of FedAvg, FedProx and Scaffold: at equal bytes and times, and at the end."""
    for split in _splits(found):
        for devices in _sizes(found):
            rows = [one for one in found["rows"] if one["curve"] and (one["split"], one["devices"]) == (split, devices)]
            equal = [next(one for one in row["at_equal"] if one["ours"] == ours) for row in rows]
            leads = [[one[name] for one in equal] for name in ("bytes", "seconds", "charged")]
            ends = [row["at_end"] for row in rows]
            passed = ", ".join(str(row["crossing"] or "never") for row in rows)
            yield _line(split, str(devices), *(", ".join(map(_lead, ones)) for ones in (*leads, ends)), passed)


def verdict_lines(found: dict[str, Any]) -> Iterator[str]:
    """In how many splits and numbers of devices ours is ahead of each gradient method, level with it and behind."""
    for method in GRADIENT:
        rows = [row for row in found["rows"] if row["method"] == method]
        equal = [row["at_equal"][0] for row in rows]
        leads = [[one[name] for one in equal] for name in ("bytes", "seconds", "charged")]
        yield _line(method, *map(_counted, [*leads, [row["at_end"] for row in rows]]))


def _counted(leads: list[dict[str, Any]]) -> str:
    counts = Counter(Lead(**one).verdict for one in leads)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("ahead", "level", "behind") if counts[verdict])


def head_lines(found: dict[str, Any]) -> Iterator[str]:
    """Every head of the first seed: on held-out rows, which choose, and on test rows."""
    for name, weight, judged, tested in found["heads"]:
        yield _line(name, f"{weight:.3g}", f"{100 * judged:.2f}", f"{100 * tested:.2f}")


def kernel_lines(found: dict[str, Any]) -> Iterator[str]:
    """The paper's data sets: the fewest random features of each kind that reach its target."""
    rows = {(row["dataset"], row["kind"]): row for row in found["kernels"]}  # the last of each kind stays
    for (dataset, kind), row in rows.items():
        reached = f"{100 * row['target']:g} %: {row['seconds']:.1f} s, with X'X {row['charged']:.0f} s"
        yield _line(dataset, kind, str(row["width"]), _share(row), f"{row['up'] / 1e6:.2f}", reached)


def pages_lines(pictures: dict[str, Any], texts: dict[str, Any]) -> list[str]:
    """All lines of the page that are figures of a run."""
    return [
        *(
            line
            for lines in (reached_lines, cost_lines, lead_lines, verdict_lines, head_lines, kernel_lines)
            for line in lines(pictures)
        ),
        *reached_lines(texts),
    ]


def missing(pictures: dict[str, Any], texts: dict[str, Any], page: str) -> list[str]:
    """Lines that the page does not hold."""
    there = set(page.splitlines())
    return [line for line in pages_lines(pictures, texts) if line not in there]


def _first(found: dict[str, Any]) -> list[dict[str, Any]]:
    first = found["rows"][0]
    place = first["split"], first["devices"]
    return [row for row in found["rows"] if (row["split"], row["devices"]) == place and not row["curve"]]


def _splits(found: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["split"] for row in found["rows"]))


def _sizes(found: dict[str, Any]) -> list[int]:
    return list(dict.fromkeys(row["devices"] for row in found["rows"]))


def _share(row: dict[str, Any]) -> str:
    """Accuracy in per cent, with half a 95 % interval over seeds."""
    values = row["accuracies"]
    within = f" ± {100 * half_width(values):.2f}" if len(values) > 1 else ""
    return f"{100 * sum(values) / len(values):.2f}{within}"


def _lead(lead: dict[str, Any]) -> str:
    return f"{100 * lead['lead']:+.2f}"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(pictures: str, texts: str) -> None:
    """Print what is missing."""
    found, beside = (json.loads((Path(one) / "results.json").read_text(encoding="utf-8")) for one in (pictures, texts))
    lines = missing(found, beside, (ROOT / PAGE).read_text(encoding="utf-8"))
    print("\n".join(lines) or f"{PAGE} has the figures of these runs")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])

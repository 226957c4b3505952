"""What the journal version of the paper claims about large fleets, beside our own numbers.

CodedPaddedFL, arXiv 2112.08909, abstract. The claim is about the journal's own fleet, which is not reproduced here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codedfl.report.rows import curve_name, dataset_name, number, packing, percent, seconds


@dataclass(frozen=True)
class JournalClaim:
    dataset: str
    target: float
    devices: int
    speedup: float
    curve: str  # the scheme of ours that is of its kind


JOURNAL = JournalClaim("mnist", 0.95, 120, 18.0, "coded-padded, gd")


def journal_discussion(scaling: Sequence[Mapping[str, Any]]) -> list[str]:
    """The journal's claim beside our numbers at its size; nothing if our results do not go there."""
    here = {
        row["scheme"]: row for row in scaling if (row["dataset"], row["devices"]) == (JOURNAL.dataset, JOURNAL.devices)
    }
    ours = here.get(JOURNAL.curve)
    if ours is None:
        return []
    claim = (
        f"The journal version of the paper gives groups of devices a code each and reports a speed-up of"
        f" {JOURNAL.speedup:g} over conventional FL for {dataset_name(JOURNAL.dataset)} at {percent(JOURNAL.target)}"
        f" with {JOURNAL.devices} devices. The scheme of that kind here, {ours['variant']} with gradient descent, is"
        f" {number(ours['speedup'])} times faster ({seconds(ours['seconds'])}), {ours['speedup'] / JOURNAL.speedup:.2f}"
        f" of the journal's value. The journal's exact setting is not reproduced here: our fleet repeats the mix of the"
        f" paper's 25 devices, the groups are ours, and sharing is {ours['sharing']}, {packing(ours['chunked'])}. So"
        " the two numbers are of one kind but not of one experiment."
    )
    others = [row for curve, row in here.items() if curve != JOURNAL.curve and row["speedup"] > ours["speedup"]]
    if not others:
        return [claim]
    faster = ", ".join(
        f"{curve_name(row['scheme'])} {number(row['speedup'])}"
        for row in sorted(others, key=lambda row: row["speedup"])
    )
    return [claim, f"Faster at the same size, in times faster than conventional FL: {faster}."]

"""What the journal version of the paper claims about large fleets, beside our own numbers.

CodedPaddedFL, arXiv 2112.08909, abstract. The claim is about the journal's own fleet, which is not reproduced here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codedfl.report.text import number, seconds
from codedfl_lab.comparing.names import method_name
from codedfl_lab.comparing.results import AtSize
from codedfl_lab.report.rows import dataset_name, packing, percent, times_faster


@dataclass(frozen=True)
class JournalClaim:
    """What the journal's abstract says, and which of our rows is of its kind."""

    dataset: str
    target: float
    devices: int
    speedup: float
    scheme: str  # the scheme and solver of ours that are of its kind
    solver: str


JOURNAL = JournalClaim("mnist", 0.95, 120, 18.0, "coded-padded", "gd")


def journal_discussion(scaling: Sequence[AtSize], n_features: int) -> list[str]:
    """The journal's claim beside our numbers at its size; nothing if our results do not go there."""
    of_dataset = [row for row in scaling if row.dataset == JOURNAL.dataset]
    kind = JOURNAL.scheme, JOURNAL.solver
    here = {row.method: row for row in of_dataset if row.devices == JOURNAL.devices}
    ours = here.get(kind)
    if ours is None:
        return []
    paragraphs = [
        f"The journal version of the paper gives groups of devices a code each and reports a speed-up of"
        f" {JOURNAL.speedup:g} over conventional FL for {dataset_name(JOURNAL.dataset)} at {percent(JOURNAL.target)}"
        f" with {JOURNAL.devices} devices. The scheme of that kind here ({ours.timed.label}, gradient descent) is"
        f" {times_faster(ours.gain)} ({seconds(ours.timed.seconds_mean)}), {ours.gain / JOURNAL.speedup:.2f}"
        f" of the journal's value. The journal's exact setting is not reproduced here: our fleet repeats the mix of the"
        f" paper's devices, the groups are ours, and sharing is {ours.sharing}, {packing(ours.chunked)}. The two"
        " numbers are of one kind, not of one experiment."
    ]
    own = sorted((row.devices, row.gain) for row in of_dataset if row.method == kind)
    if own[-1][1] < own[0][1]:
        paragraphs.append(
            f"It falls from {number(own[0][1])} at {own[0][0]} devices to {number(own[-1][1])} at {own[-1][0]}: an"
            " epoch ends with the slowest group, and the more groups, the slower the slowest, while a coded device"
            f" multiplies a matrix of {n_features} × {n_features} whatever the size of the fleet."
        )
    others = [row for method, row in here.items() if method != kind and row.gain > ours.gain]
    if others:
        others.sort(key=lambda row: row.gain)
        faster = "; ".join(f"{method_name(*row.method)} {number(row.gain)}" for row in others)
        paragraphs.append(f"Ahead of it at {JOURNAL.devices} devices, in times faster than conventional FL: {faster}.")
    return paragraphs


def peers_discussion(peers: Sequence[AtSize]) -> list[str]:
    """What the journal says of CodedSecAgg and LightSecAgg, and what one convention for all makes of it."""
    paragraphs = [
        "The journal reports CodedSecAgg to be 6.6 to 18.7 times faster than LightSecAgg. Those numbers should not be"
        " compared with ours: in the program behind them one clock runs on over all six thresholds, so that LightSecAgg"
        " and conventional FL come out about six times too slow, setup takes 200 % of the computing time instead of"
        " 50 %, and the server is 33 000 times faster than in the program for the coded scheme; the times stored as"
        " CodedPaddedFL's are those of CodedSecAgg."
    ]
    found = {(row.dataset, row.devices, *row.method, row.timed.colluders): row.timed.seconds_mean for row in peers}
    for dataset, devices in dict.fromkeys((row.dataset, row.devices) for row in peers):
        light = found.get((dataset, devices, "light-secagg", "gd", 1))
        coded = found.get((dataset, devices, "coded-secagg", "gd", 1))
        if light and coded:
            paragraphs.append(
                f"{dataset_name(dataset)}, {devices} devices, one colluder, gradient descent, one convention for all:"
                f" CodedSecAgg takes {coded / light:.2f} times as long as LightSecAgg."
            )
    return paragraphs

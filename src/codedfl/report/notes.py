"""What a reader must know to compare these results with the paper's: the notes under every report.

Values of the paper are given with their place in it; everything about this run comes from the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from codedfl.report.rows import kinds, series_name
from codedfl.study import paper
from codedfl.study.paper import STEPS
from codedfl.study.results import Results, SchemeResult

SHARING_NOTES = {
    "authors": (
        "the formula of the authors' simulation: every message at its mean number of transmissions, at the mean of the"
        " two link rates, up and down one after the other"
    ),
    "per-message": "every message with its own retransmissions, up and then relayed down; the slowest device counts",
    "multicast": "a device uploads its bulk data once and the server relays it to every recipient",
}


def notes_of(results: Results, judged: Sequence[SchemeResult], goal: str) -> list[tuple[str, str]]:
    """Heading and text of each note that applies, the caller's own last.

    ``judged`` are the entries whose seeds should all have reached the ``goal``.
    """
    found = list(dict.fromkeys(sharing for sharing, _ in kinds(results.schemes)))
    notes: list[tuple[str, str]] = []
    if results.paper is not None:
        notes.append(
            (
                "Kernel parameter",
                f"The paper's “{paper.KERNEL_WIDTH:g} as kernel parameter” is read as the width σ of the Gaussian"
                f" kernel, so γ = 1/(2σ²) = {paper.GAMMA:g}. Taken as γ itself it cannot learn: the kernel would be"
                " zero between any two images.",
            )
        )
    notes += [
        (
            "Step size",
            f"Step “literal” is the paper's μ = {STEPS[paper.STEP_LITERAL].initial:g} on the gradient of its loss, with"
            f" the loss's factor 1/2. The paper's figures fit a step twice as large: step “paper” is"
            f" μ = {STEPS[paper.STEP].initial:g}, the 1/2 dropped. Both decay as the paper says, and neither is tuned"
            " to a run.",
        ),
        (
            "Sharing phase",
            "One convention applies to all schemes of a table. "
            + " ".join(f"“{name}”: {SHARING_NOTES.get(name, 'as named')}." for name in found),
        ),
        ("Seeds that never reach the target", _unreached(judged, goal)),
        *(("This run", note) for note in results.notes),
    ]
    return notes


def _unreached(judged: Sequence[SchemeResult], goal: str) -> str:
    """How such seeds are counted, and in this run which."""
    rule = (
        "They count as infinitely late in every median, and as a speed-up of 0; none is left out. Speed-ups are taken"
        " seed by seed, over the seeds in which conventional FL reaches the target."
    )
    several = len({e.dataset for e in judged}) > 1
    listed = [
        f"{series_name(e)} ({e.dataset + ', ' if several else ''}{e.sharing}, step {e.step})"
        f" {e.seeds_reached} of {e.seeds}"
        for e in judged
        if e.seeds_reached < e.seeds
    ]
    if not listed:
        return f"{rule} In this run every scheme reaches {goal} in every seed."
    return f"{rule} In this run these reach {goal} in only some or none: {'; '.join(listed)}."

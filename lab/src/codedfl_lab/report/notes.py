"""What a reader must know to compare these results with the paper's: the notes under every report.

Values of the paper are given with their place in it; everything about this run comes from the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from codedfl.solve.descent import DERIVED, POWER_ITERATIONS, STEPS
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.names import name_in_sentence
from codedfl_lab.comparing.results import Results, SchemeResult
from codedfl_lab.report.rows import kinds, listed

SHARING_NOTES = {
    "authors": (
        "mean times; of coded-padded by the formula of the authors' program (the paper has none): every message at its"
        " mean number of transmissions, at the mean of the two link rates, up and down one after the other. The program"
        " itself draws CodedFedL's upload and waits for the slowest, which is its row under “per-message”"
    ),
    "per-message": "every message with its own retransmissions, up and then relayed down; the slowest device counts",
    "multicast": "a device uploads its bulk data once and the server relays it to every recipient",
}


PAPER_STEPS = (
    "Step size",
    f"Step “literal” is the paper's μ = {STEPS[paper.STEP_LITERAL].initial:g} on the gradient of its loss, with"
    f" the loss's factor 1/2. The paper's figures fit a step twice as large: step “paper” is"
    f" μ = {STEPS[paper.STEP].initial:g}, the 1/2 dropped. Both decay as the paper says, and neither is tuned"
    " to a run.",
)


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
    steps = {step for _, step in kinds(results.schemes)}
    if DERIVED in steps:
        notes.append(
            (
                "Step size",
                "Every descent takes a step that follows from the data, by one rule: 1 / (1.25 times the largest"
                f" eigenvalue of X'X/m, plus λ), after {POWER_ITERATIONS} epochs that find it. Schemes that descend on"
                " mini-batches go by the steepest of these.",
            )
        )
    if steps & set(STEPS):
        notes.append(PAPER_STEPS)
    notes += [
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
    some = [
        f"{name_in_sentence(e)} ({e.dataset + ', ' if several else ''}{e.sharing}, step {e.step})"
        f" in {e.seeds_reached} of {e.seeds}"
        for e in judged
        if 0 < e.seeds_reached < e.seeds
    ]
    none = sum(e.seeds_reached == 0 for e in judged)
    if not some and not none:
        return f"{rule} In this run every scheme reaches {goal} in every seed."
    text = f"{rule} In this run {none or 'no'} of {len(judged)} rows reach {goal} in no seed (“never”)"
    return f"{text}, and these in some: {listed(some)}." if some else f"{text}, the others in every one."

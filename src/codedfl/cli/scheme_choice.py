"""The schemes that ``codedfl compare`` sets side by side: the paper's, carried over to a fleet of another size.

Conventional FL runs every solver that a coded scheme runs, on its stored Gram matrix: what a code gains is the rest.
"""

from __future__ import annotations

from codedfl.schemes import (
    CodedFedL,
    CodedKeys,
    CodedPadded,
    Conventional,
    ConventionalFullBatch,
    DropSlowest,
    RoleKeys,
)
from codedfl.solve.registry import DEFAULT_SOLVER
from codedfl.study import paper
from codedfl.study.comparison import Entry


def paper_entries(n_devices: int) -> list[Entry]:
    """The curves of the paper's figures, dropping the slowest, coded keys at the best alpha, the fair rivals."""
    best = paper.to_scale(paper.BEST_ALPHA, n_devices)
    return [
        Entry(Conventional()),
        *(Entry(ConventionalFullBatch(), solver) for solver in ("gd", DEFAULT_SOLVER)),
        Entry(DropSlowest(paper.to_scale(paper.DROPPED, n_devices))),
        *(Entry(CodedPadded(alpha)) for alpha in paper.alphas_for(n_devices)),
        Entry(CodedKeys(best)),
        Entry(CodedKeys(best), DEFAULT_SOLVER),
        Entry(RoleKeys.default_for(n_devices), DEFAULT_SOLVER),
        *(Entry(CodedFedL(delta)) for delta in paper.DELTAS),
    ]

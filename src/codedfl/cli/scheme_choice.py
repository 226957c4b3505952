"""The paper's schemes, carried over to a fleet of another size."""

from __future__ import annotations

from codedfl.schemes import CodedFedL, CodedKeys, CodedPadded, Conventional, DropSlowest
from codedfl.study.comparison import Entry

_PAPER_DEVICES = 25
_PAPER_ALPHAS = (6, 16, 23, 25)
_BEST_PAPER_ALPHA = 23
_DROPPED_OF_25 = 5


def paper_alphas(n_devices: int) -> list[int]:
    """6, 16, 23 and 25 of 25, to scale: the last is always D. Fewer where a small D makes some alike."""
    return sorted({_scaled(alpha, n_devices) for alpha in _PAPER_ALPHAS})


def paper_entries(n_devices: int) -> list[Entry]:
    """The curves of the paper's figures, dropping the slowest, and coded keys at the paper's best alpha."""
    best = _scaled(_BEST_PAPER_ALPHA, n_devices)
    return [
        Entry(Conventional()),
        Entry(DropSlowest(_scaled(_DROPPED_OF_25, n_devices))),
        *(Entry(CodedPadded(alpha)) for alpha in paper_alphas(n_devices)),
        Entry(CodedKeys(best)),
        Entry(CodedKeys(best), "cg"),
        Entry(CodedFedL(0.1)),
        Entry(CodedFedL(0.8)),
    ]


def _scaled(count: int, n_devices: int) -> int:
    return max(1, round(count * n_devices / _PAPER_DEVICES))

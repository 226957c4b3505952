"""How curves of schemes look: a colour and a marker say which scheme, a line style which solver.

Only in the paper's own figure, where one scheme has many curves, every curve has a colour and a marker of its own
(``figures``). So curves can be distinguished without colours too.
"""

from __future__ import annotations

from dataclasses import dataclass

from codedfl.report.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    MARKERS,
    ORANGE,
    PINK,
    SKY,
    SOLID,
    VERMILLION,
    Dashes,
)

_SCHEME_COLOURS = {
    "conventional": INK,
    "conventional-full-batch": GREY,
    "drop-slowest": GREY,
    "coded-fedl": ORANGE,
    "coded-padded": VERMILLION,
    "coded-keys": BLUE,
    "role-keys": PINK,
    "one-shot": GREEN,
}
_SCHEME_MARKERS = dict(zip(_SCHEME_COLOURS, MARKERS, strict=False))
_SOLVER_DASHES: dict[str, Dashes] = {
    "nesterov": (0, (6, 1.5, 1, 1.5)),
    "cg": (0, (4, 1.5)),
    "block-krylov": (0, (1.5, 1.2)),
}
_SCHEME_DASHES: dict[str, Dashes] = {"drop-slowest": (0, (1, 1.2))}  # shares its colour with another baseline


@dataclass(frozen=True)
class Look:
    """How a curve is drawn."""

    color: str
    dashes: Dashes = SOLID
    width: float = 1.6
    marker: str = "o"


def look_of(scheme: str, solver: str) -> Look:
    """The scheme's colour and marker, the solver's line style; solid is gradient descent."""
    dashes = _SCHEME_DASHES.get(scheme) or _SOLVER_DASHES.get(solver, SOLID)
    colour, marker = _SCHEME_COLOURS.get(scheme, SKY), _SCHEME_MARKERS.get(scheme, MARKERS[-1])
    return Look(colour, dashes, marker=marker)

"""``make statistics``: every analysis beside its oracle, line by line; ends with 1 where one is beyond its bound."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from experiments.statistics import (
    cox,
    describing,
    dispersion,
    from_total,
    glm,
    intercepts,
    linear,
    matched,
    ordinal,
    plots,
    real,
    robust,
    survival,
    weighting,
)
from experiments.statistics.cases import Line

_MODULES = (
    describing,
    linear,
    glm,
    dispersion,
    robust,
    survival,
    cox,
    intercepts,
    weighting,
    ordinal,
    matched,
    from_total,
    plots,
    real,
)
FAMILIES: tuple[Callable[[], Iterator[Line]], ...] = tuple(one.lines for one in _MODULES)


def main() -> int:
    """Print every line as it is found."""
    worst = 0
    for family in FAMILIES:
        for line in family():
            holds = line.difference <= line.bound
            worst |= not holds
            print(f"{'ok  ' if holds else 'FAIL'} {line.difference:9.1e} of {line.bound:.0e}  {line.what}", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())

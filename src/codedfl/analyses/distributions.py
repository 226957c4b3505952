"""Distributions of statistics, for p values and intervals."""

from __future__ import annotations

from types import ModuleType

from codedfl.errors import InvalidInput


def distributions() -> ModuleType:
    """Student's distribution and others of scipy, which nobody but who makes p values needs.

    Examples
    --------
    >>> from codedfl.analyses.distributions import distributions
    >>> round(float(2 * distributions().norm.sf(1.96)), 3)
    0.05
    """
    try:
        from scipy import stats
    except ImportError:
        raise InvalidInput("scipy must be installed for p values: pip install 'codedfl[inference]'") from None
    return stats  # type: ignore[no-any-return]

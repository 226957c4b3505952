"""exp and log by additions, multiplications and divisions alone, whose every bit IEEE 754 fixes.

A library's exp and log differ in the last bit between machines, and with the place of a number in a vector. Totals of
rounded terms are the same on all machines only if the terms are.
"""

from __future__ import annotations

import numpy as np

from codedfl.typing import Floats

_LN2 = (0.6931471803691238, 1.9082149292705877e-10)  # the first has 21 zeros behind it, so that multiples are exact
_TERMS_OF_EXP, _TERMS_OF_LOG = 14, 12


def portable_exp(x: Floats) -> Floats:
    """exp(x) to about 2 units in the last place, for |x| <= 700.

    >>> import numpy as np
    >>> from codedfl.exact.portable import portable_exp
    >>> float(portable_exp(np.array([1.0]))[0])
    2.7182818284590455
    """
    whole = np.rint(x / _LN2[0])
    rest = (x - whole * _LN2[0]) - whole * _LN2[1]
    found = np.ones_like(rest)
    for term in range(_TERMS_OF_EXP, 0, -1):  # Horner's rule: 1 + r (1 + r/2 (1 + r/3 ...)), |r| <= ln(2) / 2
        found = 1.0 + rest * found / term
    return np.ldexp(found, whole.astype(np.int64))


def portable_log(x: Floats) -> Floats:
    """log(x) of positive numbers to about 2 units in the last place of the larger of 1 and the result.

    >>> import numpy as np
    >>> from codedfl.exact.portable import portable_log
    >>> portable_log(np.array([1.0, 4.0])).round(12).tolist()
    [0.0, 1.38629436112]
    """
    part, power = np.frexp(x)
    small = part < 0.5**0.5
    part, power = np.where(small, 2.0 * part, part), power - small
    # 2 artanh(z) = 2 (z + z^3 / 3 + z^5 / 5 ...), |z| <= 0.172
    z = (part - 1.0) / (part + 1.0)
    found = np.zeros_like(z)
    for term in range(2 * _TERMS_OF_LOG + 1, 0, -2):
        found = found * z * z + 1.0 / term
    return np.asarray(2.0 * z * found + power * _LN2[1] + power * _LN2[0])

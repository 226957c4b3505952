"""Coded keys and one-shot as values: one upload, and seeds are coded instead of data. ``coded.keys`` runs them."""

from __future__ import annotations

from typing import ClassVar

from codedfl_lab.coded.form import CodedForm
from codedfl_lab.coded.keys import Keyed
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.gradient_coded import GradientCoded


class CodedKeys(GradientCoded, CodedScheme):
    """One upload; seeds are coded instead of data.

    Examples
    --------
    >>> from codedfl_lab import CodedKeys
    >>> CodedKeys(alpha=3, spare=3).check(10)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: spare must be between 0 and alpha - 1 (2), got 3
    """

    name: ClassVar[str] = Keyed.name
    form: ClassVar[CodedForm] = Keyed()


class OneShot(GradientCoded, CodedScheme):
    """Coded keys with one epoch, whose statistic is all of X'X and X'Y: summed securely once.

    For linear regression these sums are sufficient, so the server solves in closed form. The price is that it learns
    the whole total Gram matrix; block Krylov on coded keys takes about as long and shows it a few directions.

    Examples
    --------
    >>> from codedfl_lab import OneShot
    >>> OneShot(alpha=3).reveals_gram  # the server learns the total of X'X itself
    True
    """

    name: ClassVar[str] = "one-shot"
    form: ClassVar[CodedForm] = Keyed()
    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = "the total Gram matrix"

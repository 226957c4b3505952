"""Every error codedfl raises on purpose.

One line each: the argument, the rule, the value received. Anything else that escapes the library is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CodedFLError(Exception):
    """Base of all errors of this package.

    Examples
    --------
    >>> from codedfl import CodedFLError, WrongAnswers
    >>> issubclass(WrongAnswers, CodedFLError)
    True
    """


class InvalidInput(CodedFLError, ValueError):
    """An argument, a data value or a file breaks a documented rule.

    Examples
    --------
    >>> from codedfl import StepSchedule
    >>> StepSchedule(-1.0)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the step must be positive, got -1.0
    """


class RangeExceeded(CodedFLError, ArithmeticError):
    """A number does not fit the ring, or a decoded number lies outside its proven bound.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import Bounds
    >>> from codedfl.exact.scales import Scales
    >>> from codedfl.exact.totals import round_update
    >>> scales = Scales.on(1 << 48, Bounds(1.0, 1.0, samples=1000, samples_per_device=300), n_features=2, n_devices=5)
    >>> round_update(scales, np.array([[1e30], [0.0]]))
    Traceback (most recent call last):
    ...
    codedfl.errors.RangeExceeded: the update must have a column 1-norm of at most 134217, got 1e+30: it cannot be sent
    """


class DataUnavailable(CodedFLError):
    """A data set cannot be had on this machine; ``attempts`` are what was tried and why it failed, in order.

    The first line of the message says all that is needed; the lines after it are the attempts and the advice.
    """

    def __init__(self, message: str, attempts: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)


class MessageRefused(CodedFLError):
    """A message is damaged, forged, misdirected or out of protocol; the receiver's state is unchanged.

    Examples
    --------
    >>> from codedfl.sum.layout import Layout
    >>> Layout.of_vector(3, limit=1000).from_bytes(b"12345", 3)
    Traceback (most recent call last):
    ...
    codedfl.errors.MessageRefused: 3 words of 32 bits must take 12 bytes, got 5
    """


class NotEnoughDevices(CodedFLError):
    """Fewer devices answered than the code needs; ``model`` is the last good model, or None before the first.

    Examples
    --------
    >>> from codedfl import NotEnoughDevices
    >>> NotEnoughDevices("an epoch needs 3 answers, got 2", missing=["ward-c"]).missing
    ('ward-c',)
    """

    def __init__(self, message: str, missing: Sequence[str], model: Any = None) -> None:
        super().__init__(message)
        self.missing = tuple(missing)
        self.model = model


class WrongAnswers(CodedFLError):
    """Answers contradict each other and whose is wrong cannot be found, or no longer in time.

    ``suspects`` are the devices among which the malicious ones are.
    ``model`` is the last good model, or None before the first.

    Examples
    --------
    >>> from codedfl import WrongAnswers
    >>> WrongAnswers("answers contradict each other", suspects=["ward-a", "ward-b"]).suspects
    ('ward-a', 'ward-b')
    """

    def __init__(self, message: str, suspects: Sequence[str], model: Any = None) -> None:
        super().__init__(message)
        self.suspects = tuple(suspects)
        self.model = model


class SolverFailed(CodedFLError):
    """The solver cannot make a model of totals that are exact; ``model`` is the last good one, or None.

    Examples
    --------
    >>> from codedfl import SolverFailed
    >>> SolverFailed("X'X must be positive definite").model is None
    True
    """

    def __init__(self, message: str, model: Any = None) -> None:
        super().__init__(message)
        self.model = model

"""Every error codedfl raises on purpose.

One line each: the argument, the rule, the value received. Anything else that escapes the library is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CodedFLError(Exception):
    """Base of all errors of this package."""


class InvalidInput(CodedFLError, ValueError):
    """An argument, a data value or a file breaks a documented rule."""


class RangeExceeded(CodedFLError, ArithmeticError):
    """A number does not fit the ring, or a decoded number lies outside its proven bound."""


class MessageRefused(CodedFLError):
    """A message is damaged, forged, misdirected or out of protocol; the receiver's state is unchanged."""


class NotEnoughDevices(CodedFLError):
    """Fewer devices answered than the code needs; ``model`` is the last good model, or None before the first."""

    def __init__(self, message: str, missing: Sequence[str], model: Any = None) -> None:
        super().__init__(message)
        self.missing = tuple(missing)
        self.model = model


class WrongAnswers(CodedFLError):
    """Answers contradict each other and it cannot be told, or is too late to tell, whose is wrong.

    ``suspects`` are the devices among which the liars are; ``model`` is the last good model, or None before the first.
    """

    def __init__(self, message: str, suspects: Sequence[str], model: Any = None) -> None:
        super().__init__(message)
        self.suspects = tuple(suspects)
        self.model = model


class SolverFailed(CodedFLError):
    """The solver cannot make a model of totals that are exact; ``model`` is the last good one, or None."""

    def __init__(self, message: str, model: Any = None) -> None:
        super().__init__(message)
        self.model = model

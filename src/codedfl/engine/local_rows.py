"""A device's own rows: made ready for the run on the device, and what is wrong with them stays there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from codedfl.engine.learning import Learning
from codedfl.engine.logs import one_line
from codedfl.errors import CodedFLError, InvalidInput
from codedfl.protocol.local_data import LocalRows

log = logging.getLogger("codedfl.engine.device")

ROWS_REFUSED = "its rows cannot be used: see the node's log"


@contextmanager
def keeping_reasons_here(name: str) -> Iterator[None]:
    """What is wrong with rows may name a value of theirs: that text stays in the log of the device."""
    try:
        yield
    except Exception as error:  # of the user's loader it may be any
        ours = isinstance(error, CodedFLError)
        log.error("%s: %s: %s", name, type(error).__name__, one_line(error), exc_info=not ours)
        raise InvalidInput(ROWS_REFUSED) from None


def device_rows(name: str, learning: Learning, load: Callable[[], tuple[NDArray[Any], NDArray[Any]]]) -> LocalRows:
    """Features and labels of the raw rows that ``load`` returns."""
    with keeping_reasons_here(name):
        X, y = load()
        return LocalRows(*learning.rows(X, y), learning.origin(X, y))

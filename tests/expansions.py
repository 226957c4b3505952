"""Counts how often streams of pads are expanded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from codedfl.crypto.pads import SegmentExpander


class Count:
    """How many segments so far."""

    def __init__(self) -> None:
        self.segments = 0


@contextmanager
def counted_expansions() -> Iterator[Count]:
    """Of everybody in this process, while it lasts."""
    count = Count()
    with pytest.MonkeyPatch.context() as patch:
        for use in ("write", "add"):
            real = getattr(SegmentExpander, use)

            def counting(self: SegmentExpander, *args: Any, real: Any = real) -> None:
                count.segments += 1
                real(self, *args)

            patch.setattr(SegmentExpander, use, counting)
        yield count

"""Counts how often streams of pads are expanded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from codedfl.crypto.pads import SegmentExpander
from codedfl.protocol.device import Device
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import Kind


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


@contextmanager
def counted_uploads() -> Iterator[list[tuple[str, int, int]]]:
    """Of every upload in this process: who made it, its size, and the segments expanded in its turn."""
    found: list[tuple[str, int, int]] = []
    receive = Device.receive
    with counted_expansions() as count, pytest.MonkeyPatch.context() as patch:

        def counting(device: Device, data: bytes, bulk: bytes = b"") -> Turn:
            before = count.segments
            turn = receive(device, data, bulk)
            for outgoing in turn.outgoing:
                if outgoing.kind is Kind.SHARES:
                    found.append((device.name, len(outgoing.message.attachment), count.segments - before))
            return turn

        patch.setattr(Device, "receive", counting)
        yield found

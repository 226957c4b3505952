"""What a device must not forget: root of the generation, budgets, digests of what was uploaded.

Contents that a server has put stand beside it, for processes that live for one request; they may be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

MOST_CONTENT = 4 << 20  # bytes of one
MOST_CONTENTS = 8  # of a study; the oldest make room


@dataclass(frozen=True)
class Generation:
    """What a device keeps of a generation: its number, its root (empty once it is closed) and when it ends."""

    number: int
    root: bytes = field(repr=False)
    not_after: int


class Memory(Protocol):
    """What a device must not forget. Each call is on the disk when it returns."""

    def generation(self) -> Generation | None:
        """The newest of this study; None before the first."""

    def keep(self, generation: Generation) -> None:
        """Instead of the one before, which is deleted."""

    def contribute(self, ask: bytes, pinned: bytes) -> None:
        """Count the argument and pin the keyed digest of the words; ``Refused`` as budget or rows."""

    def answer(self, ask: bytes, question: bytes) -> None:
        """Count a direction; ``Refused`` as budget."""

    def closed(self, generation: int, record: Sequence[tuple[bytes, Sequence[str]]]) -> None:
        """Keep who was in which sum; what was kept of this generation before stays."""

    def put(self, content: bytes) -> None:
        """Keep a content by its SHA-256, in the place of the oldest of ``MOST_CONTENTS``."""

    def content(self, digest: bytes) -> bytes | None:
        """What was put with this SHA-256, as long as it is kept."""

"""What a device must not forget: root of the generation, budgets, digests of what was uploaded.

Contents that a server has put stand beside it, for processes that live for one request; they may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from codedfl.sum.keys import digest
from codedfl.sum.wire import Refused

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


class InMemory:
    """A ``Memory`` that lasts as long as the process: for rehearsals, estimators and tests.

    arguments, directions: how many different ones are allowed; None is any number.
    """

    def __init__(self, arguments: int | None = None, directions: int | None = None) -> None:
        self._generation: Generation | None = None
        self._pinned: dict[bytes, bytes] = {}
        self._questions: set[bytes] = set()
        self._arguments, self._directions = arguments, directions
        self._contents: dict[bytes, bytes] = {}
        self.records: dict[int, Mapping[bytes, Sequence[str]]] = {}

    def generation(self) -> Generation | None:
        return self._generation

    def keep(self, generation: Generation) -> None:
        self._generation = generation

    def contribute(self, ask: bytes, pinned: bytes) -> None:
        # Invariant: checked before it is counted, so a refused upload costs nothing and is refused again.
        if self._pinned.get(ask, pinned) != pinned:
            raise Refused("rows", "a statistic must have the numbers that it had before")
        if ask not in self._pinned and self._arguments is not None and len(self._pinned) >= self._arguments:
            raise Refused("budget", f"arguments must be at most {self._arguments}, got one more")
        self._pinned[ask] = pinned

    def answer(self, ask: bytes, question: bytes) -> None:
        del ask
        # The same question again is free: its reply is the same bytes.
        if question not in self._questions:
            if self._directions is not None and len(self._questions) >= self._directions:
                raise Refused("budget", f"directions must be at most {self._directions}, got one more")
            self._questions.add(question)

    def closed(self, generation: int, record: Sequence[tuple[bytes, Sequence[str]]]) -> None:
        self.records.setdefault(generation, dict(record))

    def put(self, content: bytes) -> None:
        self._contents[digest(content)] = content
        # Invariant: whoever puts a million contents fills no memory; what an ask needs is put again when it is missed.
        while len(self._contents) > MOST_CONTENTS:
            del self._contents[next(iter(self._contents))]

    def content(self, digest: bytes) -> bytes | None:
        return self._contents.get(digest)

"""A device's memory that lasts as long as the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codedfl.sum.keys import digest
from codedfl.sum.memory import MOST_CONTENTS, Generation
from codedfl.sum.wire import Refused


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

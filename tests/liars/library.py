"""Which of the texts on a stage hold which secret, looked up once: for questions about thousands of collusions.

A collusion reads the wire, what its members drew and sealed, and whatever opens to it; ``Knowledge`` searches the bytes
of all that anew. Here every text has a number, each secret knows the texts that it occurs in, and what a collusion can
read is a set of numbers. The answers are the same (``test_role_collusions`` compares them).
"""

from __future__ import annotations

from collections.abc import Collection

from stage import Stage


class Library:
    """Of a stage on which nothing happens any more."""

    def __init__(self, stage: Stage) -> None:
        self._texts: list[bytes] = [b"|between two texts|".join(stage.wire)]
        self._drawn: dict[str, int] = {}
        for actor, drawn in stage.drawn.items():
            self._drawn[actor] = self._add(b"|between two texts|".join(drawn))
        self._own: dict[str, list[int]] = {}  # plaintexts that an actor sealed itself
        self._closed: list[tuple[bytes, bytes, int]] = []  # ciphertext, what opens it, the plaintext's number
        for one in stage.seals:
            number = self._add(one.plaintext)
            self._own.setdefault(one.actor, []).append(number)
            self._closed.append((one.ciphertext, stage.secret_of(one.receiver), number))
        for bulk in stage.bulks:
            self._closed.append((bulk.ciphertext, bulk.content_key, self._add(bulk.plaintext)))
        self._places: dict[bytes, frozenset[int]] = {}

    def _add(self, text: bytes) -> int:
        self._texts.append(text)
        return len(self._texts) - 1

    def places(self, secret: bytes) -> frozenset[int]:
        """Numbers of the texts that it occurs in."""
        if secret not in self._places:
            self._places[secret] = frozenset(i for i, text in enumerate(self._texts) if secret in text)
        return self._places[secret]

    def readable(self, parties: Collection[str]) -> frozenset[int]:
        """Numbers of all texts that are open to these actors together."""
        texts = {0, *(self._drawn[actor] for actor in parties if actor in self._drawn)}
        texts.update(number for actor in parties for number in self._own.get(actor, ()))
        while True:
            opened = {
                number
                for ciphertext, secret, number in self._closed
                if number not in texts
                and not texts.isdisjoint(self.places(secret))
                and not texts.isdisjoint(self.places(ciphertext))
            }
            if not opened:
                return frozenset(texts)
            texts |= opened

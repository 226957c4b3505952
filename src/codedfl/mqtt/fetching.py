"""Large things, piece by piece: who wants one asks for its pieces, so that no more is on the way than it can take.

A broker holds whatever is on the way in its memory. The receiver therefore *pulls*: few pieces at a time from one
owner, and a limit over all of them. What was fetched of a thing stays when a connection is lost, and only the rest is
asked for again: things are named by their SHA-256, whoever sends the message that refers to them.

Nothing here does I/O; the clock is an argument.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from codedfl.mqtt.frames import MOST_BYTES, PIECE_BYTES, Cargo, Fetch, Gone, Piece, Reference

PIECES_EACH = 8  # on the way from one owner
PIECES_IN_ALL = 64
_TIMES_GIVEN = 8
ASK_AGAIN_SECONDS = 30.0  # without any piece of its owner: then what was asked for is lost, and not only slow

Progress = Callable[[str, int, int], None]  # owner, bytes that are here, bytes in all


@dataclass
class _Part:
    """One thing that is being fetched from one owner."""

    reference: Reference
    here: dict[int, bytes] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)  # piece -> when to ask for it again

    def next_piece(self, now: float, start: int) -> int | None:
        """The first piece from ``start`` on that is neither here nor on the way."""
        for index in range(start, self.reference.pieces):
            if index not in self.here and self.asked.get(index, now) <= now:
                return index
        return None

    def on_the_way(self, now: float) -> int:
        return sum(until > now for until in self.asked.values())


class Fetcher:
    """What one party fetches, from however many owners."""

    def __init__(
        self,
        each: int = PIECES_EACH,
        in_all: int = PIECES_IN_ALL,
        on_progress: Progress = lambda _owner, _here, _all: None,
    ) -> None:
        self._each = each
        self._in_all = in_all
        self._on_progress = on_progress
        self._parts: dict[tuple[str, bytes], _Part] = {}
        self._heard: set[str] = set()  # owners of whom a piece has come since it was last looked
        self.fetched: dict[str, Cargo] = {}  # owner -> what is complete

    def want(self, owner: str, references: list[Reference]) -> None:
        """Fetch these, from where an earlier attempt has stopped."""
        self._make_room(owner, references)
        for reference in references:
            if reference.digest not in self.fetched.get(owner, {}):
                self._parts.setdefault((owner, reference.digest), _Part(reference))

    def _make_room(self, owner: str, references: list[Reference]) -> None:
        """Keep no more of one owner than one message may refer to: earlier attempts give way."""
        held = sum(part.reference.size for (name, _), part in self._parts.items() if name == owner)
        held += sum(map(len, self.fetched.get(owner, {}).values()))
        wanted = {reference.digest for reference in references}
        if held + sum(reference.size for reference in references) <= 2 * MOST_BYTES:
            return
        for key in [key for key in self._parts if key[0] == owner and key[1] not in wanted]:
            del self._parts[key]
        self.fetched.pop(owner, None)

    def forget(self, owner: str) -> None:
        """All that is wanted of it was read; what is left of earlier attempts is not wanted any more."""
        for key in [key for key in self._parts if key[0] == owner]:
            del self._parts[key]
        self.fetched.pop(owner, None)

    def interrupt(self, owner: str) -> None:
        """Its connection is lost, and with it what was on the way; what is here stays."""
        for (name, _), part in self._parts.items():
            if name == owner:
                part.asked.clear()

    def take(self, owner: str, piece: Piece) -> bool:
        """Returns whether this piece completes its thing. One that was not asked for is dropped."""
        part = self._parts.get((owner, piece.digest))
        if part is None or part.asked.pop(piece.index, None) is None:
            return False
        self._heard.add(owner)
        size = min(PIECE_BYTES, part.reference.size - piece.index * PIECE_BYTES)
        if len(piece.data) != size:
            return False  # asked for again when its time has come
        part.here[piece.index] = piece.data
        count = len(part.here)
        self._on_progress(owner, min(count * PIECE_BYTES, part.reference.size), part.reference.size)
        if count < part.reference.pieces:
            return False
        content = b"".join(part.here[index] for index in range(count))
        if hashlib.sha256(content).digest() != piece.digest:
            part.here.clear()  # damaged on the way: once more
            return False
        del self._parts[owner, piece.digest]
        self.fetched.setdefault(owner, {})[piece.digest] = content
        return True

    def gone(self, owner: str, gone: Gone) -> bool:
        """The owner has it no more; returns whether it was wanted."""
        return self._parts.pop((owner, gone.digest), None) is not None

    def requests(self, now: float, reachable: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, Fetch]]:
        """What to ask whom for now, in turns, so that no owner waits for another's bulk."""
        self._go_on_waiting(now)
        room = self._in_all - sum(part.on_the_way(now) for part in self._parts.values())
        asked: dict[tuple[str, bytes], list[int]] = {}
        load: dict[str, int] = {}
        starts: dict[tuple[str, bytes], int] = {}
        for (owner, _), part in self._parts.items():
            load[owner] = load.get(owner, 0) + part.on_the_way(now)
        going = True
        while room > 0 and going:
            going = False
            for key, part in self._parts.items():
                owner = key[0]
                if room <= 0 or load[owner] >= self._each or not reachable(owner):
                    continue
                index = part.next_piece(now, starts.get(key, 0))
                if index is None:
                    continue
                part.asked[index] = now + ASK_AGAIN_SECONDS
                asked.setdefault(key, []).append(index)
                starts[key] = index + 1
                load[owner] += 1
                room, going = room - 1, True
        for (owner, digest), pieces in asked.items():
            yield owner, Fetch(digest, tuple(pieces))

    def _go_on_waiting(self, now: float) -> None:
        """For those whose pieces come, however slowly: asking again would only make their link slower."""
        for (owner, _), part in self._parts.items():
            if owner in self._heard:
                part.asked = dict.fromkeys(part.asked, now + ASK_AGAIN_SECONDS)
        self._heard.clear()

    def __bool__(self) -> bool:
        """Whether anything is still being fetched."""
        return bool(self._parts)


class Offer:
    """The owner's part: what one message of its own refers to, to be fetched by who got the message.

    Each piece is given a few times, for what is lost on the way, and no more: a small question has a large answer.
    """

    def __init__(self) -> None:
        self.cargo: Cargo = {}
        self._given = 0

    def serve(self, fetch: Fetch) -> Iterator[Piece | Gone]:
        """The pieces that were asked for."""
        content = self.cargo.get(fetch.digest)
        most = _TIMES_GIVEN * sum(-(-len(one) // PIECE_BYTES) for one in self.cargo.values())
        if content is None or self._given >= most:
            yield Gone(fetch.digest)
            return
        for index in fetch.pieces[:PIECES_IN_ALL]:
            if 0 <= index * PIECE_BYTES < len(content):
                self._given += 1
                yield Piece(fetch.digest, index, content[index * PIECE_BYTES : (index + 1) * PIECE_BYTES])

"""What is large comes piece by piece: the side that pulls. What is given, and the frames of both, are in ``frames``."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterator

from codedfl.engines.frames import PIECE_BYTES, PIECES_EACH, Frame, Offered, Piece, Pull

MOST_AT_ONCE = 128 << 20  # bytes of all that is being pulled: a thousand uploads must not be begun together
PIECES_IN_ALL = 64
ASK_AGAIN_SECONDS = 5.0  # without a piece
TURN_SECONDS = 20.0  # then, if others wait, it is theirs: a silent or slow party delays nobody for longer
_PLACES = PIECES_IN_ALL // PIECES_EACH


class _Pulled:
    """One content on its way here. Pieces are kept as they come: nothing is allocated from a declared size."""

    def __init__(self, offered: Offered) -> None:
        self.of, self.digest, self.size = offered.of, offered.digest, offered.size
        self.here: dict[int, bytes] = {}
        self.rests = True  # until it is its turn
        self.begun = 0.0
        self._asked: set[int] = set()
        self._heard = 0.0

    @property
    def on_the_way(self) -> int:
        return len(self._asked)

    @property
    def count(self) -> int:
        return -(-self.size // PIECE_BYTES)

    @property
    def held(self) -> int:
        return sum(map(len, self.here.values()))

    def due(self) -> float:
        """When to ask again."""
        return self._heard + ASK_AGAIN_SECONDS if self._asked else float("inf")

    def rest(self) -> None:
        self.rests = True
        self._asked.clear()

    def begin(self, now: float) -> None:
        self.rests, self.begun, self._heard = False, now, now

    def look(self, now: float) -> None:
        """What has not come in time is asked for again."""
        # Everything that was asked for: which piece was lost is unknown, and one that comes twice is not awaited twice.
        if now >= self.due():
            self._asked.clear()

    def wanted(self, room: int, now: float) -> tuple[int, ...]:
        # In order; one that was lost is found by its absence.
        free = (index for index in range(self.count) if index not in self.here and index not in self._asked)
        found = tuple(index for index, _ in zip(free, range(room), strict=False))
        if found and not self._asked:
            self._heard = now
        self._asked.update(found)
        return found

    def take(self, piece: Piece, now: float) -> bool:
        """Whether this was awaited; a piece of another size is asked for again when its time has come."""
        size = min(PIECE_BYTES, self.size - piece.index * PIECE_BYTES)
        # Invariant: only what was asked for is kept, so nobody can push pieces, or a piece of another size, into
        # memory.
        if piece.index not in self._asked or len(piece.data) != size:
            return False
        self._asked.discard(piece.index)
        self.here[piece.index] = piece.data
        self._heard = now
        return True

    def content(self) -> bytes | None:
        """All of it; None, and restarted, where it is not what was offered."""
        found = b"".join(self.here[index] for index in range(self.count))
        # Pieces are not authenticated: the whole is what was offered, or it is fetched again.
        if hashlib.sha256(found).digest() == self.digest:
            return found
        self.here.clear()
        return None


class Pulls:
    """What is being pulled from several parties, in turns, with bounds on what is on the way and on memory.

    Examples
    --------
    >>> from codedfl.engines.frames import Offers
    >>> from codedfl.engines.pieces import Pulls
    >>> giver, taker = Offers(), Pulls()
    >>> taker.begin("clinic-1", giver.framed(b"", bytes(200_000)))
    >>> pieces = [piece for _, pull in taker.asked(0.0) for piece in giver.given(pull)]
    >>> done = [taker.take("clinic-1", piece, 0.1) for piece in pieces][-1]
    >>> len(pieces), len(done[1])
    (3, 200000)
    """

    def __init__(self, at_once: int = MOST_AT_ONCE) -> None:
        self._at_once, self._others_wait = at_once, False
        self._pulled: OrderedDict[tuple[str, bytes], _Pulled] = OrderedDict()

    def begin(self, party: str, offered: Frame) -> None:
        """Pull what a party offers; of one party only what it offered last."""
        assert isinstance(offered, Offered)
        # One content of a party at a time: what it offers next replaces what it offered before.
        for key in [key for key in self._pulled if key[0] == party and key[1] != offered.digest]:
            del self._pulled[key]
        found = self._pulled.get((party, offered.digest))
        # Same digest, other size: one of the offers lies, and pieces of neither can be placed. It begins again.
        if found is None or found.size != offered.size:
            found = self._pulled[party, offered.digest] = _Pulled(offered)
        found.of = offered.of

    def is_coming(self, party: str, of: bytes) -> bool:
        """Whether the reply to this request is being pulled just now."""
        return any(one.of == of and not one.rests for (name, _), one in self._pulled.items() if name == party)

    def progress(self, party: str) -> tuple[int, int]:
        """Bytes that are here of what this party offered, and all of them."""
        for (name, _), one in self._pulled.items():
            if name == party:
                return min(len(one.here) * PIECE_BYTES, one.size), one.size
        return 0, 0

    def interrupt(self, party: str) -> None:
        """Its connection is lost, and with it what was on the way; what is here stays."""
        for (name, _), one in self._pulled.items():
            if name == party:
                # Invariant: pieces that are here stay across connections; only what was on the way is lost.
                one.rest()

    def gone(self, party: str, digest: bytes) -> bytes | None:
        """The owner has it no more; returns what it was the reply to."""
        found = self._pulled.pop((party, digest), None)
        return None if found is None else found.of

    def take(self, party: str, piece: Piece, now: float) -> tuple[bytes, bytes] | None:
        """The whole content and what it is the reply to, when this piece is the last."""
        found = self._pulled.get((party, piece.digest))
        if found is None or not found.take(piece, now) or len(found.here) < found.count:
            return None
        content = found.content()
        if content is None:
            return None
        del self._pulled[party, piece.digest]
        return found.of, content

    def due(self) -> float:
        """When ``asked`` is to be looked at again, if nothing comes in before."""
        active = [one for one in self._pulled.values() if not one.rests]
        turns = [one.begun + TURN_SECONDS for one in active if self._others_wait]
        return min((*turns, *(one.due() for one in active)), default=float("inf"))

    def asked(self, now: float, here: Collection[str] | None = None) -> Iterator[tuple[str, Pull]]:
        """What to ask whom for now. ``here``: the parties that can be reached; None is all."""
        for one in self._pulled.values():
            one.look(now)
        self._give_places(now, here)
        active = [(key, one) for key, one in self._pulled.items() if not one.rests]
        # Invariant: over all parties never more pieces are on the way than a broker may hold.
        room = PIECES_IN_ALL - sum(one.on_the_way for _, one in active)
        for key, one in active:
            if wanted := one.wanted(min(room, PIECES_EACH - one.on_the_way), now):
                room -= len(wanted)
                yield key[0], Pull(key[1], wanted)

    def _give_places(self, now: float, here: Collection[str] | None) -> None:
        """Begin with what waits, as far as there are places and memory."""
        waiting = [(key, one) for key, one in self._pulled.items() if one.rests and (here is None or key[0] in here)]
        self._others_wait = False
        if not waiting:
            return
        for key, one in list(self._pulled.items()):
            # Only while others wait: alone, a slow party may take as long as it needs.
            if not one.rests and now - one.begun >= TURN_SECONDS:
                one.rest()
                self._pulled.move_to_end(key)
        active = [one for one in self._pulled.values() if not one.rests]
        for _, one in waiting:
            # One that does not fit beside others still gets its turn alone, or it would wait for ever.
            fits = sum(other.size for other in active) + one.size <= self._at_once
            if len(active) < _PLACES and (fits or not active):
                one.begin(now)
                active.append(one)
        self._others_wait = any(one.rests for _, one in waiting)
        self._spare_memory()

    def _spare_memory(self) -> None:
        """What rests is forgotten, the largest first, where all together is too much: it can be pulled again."""
        # Invariant: what is active stays; what rests can be pulled again, at the price of its bytes.
        held = sum(one.held for one in self._pulled.values())
        for one in sorted(self._pulled.values(), key=lambda one: one.held, reverse=True):
            if held > self._at_once and one.rests:
                held -= one.held
                one.here.clear()

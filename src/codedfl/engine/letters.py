"""Numbered letters between the server and one device: what is lost, late or repeated on the way changes nothing.

Flower carries a call to a node and a reply back; either can get lost, and a killed process forgets both. So each side
numbers what it sends, keeps it until the other side has confirmed it, and sends it again with every call until then;
the receiver leaves out what it has taken already. Updates, answers and the end of a run need none of that: only the
newest counts, and the state machines take repetitions of it. They travel beside the letters as ``newest``.

Nothing here does I/O. A ``Line`` is part of its party's saved state, in one write with the machine that it feeds, so
these hold after every crash on either side:

1. A letter has one number for good: ``first + len(waiting)`` letters were ever put, and numbers are never used again.
2. ``received`` letters of the other side are in the machine's state, each once, in order: neither is ever saved without
   the other.
3. A letter is dropped only when the other side has confirmed it, and a confirmation leaves only after the state in
   which the letter was taken is on the disk. So whatever is in no machine yet still waits on some disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from codedfl.errors import MessageRefused
from codedfl.protocol.messages import Message
from codedfl.state import PLAIN, Checkpointed, CheckpointFields, Codec


class Letter(NamedTuple):
    """A wire message in two parts: the bulk travels as a record of its own, so that one upload serves many.

    Whoever receives it hands both to its machine: ``receive(head, bulk)``.
    """

    head: bytes
    bulk: bytes = b""

    @classmethod
    def of(cls, message: Message) -> Letter:
        return cls(replace(message, attachment=b"").encode(), message.attachment)

    @property
    def size(self) -> int:
        return len(self.head) + len(self.bulk)


@dataclass(frozen=True)
class Parcel:
    """What one call or one reply carries.

    first: the number of the first of ``letters``, counted from 0 in each direction.
    confirmed: how many letters of the other side have been taken, and safely stored.
    newest: the current update or the end of the run; in a reply, the answer. Empty if there is none.
    refusal: in a reply, why a message was refused, and with it those behind.
    """

    first: int
    letters: tuple[Letter, ...]
    confirmed: int
    newest: bytes = b""
    refusal: str = ""

    @property
    def size(self) -> int:
        """In bytes, without what the engine wraps around it."""
        return sum(letter.size for letter in self.letters) + len(self.newest)


class Line(Checkpointed):
    """One party's end of the line to another."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "first": PLAIN,
        "received": PLAIN,
        "waiting": Codec(
            lambda letters: [list(letter) for letter in letters], lambda pairs: [Letter(*pair) for pair in pairs]
        ),
    }

    def __init__(self) -> None:
        self.first = 0  # the number of the first letter that waits for its confirmation; it only grows
        self.waiting: list[Letter] = []  # numbers first, first + 1, ...: without a gap
        self.received = 0  # how many of the other side's the machine has taken; it only grows

    def put(self, letter: Letter) -> None:
        self.waiting.append(letter)

    def parcel(self, newest: bytes = b"", refusal: str = "", most_bytes: int | None = None) -> Parcel:
        """What waits, oldest first: with ``most_bytes`` no more than fits, but at least one letter."""
        letters: list[Letter] = []
        size = 0
        for letter in self.waiting:
            size += letter.size
            if letters and most_bytes is not None and size > most_bytes:
                break
            letters.append(letter)
        return Parcel(self.first, tuple(letters), self.received, newest, refusal)

    def take(self, parcel: Parcel) -> Iterator[Letter]:
        """The other side's letters that are new here; then drops what it has confirmed.

        A letter counts as taken when the next one is asked for. One that is refused in between may have been damaged:
        nothing behind it is taken, nothing is dropped, and so all of it comes again.
        """
        # What is confirmed was sent (1), and is not less than what was confirmed before. Both are judged before
        # anything of the parcel is taken.
        if not self.first <= parcel.confirmed <= self.first + len(self.waiting):
            sent = f"{self.first} to {self.first + len(self.waiting)}"
            raise MessageRefused(f"the letters confirmed must be among those sent ({sent}), got {parcel.confirmed}")
        if parcel.first > self.received:
            raise MessageRefused(
                f"the next letter must be number {self.received}, got {parcel.first}: some are missing"
            )
        for letter in parcel.letters[self.received - parcel.first :]:
            yield letter
            # Only here has the machine taken it: where it raised, this line is not reached, nor any below (2).
            self.received += 1
        # Only now, with all its letters taken, does the parcel count as read: until then we go on repeating ours (3).
        del self.waiting[: parcel.confirmed - self.first]
        self.first = parcel.confirmed

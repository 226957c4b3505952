"""What a device remembers of its runs, so that totals of several runs cannot be combined to a few devices.

Totals are exact, so they can be added and subtracted: the total over J less the total over J without j is device j.
Several lists can do what two cannot: J with J without {1, 2}, without {2, 3} and without {1, 3} give device 1. In
general, whoever knows the totals over some lists knows every rational combination of them, and a device j is exposed
when some combination is zero outside a few devices and not zero on j. Before a device signs or uploads anything it
therefore records the list it is going to be part of (a run that fails later counts too) and refuses a list that would
leave 1 to k - 1 devices.

The same list again shows what changed in between: it is allowed if the device's own rows are the same, or differ by
so many rows that a single one does not stand out. The bounds that rows are fitted to must be the same too: they are
the server's choice, and two totals with limits of n and n - 1 rows differ by one row of whoever has n. Rows are
compared as they are before anything was made of them (``local_data.Origin``), so that neither bounds nor another
recipe makes the same rows look like others, nor a refusal tell of them. Ranges and classes that whoever starts a run
may choose must be the same as well: linear features can be scaled back, and then two totals differ by what only one of
the two ranges has clipped. Rows are remembered as keyed hashes (``Identity.tag``), which tell whoever finds the file
nothing without the device's key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.messages import check_types, pack_list, unpack_list
from codedfl.typing import Floats

TAG_BYTES = 8
AS_AGREED = (0.0, 0.0, 0)  # bounds of an entry whose rows no choice of the server's could clip or leave out


@dataclass(frozen=True)
class Entry:
    """One agreement: the identities whose data are in its total, what shaped the rows, and the tags of our own.

    agreement: its hash, for the operator to tell entries apart. It excuses nothing: a device that was set back to an
        older state may be shown a second list under the same agreement.
    recipe: its digest.
    bounds: what the server may choose of how rows are fitted (``local_data``): bounds on values, rows of a device;
        ``AS_AGREED`` where they are those of a study, so that the server has no choice.
    rows: tags of them as they were before anything was made of them.
    ranges: see ``local_data.Origin``.
    rho: what the run's noise lets it cost a row (``privacy.calibration``); None for an exact total.
    """

    agreement: bytes
    members: frozenset[bytes]
    recipe: bytes
    bounds: tuple[float, float, int]
    rows: bytes
    ranges: bytes = b""
    rho: float | None = None


class Ledger:
    """All runs of one device, oldest first. Keep it on disk before anything that follows from an entry leaves."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)

    def __repr__(self) -> str:
        return f"<Ledger of {len(self.entries)} runs>"

    def objection(self, entry: Entry, *, least_left: int, least_changed: int) -> str:
        """Why this run must not follow the recorded ones; empty when it may.

        Parameters
        ----------
        entry : the run to be
        least_left : k: no combination of totals may leave 1 to k - 1 devices.
        least_changed : rows of ours that must have changed for the same list again, unless none has.
        """
        lists = list(dict.fromkeys(past.members for past in self.entries))
        if entry.members in lists:
            for past in self.entries:
                if past.members != entry.members:
                    continue
                chosen = AS_AGREED not in (past.bounds, entry.bounds)
                if chosen and past.bounds != entry.bounds:  # whatever our rows are: to refuse must not tell of them
                    return (
                        "the same devices trained together before within other bounds (features, labels, rows of a"
                        f" device) {past.bounds}, got {entry.bounds}: the difference of the two totals would be about"
                        " the few rows or values between them; take the same bounds"
                    )
                if past.ranges != entry.ranges:
                    return (
                        "the same devices trained together before with other ranges or classes: the difference of the"
                        " two totals could be about the few values between them; take the same, or a study that the"
                        " operators approve"
                    )
                changed = rows_changed(past.rows, entry.rows)
                if 0 < changed < least_changed:
                    return (
                        f"the same devices trained together before and only {changed} of our rows changed since:"
                        f" the difference of the two totals would be about those; at least {least_changed} must change"
                    )
            return ""
        left = smallest_new_remainder(lists, entry.members, least_left - 1)
        if left:
            return (
                f"totals of earlier runs and this one could be combined to {left} device(s) alone, and at least"
                f" {least_left} must be left: train with the same devices as before, or with more new ones"
            )
        return ""

    def record(self, entry: Entry) -> None:
        """Once for each agreement."""
        if entry not in self.entries:
            self.entries.append(entry)

    @property
    def rho(self) -> float | None:
        """What all runs together cost a row that was in each of them; None if one of them was exact. 0 of none."""
        costs = [entry.rho for entry in self.entries]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def rho_with(self, entry: Entry) -> float | None:
        """The same after a run to be, which counts once."""
        return self.rho if entry in self.entries else Ledger([*self.entries, entry]).rho

    # -- as bytes, for the disk

    def encode(self) -> bytes:
        return pack_list(
            [
                [
                    *(e.agreement, sorted(e.members), e.recipe, list(e.bounds), e.rows, e.ranges),
                    *(() if e.rho is None else (e.rho,)),
                ]
                for e in self.entries
            ]
        )

    @classmethod
    def decode(cls, data: bytes) -> Ledger:
        try:
            entries = []
            for fields in unpack_list(data, "a ledger", depth=3, most=2**22):
                types: tuple[type, ...] = (bytes, list, bytes, list, bytes, bytes)
                with_noise = len(fields) > len(types)
                agreement, members, recipe, bounds, rows, ranges, *rho = check_types(
                    fields, (*types, float) if with_noise else types, "a ledger's entry"
                )
                check_types(members, (bytes,) * len(members), "a list")
                features, labels, limit = check_types(bounds, (float, float, int), "a ledger's bounds")
                limits = (features, labels, limit)
                cost = rho[0] if rho else None
                entries.append(Entry(agreement, frozenset(members), recipe, limits, rows, ranges, cost))
        except (MessageRefused, TypeError) as error:
            raise InvalidInput(f"the ledger must be as it was saved, got something else ({error})") from None
        return cls(entries)


def row_tags(identity: Identity, rows: Iterable[bytes]) -> bytes:
    """A keyed hash of every row, sorted: the order of rows does not matter."""
    return b"".join(sorted(identity.tag(row)[:TAG_BYTES] for row in rows))


def rows_as_bytes(X: Floats, Y: Floats) -> Iterator[bytes]:
    """Features and labels that count as the raw rows themselves."""
    return (row.tobytes() for row in np.hstack([X, Y]).astype("<f8"))


def rows_changed(before: bytes, after: bytes) -> int:
    """How many rows came or went."""
    old, new = (Counter(_tags(rows)) for rows in (before, after))
    return (old - new).total() + (new - old).total()


def _tags(rows: bytes) -> Iterator[bytes]:
    return (rows[start : start + TAG_BYTES] for start in range(0, len(rows), TAG_BYTES))


def smallest_new_remainder(lists: Sequence[frozenset[bytes]], new: frozenset[bytes], most: int) -> int:
    """The fewest devices, up to ``most``, that a combination of the totals with the new one leaves; 0 if none does.

    The new total by itself does not count: how few devices it may have is another rule (``Policy.least_joiners``).

    Devices that are in the same lists always stay together: a combination is one number for each such class, so only
    sets of whole classes need to be tried. A set S is left by some combination exactly when the lists restricted to
    everybody else have a smaller rank than the lists; counted only where the new list makes the difference.
    """
    every = [*lists, new]
    classes = Counter(tuple(device in one for one in every) for device in frozenset().union(*every))
    patterns = list(classes)
    matrix = [[Fraction(pattern[row]) for pattern in patterns] for row in range(len(every))]
    small = [place for place, pattern in enumerate(patterns) if classes[pattern] <= most]
    whole, before = _rank(matrix), _rank(matrix[:-1])
    found = 0
    for count in range(1, len(small) + 1):
        sizes = []
        for chosen in combinations(small, count):
            size = sum(classes[patterns[place]] for place in chosen)
            if (
                size > most
                or (found and size >= found)
                or (all(patterns[place][-1] for place in chosen) and size == len(new))
            ):
                continue
            sizes.append(size)
            rest = [place for place in range(len(patterns)) if place not in chosen]
            outside = [[row[place] for place in rest] for row in matrix]
            if whole - _rank(outside) > before - _rank(outside[:-1]):
                found = size
        if not sizes:
            break
    return found


def _rank(matrix: Sequence[Sequence[Fraction]]) -> int:
    """By elimination in fractions: exact."""
    rows = [list(row) for row in matrix]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((index for index in range(rank, len(rows)) if rows[index][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for index in range(rank + 1, len(rows)):
            if rows[index][column]:
                factor = rows[index][column] / rows[rank][column]
                rows[index] = [x - factor * y for x, y in zip(rows[index], rows[rank], strict=True)]
        rank += 1
    return rank

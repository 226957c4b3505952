"""What each party of a scheme sees, what follows from it, and what a collusion adds, for ``codedfl lab privacy``.

Every row is computed from the scheme's views (``views``). The worst set of colluders is looked for by adding, one after
the other, the device that brings most; tests hold that to all sets of small fleets. ``experiments/attacks`` carries out
what is said here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from codedfl_lab.privacy.exposure import Exposure
from codedfl_lab.privacy.row_reduction import Residues, reduced
from codedfl_lab.privacy.views import THE_SERVER, Views, singles

MOST_DEVICES = 60
"""Rows are computed for fleets up to this size; for larger ones a scheme's own rule says whom a collusion exposes."""


@dataclass(frozen=True)
class PrivacyRow:
    """One party or set of parties.

    exposed: how many single devices' sums (G^(1), with it X'Y) it learns beyond those of its own members.
    gram_functionals: how many independent combinations of the others' X'X it learns whole, not for single e alone;
        None where that was not computed.
    """

    party: str
    sees: str
    follows: str
    exposed: int
    gram_functionals: int | None = None


@dataclass(frozen=True)
class Learned:
    """What is known of honest devices: whose own sums, how much else, and whether that is the total of the others."""

    single: frozenset[int]
    further: int
    total: bool

    @classmethod
    def of(cls, functionals: Residues, honest: Sequence[int], prime: int) -> Learned:
        """``functionals`` are along all owners; what colluders know of themselves is taken off."""
        rest = reduced(functionals[:, honest], prime)[0]
        alone = singles(rest)
        others = rest[np.count_nonzero(rest, axis=1) > 1]
        total = len(others) == 1 and np.array_equal(np.flatnonzero(others[0]), sorted(set(range(len(honest))) - alone))
        even = total and len(set(others[0][others[0] != 0].tolist())) == 1
        return cls(frozenset(honest[j] for j in alone), len(others), even)


def privacy_rows(views: Views) -> list[PrivacyRow]:
    """One row per party or collusion, the server first."""
    n, together = views.owners, "what each of them sees"
    server = _row(views, "server", _words(views, THE_SERVER), {THE_SERVER})
    device = _worst(views, ({i} for i in range(n)))
    last = _worst(views, ({*range(n)} - {i} for i in range(n)))
    rows = [
        server if not views.remark else PrivacyRow(**{**vars(server), "follows": f"{server.follows}; {views.remark}"}),
        _row(views, "one device", _words(views, min(device)), device),
        _row(views, "all devices but one, without the server", together, last),
        _row(views, "server, after two runs that differ by one device", "two such views", {THE_SERVER}, differ_by=0),
    ]
    found: list[PrivacyRow] = []
    for devices in _worst_collusions(views):
        count = len(devices) - 1
        who = {1: "one device", 2: "two devices (worst pair)"}.get(count, f"{count} devices (worst found)")
        found.append(_row(views, f"server and {who}", together, devices))
    # One and two colluders; then the most that expose nobody, and one more.
    return [*rows, *found[:2], *found[max(2, len(found) - 2) :]]


def plain_rows(server_sees: str, exposure: Exposure, n_devices: int) -> list[PrivacyRow]:
    """For a scheme of which only this is known: what its server sees, and whom a collusion exposes."""

    def follows(exposed: int) -> str:
        return f"the data of {exposed} single devices" if exposed else "no single device's data"

    collusions = {"one device": exposure.one_colluder, "two devices (worst pair)": exposure.two_colluders}
    alone = int(n_devices == 2)  # the total less one's own is the other's
    return [
        PrivacyRow("server", server_sees, follows(exposure.server_alone), exposure.server_alone),
        PrivacyRow("one device", "every model", follows(alone), alone),
        *(
            PrivacyRow(f"server and {who}", "what each of them sees", follows(exposed), exposed)
            for who, exposed in collusions.items()
        ),
    ]


def _worst(views: Views, sets: Iterator[set[int]]) -> set[int]:
    """Who exposes most, knows most, holds most seeds; of equals the first."""

    def badness(parties: set[int]) -> tuple[int, int, int]:
        found = _learned(views, parties)
        return len(found.single), found.further, views.seeds_held(parties)

    return max(sets, key=badness)


def _worst_collusions(views: Views) -> Iterator[set[int]]:
    """The server with one, two, ... devices, until somebody is exposed or all but two devices collude."""
    parties = {THE_SERVER}
    while len(parties) <= max(1, views.owners - 2):
        parties = _worst(views, (parties | {i} for i in range(views.owners) if i not in parties))
        yield parties
        if len(parties) > 2 and _learned(views, parties).single:
            return


def _learned(views: Views, parties: Collection[int], *, whole: bool = False, differ_by: int | None = None) -> Learned:
    """``differ_by`` names a device that was not in a second run, the same but for fresh streams.

    Streams of two runs have nothing in common, so what is known of both is what is known of each, and their sums.
    """
    known = views.known(parties, whole=whole)
    if differ_by is not None:
        second = known.copy()
        second[:, differ_by] = 0
        known = reduced(np.vstack([known, second]), views.prime)[0]
    return Learned.of(known, [i for i in range(views.owners) if i not in parties], views.prime)


def _row(views: Views, party: str, sees: str, parties: Collection[int], differ_by: int | None = None) -> PrivacyRow:
    found = _learned(views, parties, differ_by=differ_by)
    whole = _learned(views, parties, whole=True, differ_by=differ_by)
    return PrivacyRow(party, sees, _follows(found, whole, views), len(found.single), len(whole.single) + whole.further)


def _words(views: Views, party: int) -> str:
    return ", ".join(one.what for one in views.of([party]) if one.what != "its own data")


def _follows(found: Learned, whole: Learned, views: Views) -> str:
    """In words: of whom, and whether X'X itself or its product with each e."""
    for_each = "X'Y and X'X e, for each e,"
    said = []
    if whole.single:
        said.append(f"X'X and X'Y of {_devices(len(whole.single))}")
    if found.single - whole.single:
        said.append(f"{for_each} of {_devices(len(found.single - whole.single))}")
    if found.further:
        of = "the total" if found.total else f"{found.further} combinations"
        what = "X'X and X'Y" if whole.further == found.further else for_each.rstrip(",")
        said.append(f"{of} of {what}" + " of the others" * bool(found.single))
    if said:
        return ", and ".join(said)
    return "nothing" if views.everybody else "nothing until the model is published"


def _devices(count: int) -> str:
    return "one single device" if count == 1 else f"{count} single devices"

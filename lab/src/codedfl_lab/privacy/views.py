"""What each party of a scheme reads, as linear algebra, and what follows from it for any set of parties.

Every number that crosses a run is a linear form in the owners' own sums and in streams (pads, masks, random numbers of
shares) that are uniform to everybody who does not hold their seed. A combination of the forms that a set of parties
reads says something about the data exactly when the streams that the set does not know drop out of it; anything else
is uniform whatever the data are. ``Views.known`` computes what is left. The forms are made of the machines' own code,
masks and roles; ``tests/coded/test_views.py`` holds them to what running devices of the coded schemes send, number by
number, and ``tests/liars`` has what the secure sum's devices say.

Small plaintexts add something only where masks are off (lattice reduction). What the total itself says about a device
is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from codedfl_lab.code.gradient_code import Code
from codedfl_lab.code.masks import mask_coefficients, mask_senders
from codedfl_lab.code.roles import RoleCode
from codedfl_lab.privacy.row_reduction import Residues, reduced

THE_SERVER = -1
"""The server, in a set of parties; devices are their positions."""
_PRIME = 2**24 - 3  # any large one, for schemes without a ring


@dataclass(frozen=True, eq=False)
class Seen:
    """Numbers that a party reads or can expand: ``forms`` along the owners' sums, then the streams.

    whole: whether they are about X'X itself; otherwise about G^(1) and about X'X e, for each e that is sent.
    """

    what: str
    forms: Residues
    whole: bool = True


@dataclass(frozen=True, eq=False)
class Views:
    """What the server and each device read in one run.

    prime: what the forms are taken modulo.
    owners: how many devices' sums there are; the columns behind are streams.
    server, devices: what they read, their own sums included.
    everybody: what all of them read, such as updates.
    remark: what is worth saying of the server's view beyond linear algebra.
    """

    prime: int
    owners: int
    server: Sequence[Seen]
    devices: Sequence[Sequence[Seen]]
    everybody: Sequence[Seen] = field(default=())
    remark: str = ""

    def of(self, parties: Collection[int]) -> list[Seen]:
        """All that these parties read."""
        found = [one for party in parties for one in (self.server if party == THE_SERVER else self.devices[party])]
        return [*found, *self.everybody]

    def known(self, parties: Collection[int], *, whole: bool = False) -> Residues:
        """Reduced basis of all functionals of the owners' sums that these parties know together.

        ``whole`` asks about X'X itself instead of G^(1) and X'X e.
        """
        forms = [one.forms for one in self.of(parties) if one.whole or not whole]
        rows = np.vstack(forms) if forms else np.zeros((0, self.owners), dtype=np.int64)
        data, streams = rows[:, : self.owners], rows[:, self.owners :]
        # A form in one stream alone is its seed: whoever has it takes the stream off everything else.
        held = streams[(np.count_nonzero(streams, axis=1) == 1) & ~data.any(axis=1)].any(axis=0)
        hidden = streams[:, streams.any(axis=0) & ~held]
        form, pivots = reduced(np.hstack([hidden, data]), self.prime, pivot_columns=hidden.shape[1])
        return reduced(form[len(pivots) :, hidden.shape[1] :], self.prime)[0]

    def exposed(self, parties: Collection[int], *, whole: bool = False) -> set[int]:
        """Whose own sums are among what is known, those of the parties included: a unit row of the reduced basis."""
        return singles(self.known(parties, whole=whole))

    def seeds_held(self, parties: Collection[int]) -> int:
        """How many streams these parties can expand: of two sets that know as much, the one with more is closer."""
        units = [one.forms[~one.forms[:, : self.owners].any(axis=1), self.owners :] for one in self.of(parties)]
        stacked = np.vstack(units) if units else np.zeros((0, 0), dtype=np.int64)
        return int(stacked[np.count_nonzero(stacked, axis=1) == 1].any(axis=0).sum())


def singles(functionals: Residues) -> set[int]:
    """The columns that have a row of a reduced basis to themselves."""
    alone = functionals[np.count_nonzero(functionals, axis=1) == 1]
    return {int(np.flatnonzero(row)[0]) for row in alone}


def unit_forms(columns: int, at: Iterable[int]) -> Residues:
    """One form for each of these columns, which is that number itself."""
    return np.eye(columns, dtype=np.int64)[list(at)]


def updates_of(n_devices: int, columns: int) -> Seen:
    """Every e: it follows from the totals so far, so whoever sees it may know the total."""
    return Seen("every e", (np.arange(columns) < n_devices).astype(np.int64)[None, :], whole=False)


def clear_views(n_devices: int, what: str, remark: str = "") -> Views:
    """The views of a scheme whose server gets from each device by itself what belongs to a model it asked about."""
    own = [[Seen("its own data", unit_forms(n_devices, [i]))] for i in range(n_devices)]
    server = [Seen(what, unit_forms(n_devices, range(n_devices)), whole=False)]
    return Views(_PRIME, n_devices, server, own, [updates_of(n_devices, n_devices)], remark)


def coded_views(code: Code, *, padded: bool = False, whole_answers: bool = False, masks: bool = True) -> Views:
    """The views of a gradient code.

    padded: whether the server has the pads, and devices padded data of others; otherwise the server has padded uploads,
        and devices the seeds of pads.
    whole_answers: the first answer carries X'X itself, and no update follows.
    """
    prime, n = code.primes[0], code.n_devices
    columns = 3 * n  # owners, pads, masks
    B, padding = code.matrix()[0], unit_forms(columns, range(n)) + unit_forms(columns, range(n, 2 * n))
    answers = (B @ padding if padded else B @ unit_forms(columns, range(n, 2 * n))) % prime
    if masks:
        for i in range(n):
            answers[i, [2 * n + k for k in mask_senders(code, i)]] = mask_coefficients(code, i)[0]
    answered = Seen(f"{n} {'masked ' * masks}answers", answers % prime, whole=whole_answers)
    pads = Seen(f"the {n} pads it drew", unit_forms(columns, range(n, 2 * n)))
    uploads = Seen(f"{n} padded uploads", padding)
    devices = []
    for i in range(n):
        row, senders = code.row_support(i), mask_senders(code, i) if masks else []
        held = [Seen(f"pad seeds of {len(row) - 1} others", unit_forms(columns, [n + j for j in row]))]
        if padded:
            own_pad = Seen("its own pad", unit_forms(columns, [n + i]))
            held = [Seen(f"padded data of {len(row) - 1} others", padding[row]), own_pad]
        mask_seeds = Seen(f"{len(senders)} mask seeds", unit_forms(columns, [2 * n + k for k in senders]))
        devices.append([Seen("its own data", unit_forms(columns, [i])), *held, mask_seeds])
    everybody = [] if whole_answers else [updates_of(n, columns)]
    return Views(prime, n, [pads if padded else uploads, answered], devices, everybody)


def role_views(code: RoleCode, *, whole_answers: bool = False) -> Views:
    """The views of roles: a pad is the sum of one stream per role, and holders answer with sums over all owners."""
    n, roles = code.n_devices, code.n_roles
    columns = n * (1 + roles)  # owners, then the streams of role 0, of role 1, ...
    parts = [unit_forms(columns, range(n * (1 + role), n * (2 + role))) for role in range(roles)]
    uploads = Seen(f"{n} padded uploads", unit_forms(columns, range(n)) + sum(parts, np.zeros((n, columns), np.int64)))
    answers = np.array([part.sum(axis=0) for part in parts])
    answered = Seen(f"{roles} sums of pads, one per role", answers, whole=whole_answers)
    devices = []
    for i, role in enumerate(code.roles):
        held = parts[role] if role >= 0 else np.zeros((0, columns), dtype=np.int64)
        secrets = np.vstack([unit_forms(columns, [i]), *(part[[i]] for part in parts)])
        own = Seen(f"its own data and {roles} seed{'s' * (roles > 1)}", secrets)
        devices.append([own, Seen(f"one seed of {n - 1} others" if role >= 0 else "no seed of others", held)])
    everybody = [] if whole_answers else [updates_of(n, columns)]
    return Views(code.primes[0], n, [uploads, answered], devices, everybody)

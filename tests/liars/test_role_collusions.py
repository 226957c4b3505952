"""Role keys: what every collusion of devices with the server knows, read from the running machines.

One honest run is played for each shape, its pads symbols; which of its bytes a collusion can read is then worked out
for it. Up to z devices, or any number that lack a role, know one functional of each sum over the honest owners, the
total; whoever has all roles knows everything. Both primes, each by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest
from adversary import world
from knowledge import reduced_rows
from library import Library
from role_lies import ROLE_SCHEMES, RoleFace
from stage import Stage

from codedfl.code.roles import RoleCode
from codedfl.privacy.views import THE_SERVER, role_views

ENTRIES = [("cross", 0), ("gram", 0), ("rows", 0)]  # all that a device with d = c = 1 sums up
SHAPES = [(n, z) for z in (1, 2, 3) for n in range(z + 2, 10)]


def played(stage: Stage, scheme: str, n: int, z: int) -> RoleFace:
    """Two epochs in which everybody answers, the second with e = 1."""
    adversary = world(stage, ROLE_SCHEMES[scheme], [2] * n, 1, z=z, d=1, c=1)
    face = adversary.started()
    assert isinstance(face, RoleFace)
    face.ask_all(1, None)
    face.ask_all(2, [[1]])
    return face


def expected(face: RoleFace, colluders: tuple[int, ...], z: int, prime: int) -> list[list[int]]:
    """Along (entry, owner in the agreement's order): the total, or everything to whom has all roles; and their own."""
    names, roles = face.agreement.names, face.agreement.roles
    everything = {roles[i] for i in colluders} == set(range(z + 1))
    units = [[int(i == j) for i in range(len(names))] for j in (range(len(names)) if everything else colluders)]
    known = [[1] * len(names), *units]
    rows = [[0] * len(names) * e + row + [0] * len(names) * (2 - e) for e in range(3) for row in known]
    return reduced_rows(rows, prime)


def by_the_views(face: RoleFace, colluders: tuple[int, ...], z: int, prime: int) -> list[list[int]]:
    """The same from ``privacy.views``."""
    names = face.agreement.names
    views = role_views(RoleCode(face.agreement.roles, z + 1, (prime,)))
    known = views.known([THE_SERVER, *colluders]).tolist()
    return reduced_rows(
        [[0] * len(names) * e + row + [0] * len(names) * (2 - e) for e in range(3) for row in known], prime
    )


def by_the_machines(face: RoleFace, colluders: tuple[int, ...], library: Library | None) -> dict[int, list[list[int]]]:
    """By prime, the functionals of all owners' sums that the server and these devices know."""
    names = face.agreement.names
    knowledge = face.adversary.knowledge(also=[names[i] for i in colluders], library=library)
    place = {(name, *entry): e * len(names) + j for e, entry in enumerate(ENTRIES) for j, name in enumerate(names)}
    found = {}
    for prime in face.agreement.ring.primes:
        rows = []
        for functional in knowledge.functionals(prime):
            rows.append([0] * len(place))
            for coordinate, value in zip(knowledge.coordinates, functional, strict=True):
                rows[-1][place[coordinate]] = value
        for i, entry in itertools.product(colluders, ENTRIES):
            rows.append([int(place[names[i], *entry] == column) for column in range(len(place))])
        found[prime] = reduced_rows(rows, prime)
    return found


def check_collusions(face: RoleFace, z: int, collusions: Iterable[tuple[int, ...]]) -> int:
    """How many of them know everything."""
    library, all_knowing = Library(face.adversary.stage), 0
    for colluders in collusions:
        found = by_the_machines(face, colluders, library)
        assert len(found) == 2
        for prime, known in found.items():
            assert known == expected(face, colluders, z, prime), colluders
            assert known == by_the_views(face, colluders, z, prime), "what codedfl privacy computes its rows from"
        all_knowing += {face.agreement.roles[i] for i in colluders} == set(range(z + 1))
    return all_knowing


@pytest.mark.parametrize(("n", "z"), SHAPES)
def test_every_collusion_knows_the_total_until_it_has_every_role(n: int, z: int):
    with Stage() as stage:
        face = played(stage, "role-keys", n, z)
        subsets = [some for size in range(n + 1) for some in itertools.combinations(range(n), size)]
        assert 0 < check_collusions(face, z, subsets) < len(subsets)


@pytest.mark.parametrize(("n", "z"), [(4, 1), (6, 2)])
def test_role_sums_show_no_more(n: int, z: int):
    with Stage() as stage:
        face = played(stage, "role-sums", n, z)
        subsets = [some for size in range(n + 1) for some in itertools.combinations(range(n), size)]
        assert 0 < check_collusions(face, z, subsets) < len(subsets)


@pytest.mark.parametrize("z", [1, 4])
def test_sampled_collusions_of_25_devices(z: int):
    rng = random.Random(z)
    with Stage() as stage:
        face = played(stage, "role-keys", 25, z)
        samples = [tuple(sorted(rng.sample(range(25), size))) for size in (z, z, z + 1, z + 1, z + 1, 12, 24)]
        one_of_each = tuple(sorted(face.agreement.roles.index(role) for role in range(z + 1)))
        assert check_collusions(face, z, [*samples, one_of_each]) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(22))
def test_all_12650_collusions_of_4_of_25_devices_know_the_total(first: int):
    """Those whose first member is ``first``; z = 4."""
    with Stage() as stage:
        face = played(stage, "role-keys", 25, 4)
        collusions = [(first, *rest) for rest in itertools.combinations(range(first + 1, 25), 3)]
        assert check_collusions(face, 4, collusions) == 0


def test_the_library_reads_what_bytes_say():
    with Stage() as stage:
        face = played(stage, "role-keys", 5, 1)
        library = Library(stage)
        for colluders in itertools.chain.from_iterable(itertools.combinations(range(5), size) for size in range(4)):
            assert by_the_machines(face, colluders, library) == by_the_machines(face, colluders, None)

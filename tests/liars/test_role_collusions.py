"""Role keys: what every collusion of devices with the server knows, read from the running machines.

One honest run is played for each shape, its pads symbols; which of its bytes a collusion can read is then worked out
for it. Up to z devices, or any number that lack a role, know one functional of each sum over the honest owners, the
total; whoever has all roles knows everything. Both primes, each by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import numpy as np
import pytest
from adversary import Party, world
from knowledge import reduced_rows
from library import Library
from mutants import AnswersByTiles
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


# -- rows dealt out: a different e for every cell, twice


def dealt(
    stage: Stage, scheme: str, shape: tuple[int, int], rows: dict[str, int], party_type: type[Party] = Party
) -> RoleFace:
    """``rows`` are K, the reserve and d. Every block is asked for an e of its own, and then every cell."""
    n, z = shape
    d, blocks, reserve = rows["d"], rows["blocks"], rows.get("reserve", 0)
    adversary = world(stage, ROLE_SCHEMES[scheme], [2] * n, 1, z=z, d=d, c=1, party_type=party_type)
    face = adversary.started(blocks=blocks, reserve=reserve)
    assert isinstance(face, RoleFace)
    agreed, rng = face.agreement, random.Random(n)
    assert agreed.answer_rows.blocks.count == blocks
    face.ask_all(1, None)
    if scheme == "role-sums":
        return face
    for epoch, apart in ((2, False), (3, True)):
        asked: dict[tuple[int, int], list[list[int]]] = {}
        for name in face.holders:
            i = agreed.position(name)
            cell = (agreed.roles[i] if apart else 0, agreed.blocks[i])
            asked.setdefault(cell, [[rng.randint(-9, 9)] for _ in range(d)])
            face.ask(epoch, {name: asked[cell]})
    return face


def check_dealt(face: RoleFace, collusions: Iterable[tuple[int, ...]]) -> int:
    """Whoever lacks a role knows only what has one coefficient for all honest owners; the others know everything."""
    agreed, library, all_knowing = face.agreement, Library(face.adversary.stage), 0
    everything = set(range(agreed.parameters.colluders + 1))
    for colluders in collusions:
        honest = [name for i, name in enumerate(agreed.names) if i not in colluders]
        mine = [agreed.names[i] for i in colluders]
        knowledge = face.adversary.knowledge(also=mine, library=library)
        knows_all = {agreed.roles[i] for i in colluders} == everything
        all_knowing += knows_all
        for prime in agreed.ring.primes:
            found = knowledge.functionals(prime)
            if knows_all:
                assert len(found) == len(knowledge.coordinates), colluders
                continue
            for functional in found:
                by_entry: dict[tuple[str, int], dict[str, int]] = {}
                for (name, kind, index), value in zip(knowledge.coordinates, functional, strict=True):
                    by_entry.setdefault((kind, index), {})[name] = value
                assert all(len({one[name] for name in honest}) == 1 for one in by_entry.values()), colluders
    return all_knowing


DEALT = [
    ("role-keys", (4, 1), {"blocks": 2, "d": 2}),
    ("role-keys", (6, 1), {"blocks": 2, "reserve": 1, "d": 2}),
    ("role-keys", (6, 2), {"blocks": 2, "d": 3}),
    ("role-sums", (6, 1), {"blocks": 2, "reserve": 1, "d": 2}),
    ("role-keys", (8, 1), {"blocks": 3, "reserve": 1, "d": 3}),
    ("role-keys", (8, 3), {"blocks": 2, "d": 2}),
    ("role-keys", (9, 2), {"blocks": 2, "reserve": 1, "d": 2}),
]
LARGER = [
    ("role-keys", (9, 1), {"blocks": 3, "reserve": 1, "d": 4}),
    ("role-sums", (9, 2), {"blocks": 3, "d": 3}),
]


def check_every_collusion(scheme: str, shape: tuple[int, int], rows: dict[str, int]) -> None:
    with Stage() as stage:
        face = dealt(stage, scheme, shape, rows)
        subsets = [some for size in range(shape[0]) for some in itertools.combinations(range(shape[0]), size)]
        assert 0 < check_dealt(face, subsets) < len(subsets)


@pytest.mark.parametrize(("scheme", "shape", "rows"), DEALT)
def test_rows_dealt_out_show_no_collusion_more(scheme: str, shape: tuple[int, int], rows: dict[str, int]):
    check_every_collusion(scheme, shape, rows)


@pytest.mark.nightly
@pytest.mark.parametrize(("scheme", "shape", "rows"), LARGER)
def test_rows_dealt_out_among_more_devices_show_no_collusion_more(scheme: str, shape: tuple[int, int], rows):
    check_every_collusion(scheme, shape, rows)


def numbers_shown(party_type: type[Party]) -> int:
    """How many independent numbers of the total of X'X one e shows, the same for everybody, in two blocks of rows."""
    with Stage() as stage:
        adversary = world(stage, "role-keys", [2] * 4, 1, z=1, d=4, party_type=party_type)
        face = adversary.started(blocks=2)
        face.ask_all(1, np.array([[3], [1], [-2], [5]]))
        assert adversary.leak() is None  # whatever it is, it is of the total
        knowledge = adversary.knowledge()
        return max(knowledge.rank_within(prime, "gram") for prime in knowledge.primes)


def test_tiles_of_the_triangle_as_answers_are_found_out():
    """Rows of X'X e are d numbers; partial products with tiles of the triangle would be more."""
    assert numbers_shown(Party) == 4
    assert numbers_shown(AnswersByTiles) == 7


@pytest.mark.parametrize(("d", "blocks", "shown"), [(4, 2, 8), (3, 3, 6), (4, 4, 8)])
def test_a_different_e_for_every_block_shows_what_an_agreement_says(d: int, blocks: int, shown: int):
    """One colluder has role 0. Each block of role 1 is held by two, and each of them asked for another direction.

    With d = K = 3 two directions per block are all of X'X: d(K + 1)/(2K) = 2.
    """
    with Stage() as stage:
        options = {"d": d, "epochs": 2, "colluders": [0]}
        adversary = world(stage, "role-keys", [2] * 4 * blocks, 1, z=1, **options)
        face = adversary.started(blocks=blocks)
        agreed = face.agreement
        turn, rng = dict.fromkeys(range(blocks), 0), random.Random(d)
        for name in face.of_role(1 - agreed.roles[agreed.position(adversary.parties[0].name)]):
            block = agreed.blocks[agreed.position(name)]
            face.ask(1, {name: [[rng.randint(-9, 9)] for _ in range(d)]})
            turn[block] += 1
        assert set(turn.values()) == {2}
        assert adversary.leak() is None
        knowledge = adversary.knowledge()
        known = max(knowledge.rank_within(prime, "gram") for prime in knowledge.primes)
        assert known == shown <= sum(range(d, d - min(d, agreed.directions), -1))

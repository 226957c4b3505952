"""For every set of devices that collude with the server: what the machines let them know is what the views say.

One honest run is played for each code; which of its bytes a collusion can read is then worked out for every subset.
``privacy.views``, from which ``codedfl privacy`` computes every row, must give the same space, for each prime.
"""

from __future__ import annotations

import itertools

import pytest
from adversary import SCHEMES, Adversary, world
from knowledge import reduced_rows
from stage import Stage

from codedfl.code.gradient_code import make_code
from codedfl.privacy.views import THE_SERVER, coded_views

CODES = [(n, alpha, 1) for n in range(2, 7) for alpha in range(1, n + 1)] + [(4, 1, 2), (4, 2, 2), (6, 2, 2), (6, 3, 2)]
ENTRIES = [("cross", 0), ("gram", 0), ("rows", 0)]  # all that a device with d = c = 1 sums up


def by_the_machines(
    adversary: Adversary, names: tuple[str, ...], colluders: tuple[int, ...], prime: int
) -> list[list[int]]:
    """Known functionals along (entry, device in the code's order), with the colluders' own rows."""
    knowledge = adversary.knowledge(also=[names[i] for i in colluders])
    place = {(name, *entry): e * len(names) + j for e, entry in enumerate(ENTRIES) for j, name in enumerate(names)}
    rows = []
    for functional in knowledge.functionals(prime):
        rows.append([0] * len(place))
        for coordinate, value in zip(knowledge.coordinates, functional, strict=True):
            rows[-1][place[coordinate]] = value
    for i, entry in itertools.product(colluders, ENTRIES):
        rows.append([int(place[names[i], *entry] == column) for column in range(len(place))])
    return reduced_rows(rows, prime)


def by_the_views(
    scheme: str, n: int, alpha: int, groups: int, colluders: tuple[int, ...], prime: int
) -> list[list[int]]:
    """The same for every entry of the sums."""
    views = coded_views(make_code(n, alpha, (prime,), groups), padded=scheme == "coded-padded")
    known = views.known([THE_SERVER, *colluders]).tolist()
    rows = [[0] * n * e + row + [0] * n * (len(ENTRIES) - 1 - e) for e in range(len(ENTRIES)) for row in known]
    return reduced_rows(rows, prime)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("n", "alpha", "groups"), CODES)
def test_every_collusion_knows_what_the_views_say(scheme: str, n: int, alpha: int, groups: int):
    with Stage() as stage:
        adversary = world(stage, scheme, [2] * n, alpha, groups=groups, d=1, c=1)
        face = adversary.started()
        face.ask_all(1, None)
        face.ask_all(2, [[1]])
        assert adversary.stage.unknowns.data == {(name, *entry) for name in face.cast for entry in ENTRIES}
        primes = adversary.knowledge().primes
        assert len(primes) == 2
        for size in range(n + 1):
            for colluders in itertools.combinations(range(n), size):
                # Primes differ in nothing but their size: half of the collusions each, the small ones both.
                for prime in primes if size <= 2 else [primes[sum(colluders) % 2]]:
                    machines = by_the_machines(adversary, face.agreement.names, colluders, prime)
                    assert machines == by_the_views(scheme, n, alpha, groups, colluders, prime), (colluders, prime)


def test_one_more_seed_in_the_wrong_hands_is_seen():
    """The comparison can fail: with what a device drew that does not collude, more is known."""
    with Stage() as stage:
        adversary = world(stage, "coded-keys", [2] * 5, 2, d=1, c=1)
        face = adversary.started()
        face.ask_all(1, None)
        colluder, _, _, victim, _ = face.agreement.names
        prime = adversary.knowledge().primes[0]
        before = adversary.knowledge(also=[colluder]).functionals(prime)
        after = adversary.knowledge(also=[colluder], stolen=stage.drawn[victim]).functionals(prime)
    assert len(after) > len(before)

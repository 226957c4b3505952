"""What a run leaves behind: keys and folders that are stolen later. ``test_pods`` has what totals it leaves.

Each against the machines and against machines without the rule that stops it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from adversary import ALL_SCHEMES, Adversary, Party, world
from mutants import NeverFinishes, SealedToForGood
from role_lies import ROLE_SCHEMES, RoleFace
from stage import Stage


def bytes_in(value: object) -> Iterator[bytes]:
    """All bytes in a state."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from bytes_in(one)


def after_an_honest_run(stage: Stage, scheme: str, party_type: type[Party] = Party) -> Adversary:
    of_roles = scheme in ROLE_SCHEMES
    adversary = world(stage, scheme, alpha=1 if of_roles else 2, z=int(of_roles), party_type=party_type)
    adversary.whole_run()
    assert adversary.leak() is None
    return adversary


def key_files(adversary: Adversary) -> list[bytes]:
    return [adversary.stage.secret_of(party.identity.public) for party in adversary.parties]


def run_folders(adversary: Adversary) -> list[bytes]:
    kept = [digest for party in adversary.parties for one in party.answered.values() for digest in one]
    return kept + [text for party in adversary.parties for text in bytes_in(party.machine.state())]


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_keys_and_folders_stolen_after_the_run_open_nothing(scheme: str):
    with Stage() as stage:
        adversary = after_an_honest_run(stage, scheme)
        assert adversary.leak(stolen=[*key_files(adversary), *run_folders(adversary)]) is None


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_secrets_sealed_to_long_term_keys_are_found_out(scheme: str):
    with Stage() as stage:
        adversary = after_an_honest_run(stage, scheme, SealedToForGood)
        assert adversary.leak(stolen=run_folders(adversary)) is None
        leak = adversary.leak(stolen=key_files(adversary))
    assert leak is not None and len(leak.devices) == 1


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_run_keys_that_outlive_the_run_are_found_out(scheme: str):
    with Stage() as stage:
        adversary = after_an_honest_run(stage, scheme, NeverFinishes)
        leak = adversary.leak(stolen=run_folders(adversary))
    assert leak is not None and len(leak.devices) == 1


def disks(face: RoleFace, names: Iterable[str]) -> list[bytes]:
    return [text for name in names for text in bytes_in(face.cast[name].machine.state())]


@pytest.mark.parametrize(("z", "rows"), [(1, {}), (1, {"blocks": 2, "reserve": 1}), (2, {"blocks": 2})], ids=str)
def test_z_disks_never_open_a_device_and_more_only_while_secrets_live(z: int, rows: dict[str, Any]):
    """The disks of any z holders, at any step; of z + 1 with different roles before the end; of all after it."""
    with Stage() as stage:
        adversary = world(stage, "role-keys", [2] * 6, 1, z=z, d=2)
        face = adversary.started(**rows)
        assert isinstance(face, RoleFace)
        one_per_role = [face.of_role(role)[0] for role in range(z + 1)]
        seeds = {seed for party in adversary.parties for seed in party.machine.sharing.seeds.values()}
        steps = [lambda: None, lambda: face.ask_all(1, None), lambda: face.ask_all(2, [[1], [2]])]
        for step in steps:
            step()
            for some in itertools.combinations(face.holders, z):
                assert adversary.leak(stolen=disks(face, some)) is None
            same_role = face.of_role(0)[: z + 1]
            assert adversary.leak(stolen=disks(face, same_role)) is None
            if step is not steps[-1]:
                leak = adversary.leak(stolen=disks(face, one_per_role))
                assert leak is not None and len(leak.devices) == 1
        left = b"|".join(disks(face, face.holders))
        assert seeds and not any(seed in left for seed in seeds), "seeds die with the first epoch, on every disk"
        for party in adversary.parties:
            adversary.hand_over(party, face.finish())
        assert adversary.leak(stolen=disks(face, face.holders)) is None

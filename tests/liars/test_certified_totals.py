"""Certified totals with z liars among holders, z owners that invent numbers, and a server that forges."""

from __future__ import annotations

import itertools
import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from by_hand import ByHand
from codedfl.engines.in_process import InProcess
from codedfl.errors import CodedFLError, InvalidInput, NotEnoughDevices
from codedfl.sum import device as device_module
from codedfl.sum import wire
from codedfl.sum.certified import CertifiedTotal
from codedfl.sum.device import Device
from codedfl.sum.keys import (
    GenerationKeys,
    digest,
    label_of,
    role_sum_text,
    total_text,
)
from codedfl.sum.layout import Layout
from codedfl.sum.session import Session
from codedfl.sum.terms import Terms
from codedfl.sum.wire import ListEntry, Refused, RoleKey
from federations import SERVER, MadeUp, devices_of, identity, terms_of

ASKS = (b"census", b"another")
LAYOUT = Layout(32, 1, 3, 1 << 31, certified=True)  # no limit: it would refuse most forgeries by itself
LAYOUTS = dict.fromkeys(ASKS, LAYOUT)
FORGERIES = int(os.environ.get("CODEDFL_LIAR_SCHEDULES", "64")) * 5


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def numbers(name: str, ask: bytes) -> tuple[list[int], list[int]]:
    rng = random.Random(f"{name} {ask!r}")
    return [rng.randint(0, 20) for _ in range(LAYOUT.length)], []


def truth(names: Sequence[str], ask: bytes) -> list[int]:
    return [sum(column) for column in zip(*(numbers(name, ask)[0] for name in names), strict=True)]


class Liar(Device):
    """Signs another sum of its role than it has made, and another total than it has computed."""

    def _answer(self, keys: GenerationKeys, common: wire.AnswerCommon, own: wire.AnswerOwn) -> bytes:
        found = wire.decode(super()._answer(keys, common, own), wire.Answered, "an answer")
        other = bytes(len(found.numbers))
        text = role_sum_text(label_of(common.study, common.ask), common.list, self._role, own.role_key.public, other)
        return wire.encode(wire.Answered(other, self._identity.sign(text)))

    def _certify(self, keys: GenerationKeys, common: wire.CertifyCommon, own: wire.CertifyOwn) -> bytes:
        other = bytes(LAYOUT.total_bytes)
        text = total_text(label_of(common.study, common.ask), common.list, other)
        return wire.encode(wire.Answered(other, self._identity.sign(text)))


def federation(z: int) -> tuple[Terms, dict[str, Device]]:
    """2z + 1 holders of each role."""
    names = [f"d{i:02}" for i in range((z + 1) * (2 * z + 1))]
    terms = terms_of([names], z)
    return terms, devices_of(terms, LAYOUTS, numbers)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("z", [1, 2])
def test_z_liars_among_2z_plus_1_holders_of_a_role_change_nothing(z: int, seed: int) -> None:
    terms, devices = federation(z)
    rng = random.Random(seed)
    role = rng.randrange(z + 1)
    for name in rng.sample(terms.holders_of(role), z) if seed % 2 else rng.sample(sorted(terms.by_name), z):
        mine = {ask: numbers(name, ask) for ask in ASKS}
        devices[name] = Liar(name, identity(name), MadeUp(terms, LAYOUTS, mine), devices[name]._memory, now=lambda: 0.0)
    engine = InProcess({name: one.reply for name, one in devices.items()})
    session = Session(engine, MadeUp(terms, LAYOUTS), SERVER, wall=lambda: 0.0)
    [total] = session.certified(ASKS[0])
    total.check(terms)
    assert LAYOUT.numbers_of(LAYOUT.from_bytes(total.numbers, 3)) == truth(total.owners, ASKS[0])


def test_owners_that_invent_numbers_change_the_total_by_what_they_invent_and_nothing_else() -> None:
    terms, devices = federation(2)
    invented = {"d01": [700, -3, 0], "d05": [-9, 5, 1]}
    for name, vector in invented.items():
        contract = MadeUp(terms, LAYOUTS, {ASKS[0]: (vector, [])})
        devices[name] = Device(name, identity(name), contract, devices[name]._memory, now=lambda: 0.0)
    engine = InProcess({name: one.reply for name, one in devices.items()})
    [total] = Session(engine, MadeUp(terms, LAYOUTS), SERVER, wall=lambda: 0.0).certified(ASKS[0])
    total.check(terms)
    honest = truth([name for name in total.owners if name not in invented], ASKS[0])
    expected = [sum(column) for column in zip(honest, *invented.values(), strict=True)]
    assert LAYOUT.numbers_of(LAYOUT.from_bytes(total.numbers, 3)) == expected


def test_a_total_beyond_its_limit_is_signed_by_nobody() -> None:
    terms = federation(1)[0]
    layouts = {ASKS[0]: Layout.of_vector(3, 100, certified=True)}
    devices = devices_of(terms, layouts, lambda name, ask: ([101 if name == "d01" else 0, 0, 0], []))
    engine = InProcess({name: one.reply for name, one in devices.items()})
    with pytest.raises(NotEnoughDevices, match="a reply must come of one of"):
        Session(engine, MadeUp(terms, layouts), SERVER, wall=lambda: 0.0).certified(ASKS[0])


def test_roles_with_too_few_holders_are_refused_with_what_to_do() -> None:
    terms = terms_of([["a", "b", "c"]], 1)
    engine = InProcess({name: one.reply for name, one in devices_of(terms, LAYOUTS, numbers).items()})
    with pytest.raises(InvalidInput, match="certified totals need 2 holders of each role: add a key-only participant"):
        Session(engine, MadeUp(terms, LAYOUTS), SERVER, wall=lambda: 0.0).certified(ASKS[0])


def test_a_total_that_z_devices_have_signed_is_refused() -> None:
    terms, devices = federation(1)
    engine = InProcess({name: one.reply for name, one in devices.items()})
    [total] = Session(engine, MadeUp(terms, LAYOUTS), SERVER, wall=lambda: 0.0).certified(ASKS[0])
    assert CertifiedTotal.decode(total.encode()) == total
    for signatures in (total.signatures[:1], total.signatures[:1] * 2, (*total.signatures[:1], ("nobody", bytes(64)))):
        with pytest.raises(Refused, match="must be signed by 2 devices of the roster"):
            replace(total, signatures=signatures).check(terms)
    with pytest.raises(CodedFLError, match="signature must be by key"):
        replace(total, numbers=bytes(len(total.numbers))).check(terms)


class Forger(ByHand):
    """A server with a colluder that asks honest devices to certify what it has put together."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        terms = terms_of([["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"]], 1)
        super().__init__(terms, devices_of(terms, LAYOUTS, numbers))
        self.colluder = rng.choice(sorted(self.devices))
        self.members = {name: self.enrolled(name) for name in self.devices}
        self.role_keys = [[self._drawn(name, role) for name in terms.holders_of(role)[:2]] for role in (0, 1)]
        self.uploads = {
            (name, ask, which): self._upload(name, ask, which)
            for name, ask, which in itertools.product(self.devices, ASKS, (0, 1))
        }

    def _drawn(self, name: str, role: int) -> tuple[RoleKey, dict[str, bytes]]:
        return self.drawn(name, [self.members[holder] for holder in self.terms.holders_of(role)])

    def keys(self, which: int) -> list[RoleKey]:
        return [drawn[which][0] for drawn in self.role_keys]

    def _upload(self, name: str, ask: bytes, which: int) -> wire.Uploaded:
        common, own = wire.AskCommon(*self.ids, ask), wire.UploadOwn(tuple(self.keys(which)))
        return wire.decode(self.ask(name, "upload", common, own)[1], wire.Uploaded, "an upload")

    def entries(self, groups: Sequence[int], ask: bytes, which: int) -> list[ListEntry]:
        names = [name for number in groups for name in self.terms.groups[number]]
        return [self.entry(self.members[name], self.uploads[name, ask, which].nonce) for name in names]

    def role_sum(
        self, role: int, ask: bytes, entries: Sequence[ListEntry], which: int, signers: int
    ) -> wire.CertifiedSum:
        """Signed by so many honest holders as they will, and by the colluder whatever it is."""
        text = wire.encode_list(tuple(entries))
        key, sealed = self.role_keys[role][which]
        common, found = wire.AnswerCommon(*self.ids, ask, digest(text), b""), {}
        for name in self.terms.holders_of(role):
            own = wire.AnswerOwn(key, sealed.get(name, b""), (0, 1), text)
            plain = self.ask(name, "answer", common, own)[1]
            if plain:
                found[name] = wire.decode(plain, wire.Answered, "an answer")
        chosen = self.rng.sample(sorted(found), min(signers, len(found)))
        value = next(iter(found.values())).numbers if found else bytes(LAYOUT.total_bytes)
        return wire.CertifiedSum(key, value, tuple((name, found[name].signature) for name in chosen))

    def colluding_sum(self, role: int, ask: bytes, owners: bytes, key: RoleKey) -> wire.CertifiedSum:
        value = LAYOUT.to_bytes(np.arange(3, dtype=np.uint64))
        text = role_sum_text(label_of(self.terms.study, ask), owners, role, key.public, value)
        signed = identity(self.colluder).sign(text)
        other = self.rng.choice(self.terms.holders_of(role))
        return wire.CertifiedSum(key, value, ((self.colluder, signed), (other, self.rng.choice([signed, bytes(64)]))))

    def forge(self) -> tuple[list[str], bytes, list[int]] | None:
        """The list, the ask, and the total that an honest device has signed; None if none did."""
        rng, (ask, other), which = self.rng, rng_pair(self.rng), self.rng.randrange(2)
        entries = self.entries(rng.choice([[0], [1], [0, 1]]), ask, which)
        listed = list(entries)
        uploads = [self.uploads[one.name, ask, which] for one in entries]
        sums = [self.role_sum(role, ask, entries, which, 2) for role in (0, 1)]
        at, role = rng.randrange(len(entries)), rng.randrange(2)
        match rng.randrange(9):
            case 0:
                one = uploads[at]
                uploads[at] = wire.Uploaded(one.nonce, bytes(len(one.numbers)), one.signature)
            case 1:
                uploads[at] = self.uploads[entries[at].name, other, which]
            case 2:
                uploads[at] = self.uploads[entries[at].name, ask, 1 - which]
            case 3:
                uploads[at] = uploads[at - 1]
            case 4:
                del listed[at], uploads[at]
                sums = [self.role_sum(role, ask, listed, which, 2) for role in (0, 1)]
            case 5:
                sums[role] = self.role_sum(role, ask, self.entries([rng.randrange(2)], ask, which), which, 2)
            case 6:
                sums[role] = self.colluding_sum(
                    role, ask, digest(wire.encode_list(tuple(listed))), self.keys(which)[role]
                )
            case 7:
                sums[role] = self.role_sum(role, other, self.entries([0], other, which), which, 2)
            case _:
                sums.reverse()
        text = wire.encode_list(tuple(listed))
        certified = tuple(wire.CertifiedUpload(one.numbers, one.signature) for one in uploads)
        common = wire.CertifyCommon(*self.ids, ask, digest(text))
        judge = rng.choice([name for name in sorted(self.devices) if name != self.colluder])
        plain = self.ask(judge, "certify", common, wire.CertifyOwn(text, certified, tuple(sums)))[1]
        if not plain:
            return None
        found = wire.decode(plain, wire.Answered, "a total").numbers
        return [one.name for one in listed], ask, LAYOUT.signed(LAYOUT.from_bytes(found, 3)).tolist()


def rng_pair(rng: random.Random) -> tuple[bytes, bytes]:
    first, second = rng.sample(ASKS, 2)
    return first, second


def forged(seed: int, tries: int) -> bool:
    """Whether an honest device signs a total that is none."""
    forger = Forger(random.Random(seed))
    for _ in range(tries):
        found = forger.forge()
        if found is not None and found[2] != truth(found[0], found[1]):
            return True
    return False


@pytest.mark.parametrize("seed", range(8))
def test_no_honest_device_signs_a_total_that_is_none(seed: int) -> None:
    assert not forged(seed, FORGERIES // 8)


def _uploads_unsigned() -> Any:
    real = device_module.check_signature

    def check(code: str, key: bytes, text: bytes, signature: bytes) -> None:
        if code != "list":
            real(code, key, text, signature)

    return mock.patch.object(device_module, "check_signature", check)


def _uploads_for_anything() -> Any:
    """The owner's signature does not say under which label and nonce, and for which role keys."""
    real = device_module.upload_text

    def text(label: bytes, enrolled: bytes, publics: list[bytes], nonce: bytes, numbers: bytes) -> bytes:
        return real(b"", enrolled, [], b"", numbers)

    return mock.patch.object(device_module, "upload_text", text)


def _sums_of_any_list() -> Any:
    real = device_module.role_sum_text

    def text(label: bytes, owners: bytes, role: int, public: bytes, numbers: bytes) -> bytes:
        return real(label, b"", role, public, numbers)

    return mock.patch.object(device_module, "role_sum_text", text)


def _one_signer_is_enough() -> Any:
    def check(device: Device, role: int, text: bytes, signatures: Sequence[tuple[str, bytes]]) -> None:
        name, signature = signatures[0]
        device_module.check_signature("role", device._terms.by_name[name].key, text, signature)

    return mock.patch.object(Device, "_check_signers", check)


@pytest.mark.parametrize(
    "rule",
    [
        _uploads_unsigned,
        _uploads_for_anything,
        _sums_of_any_list,
        _one_signer_is_enough,
    ],
    ids=["uploads are signed", "for a nonce and role keys", "sums are of a list", "z + 1 holders sign a sum"],
)
def test_a_rule_of_certified_totals_that_is_left_out_is_found(rule: Callable[[], Any]) -> None:
    with rule():
        assert any(forged(seed, 60) for seed in range(8))

"""Each condition of the proof in THREAT_MODEL.md, left out: random schedules must find that it was needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from small_worlds import Choice

from codedfl.sum import device as device_module
from codedfl.sum import keys as keys_module
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.keys import ExchangeKey, GenerationKeys, derive, pack
from codedfl.sum.terms import Terms
from codedfl.sum.wire import ListEntry, Refused


@dataclass(frozen=True)
class LeftOut:
    """A rule that is not in force. harmless: nothing follows from this one alone, and nothing may be found."""

    name: str
    patches: Callable[[], Collection[Any]] = tuple
    choice: Choice = field(default_factory=Choice)
    answers: bool = True
    harmless: bool = False

    @contextmanager
    def left_out(self) -> Iterator[None]:
        with ExitStack() as stack:
            for patch in self.patches():
                stack.enter_context(patch)
            yield


def _lists_without(*, ascending: bool = True, groups: bool = True, fixed: bool = True) -> Any:
    def check_list(terms: Terms, entries: Sequence[ListEntry], wanted: Collection[int] = ()) -> None:
        names = [one.name.encode() for one in entries]
        if ascending and names != sorted(set(names)):
            raise Refused("list", "not ascending")
        whole = terms.whole_groups({one.name for one in entries})
        if groups and {one.name for one in entries} != {name for number in whole for name in terms.groups[number]}:
            raise Refused("list", "no whole groups")
        if fixed and wanted and set(wanted) != set(whole):
            raise Refused("list", "other groups")

    return mock.patch.object(Terms, "check_list", check_list)


def _enrolments_unsigned() -> Any:
    return mock.patch.object(Terms, "check_enrolment")


def _everybody_holds(terms: Terms, role: int | None) -> Any:
    return mock.patch.dict(terms.__dict__, {"roles": dict.fromkeys(terms.by_name, role)})


def _role_keys(*, signed: bool, of_the_role: bool) -> Any:
    real = Terms.check_role_key

    def check(terms: Terms, scope: Any, role: int, key: Any) -> None:
        if signed and of_the_role:
            real(terms, scope, role, key)
        elif signed:  # by whomever, for this role
            with _everybody_holds(terms, role):
                real(terms, scope, role, key)

    return mock.patch.object(Terms, "check_role_key", check)


def _kappa(*, name: bool = True, role: bool = True, shared: bool = True) -> Any:
    def kappa(secret: bytes, scope: Any, of: int, owner: str, enrolled: bytes, public: bytes) -> bytes:
        who, which = owner if name else "", of if role else 0
        return derive(secret if shared else b"none", "kappa", scope.study, which, who, enrolled, public)

    return mock.patch.object(device_module, "kappa", kappa)


def _pads(*, secret: bool = True, nonce: bool = True, label: bool = True) -> Any:
    def pad_key(kappa: bytes, of: bytes, once: bytes) -> bytes:
        return derive(kappa if secret else b"none", "pad", of if label else b"", once if nonce else b"")

    return mock.patch.object(device_module, "pad_key", pad_key)


def _nonce(of: Callable[[bytes], bytes]) -> Any:
    real = GenerationKeys.nonce

    def nonce(keys: GenerationKeys, *bound: Any) -> bytes:
        if bound[0] == "codedfl 4 nonce":
            return real(keys, bound[0], bound[1], of(bound[2]))
        return real(keys, *bound)

    return mock.patch.object(GenerationKeys, "nonce", nonce)


def _unpinned() -> Any:
    return mock.patch.object(InMemory, "contribute")


def _in_order(plain: bytes) -> bytes:
    return b"".join(sorted(plain[at : at + 4] for at in range(0, len(plain), 4)))


def _drawn_for_anybody() -> Any:
    real = Device._draw

    def draw(device: Device, keys: GenerationKeys, own: Any) -> bytes:
        role = device._role
        with _everybody_holds(device._terms, role):
            return real(device, keys, own)

    return mock.patch.object(Device, "_draw", draw)


def _another_secret_half() -> Any:
    """A holder takes whatever was sealed for the secret half of the signed key."""
    real = GenerationKeys.open_role_key

    def opened(keys: GenerationKeys, role: int, drawer: bytes, public: bytes, sealed: bytes) -> ExchangeKey:
        try:
            return real(keys, role, drawer, public, sealed)
        except keys_module.MessageRefused:
            key = keys_module._sealing_key(
                keys.scope, role, keys.own.with_public(drawer), drawer, keys.own.public, public
            )
            try:
                return ExchangeKey(keys_module.ChaCha20Poly1305(key).decrypt(bytes(12), sealed, None))
            except keys_module.InvalidTag:
                raise keys_module.MessageRefused("does not open") from None

    return mock.patch.object(GenerationKeys, "open_role_key", opened)


def _one_key_for_all() -> Any:
    return mock.patch.object(GenerationKeys, "role_key", lambda keys, role: keys.own)


def _public_root() -> Any:
    """The device's key follows from the study alone."""

    def own(keys: GenerationKeys) -> ExchangeKey:
        return ExchangeKey(derive(b"none", "key", keys.scope.study, keys.scope.generation))

    return mock.patch.object(GenerationKeys, "own", property(own))


def _public_role_key() -> Any:
    def role_key(keys: GenerationKeys, role: int) -> ExchangeKey:
        return ExchangeKey(derive(b"none", "role key", keys.scope.study, role))

    return mock.patch.object(GenerationKeys, "role_key", role_key)


def _sealed_with_nothing() -> Any:
    def sealing(scope: Any, role: int, shared: bytes, drawer: bytes, holder: bytes, public: bytes) -> bytes:
        del shared
        return derive(b"none", pack(role, drawer, holder, public))

    return mock.patch.object(keys_module, "_sealing_key", sealing)


def _roles_by_file() -> Any:
    def roles(terms: Terms) -> Mapping[str, int]:
        return {one.name: place % (terms.colluders + 1) for place, one in enumerate(terms.participants)}

    return mock.patch.object(Terms, "roles", property(roles))


CHANGED, PERMUTED = Choice(versions="changed"), Choice(versions="permuted")

NEEDED = (
    LeftOut("at most z colluders", choice=Choice(one_too_many=True)),
    LeftOut("a list is of whole groups", lambda: [_lists_without(groups=False)]),
    LeftOut("an owner is in a list once", lambda: [_lists_without(ascending=False)]),
    LeftOut(
        "the groups of a sum are fixed where the study fixes them",
        lambda: [_lists_without(fixed=False)],
        Choice(fixed=True),
    ),
    LeftOut("groups are the same in all studies of the rows", choice=Choice(groups_differ=True)),
    LeftOut("enrolments are signed by their owners", lambda: [_enrolments_unsigned()]),
    LeftOut("role keys are signed", lambda: [_role_keys(signed=False, of_the_role=False)]),
    LeftOut("role keys are signed by holders of their role", lambda: [_role_keys(signed=True, of_the_role=False)]),
    LeftOut("pub(b) = B", lambda: [_another_secret_half()]),
    LeftOut(
        "roles follow from names, not from the order of a file", lambda: [_roles_by_file()], Choice(file_order=True)
    ),
    LeftOut("a role key is sealed to holders of its role", lambda: [_drawn_for_anybody()]),
    LeftOut("a role key is sealed under a secret", lambda: [_sealed_with_nothing()]),
    LeftOut("a role key is another one than the device's", lambda: [_one_key_for_all()]),
    LeftOut("a role key follows from the root", lambda: [_public_role_key()]),
    LeftOut("a device's key follows from the root", lambda: [_public_root()]),
    LeftOut("kappa depends on the shared secret", lambda: [_kappa(shared=False)]),
    LeftOut("kappa depends on the owner's name", lambda: [_kappa(name=False)]),
    LeftOut("kappa depends on the role", lambda: [_kappa(role=False)]),
    LeftOut("a pad depends on kappa", lambda: [_pads(secret=False)]),
    LeftOut("a nonce depends on the numbers", lambda: [_unpinned(), _nonce(lambda plain: b"")], CHANGED, answers=False),
    LeftOut("a pad depends on the nonce", lambda: [_unpinned(), _pads(nonce=False)], CHANGED, answers=False),
    LeftOut("a nonce depends on exactly the bytes that are padded", lambda: [_unpinned(), _nonce(_in_order)], PERMUTED),
    LeftOut("the numbers of an ask are pinned", lambda: [_unpinned()], CHANGED),
)

HARMLESS = (
    LeftOut("the nonce is enough without answers", lambda: [_unpinned()], CHANGED, answers=False, harmless=True),
    LeftOut("numbers that change, with both rules", choice=CHANGED, harmless=True),
    LeftOut("numbers in another order, with both rules", choice=PERMUTED, harmless=True),
    LeftOut("a list of fixed groups", choice=Choice(fixed=True), harmless=True),
)

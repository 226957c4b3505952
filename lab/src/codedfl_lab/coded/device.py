"""A device of a coded scheme: a function of contract, numbers, keys of the generation, and request.

What it holds of others is a sum, which is a cache: deleted, the device says whose part is missing and gets it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from codedfl.crypto.sealed import Identity
from codedfl.sum.device import Device, Memory
from codedfl.sum.keys import GenerationKeys, Scope, derive, digest, pack
from codedfl.sum.layout import Layout, Words
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Common, Enrolment, Kinds, Missing, Refused, Wire
from codedfl.typing import Integers
from codedfl_lab.code.masks import combined_mask
from codedfl_lab.coded import wire
from codedfl_lab.coded.form import Term
from codedfl_lab.coded.study import CodedContract, CodedStudy
from codedfl_lab.coded.wire import Secrets, Shares
from codedfl_lab.primes.planes import Planes

_MOST_SUMS = 2  # each as large as a few uploads


def bound_to(study: bytes, ask: bytes, members: bytes, name: str, nonce: bytes) -> bytes:
    """What every key of one upload is bound to."""
    return pack("codedfl lab upload", study, digest(ask), members, name, nonce)


def commitment(bound: bytes, secret: bytes) -> bytes:
    """By which a receiver sees that everybody got the same secret. It is uniform, so its digest hides it."""
    return digest(pack("codedfl lab commitment", bound, secret)) if secret else b""


def envelope_key(shared: bytes, bound: bytes, receiver: str) -> bytes:
    """Invariant: one key, one plaintext: ``bound`` has the nonce, and the secrets follow from that."""
    return derive(shared, "codedfl lab envelope", bound, receiver)


@dataclass(eq=False)
class _Sum:
    """A device's coded sum, as far as it goes."""

    numbers: Planes
    opened: dict[int, Secrets] = field(default_factory=dict)
    added: set[int] = field(default_factory=set)
    matrix: Planes | None = None


@dataclass(frozen=True)
class _Outside:
    """The study as ``codedfl.sum``'s device wants it: what it does itself is refused."""

    study: CodedStudy

    @property
    def terms(self) -> Terms:
        return self.study.terms

    def layout(self, ask: bytes) -> Layout:
        return self.study.layout(ask)

    def groups(self, ask: bytes) -> Collection[int]:
        return self.study.groups(ask)

    def needs(self, ask: bytes) -> Collection[bytes]:
        del ask
        return ()

    def words(self, ask: bytes) -> Words:
        del ask
        raise Refused("request", "a coded study must be asked by its own requests")


class CodedDevice(Device):
    """One participant.

    Paper: IV-C. Shown by ``make fleet SCHEME=coded-padded``.

    Examples
    --------
    See ``codedfl_lab.coded.session``, whose example asks devices for a sum.
    """

    kinds: ClassVar[Kinds] = wire.KINDS

    def __init__(self, name: str, identity: Identity, contract: CodedContract, memory: Memory, **more: object) -> None:
        super().__init__(name, identity, _Outside(contract.study), memory, **more)  # type: ignore[arg-type]
        self._mine, self._study = contract, contract.study
        self._place = contract.study.position(name)

    def _forget(self) -> None:
        super()._forget()
        self._coded: OrderedDict[bytes, _Sum] = OrderedDict()
        self._made: tuple[bytes, wire.Shared] | None = None

    def _plain(self, keys: GenerationKeys, common: Common, own: Wire) -> bytes:
        match common, own:
            case wire.CodedAnswerCommon(), wire.CodedAnswerOwn():
                return self._answered_epoch(keys, common, own)
            case wire.ListCommon(), wire.CodedPutOwn():
                self._put(keys, common, own)
                return wire.encode(wire.Put(own.owner))
            case wire.ShareCommon(), wire.ShareOwn():
                self._check_members(keys.scope, common.members, own.members)
                return wire.encode(self._shared(keys, common, own.members))
        raise Refused("request", "a request must be of a known kind, got another")

    # -- phase 1 (paper IV-B)

    def _shared(self, keys: GenerationKeys, common: wire.ShareCommon, members: Sequence[Enrolment]) -> wire.Shared:
        study, ring, ask = self._study, self._study.ring, common.ask
        numbers = self._mine.numbers(ask)
        plain = ring.pack(numbers)
        # Invariant: the nonce is a function of the very bytes that are padded, so no pad is ever used for two.
        nonce = keys.nonce("codedfl lab nonce", study.digest, ask, common.members, plain)
        self._memory.contribute(ask, self._identity.tag(pack("codedfl lab pinned", study.digest, ask, plain)))
        place = pack(common.server, common.members, ask, nonce)
        if self._made is not None and self._made[0] == place:
            return self._made[1]
        bound = bound_to(study.digest, ask, common.members, self.name, nonce)
        body, secret = study.form.upload(keys, common.server, bound, ring, numbers), study.form.secret(keys, bound)
        mask = self._mask_seed(keys, bound)
        receivers = [i for i in study.receivers(self._place) if i != self._place]
        envelopes = {i: self._sealed(keys, bound, members[i], i, secret, mask) for i in receivers}
        shares = Shares(self.name, nonce, digest(body), commitment(bound, secret), commitment(bound, mask))
        shared = wire.Shared(shares, body, envelopes)
        if study.form.holds_uploads:  # it is asked for again, for its own sum
            self._made = place, shared
        return shared

    def _mask_seed(self, keys: GenerationKeys, bound: bytes) -> bytes:
        return derive(keys.root, "codedfl lab mask", bound) if self._study.masks else b""

    def _sealed(self, keys: GenerationKeys, bound: bytes, to: Enrolment, i: int, secret: bytes, mask: bytes) -> bytes:
        answers = self._place in self._study.code.row_support(i)
        held = wire.encode(Secrets(secret if answers else b"", mask))
        key = envelope_key(keys.own.with_public(to.public), bound, to.name)
        return ChaCha20Poly1305(key).encrypt(bytes(12), held, None)

    # -- what others have shared

    def _check_members(self, scope: Scope, wanted: bytes, members: Sequence[Enrolment]) -> None:
        """Refused unless these are the study's devices in their order, and those it deals with have signed."""
        study = self._study
        if tuple(one.name for one in members) != study.names or digest(wire.encode(tuple(members))) != wanted:
            raise Refused("list", "the members must be the devices of the study, in their order")
        for i in {*study.receivers(self._place), *study.senders(self._place)}:
            self._terms.check_enrolment(scope, members[i], self._now())

    def _put(self, keys: GenerationKeys, common: wire.ListCommon, own: wire.CodedPutOwn) -> None:
        found = self._sum(keys, common, own.list)
        code = self._study.code
        if own.owner not in code.row_support(self._place):
            raise Refused("request", "data must be of a device that this one answers for")
        if own.owner not in found.added:
            if digest(own.body) != own.list.shares[own.owner].body:
                raise Refused("data", "data must have the digest in the list")
            self._open(keys, common, own.list, found, {own.owner: own.envelope})
            self._add(common, own.list, found, {own.owner: own.body})

    def _sum(self, keys: GenerationKeys, common: wire.ListCommon, listed: wire.List | None) -> _Sum:
        place = pack(common.ask, common.members, common.list)
        if place not in self._coded:
            if listed is None:
                raise Missing("list", "the list must be sent along the first time")
            self._check_list(keys.scope, common, listed)
            found = _Sum(self._study.ring.zeros(self._study.sizes.numbers))
            self._add_own(keys, common, listed, found)
            self._coded[place] = found
            while len(self._coded) > _MOST_SUMS:
                self._coded.popitem(last=False)
        return self._coded[place]

    def _check_list(self, scope: Scope, common: wire.ListCommon, listed: wire.List) -> None:
        if digest(wire.encode(listed)) != common.list:
            raise Refused("list", "a list must have the digest that is common to all")
        self._check_members(scope, common.members, listed.members)
        if tuple(one.name for one in listed.shares) != self._study.names:
            raise Refused("list", "a list must have what every device has shared, in their order")

    def _bound(self, common: wire.ListCommon, listed: wire.List, owner: int) -> bytes:
        shares = listed.shares[owner]
        return bound_to(self._study.digest, common.ask, common.members, shares.name, shares.nonce)

    def _add_own(self, keys: GenerationKeys, common: wire.ListCommon, listed: wire.List, found: _Sum) -> None:
        shares, bound = listed.shares[self._place], self._bound(common, listed, self._place)
        secrets = Secrets(self._study.form.secret(keys, bound), self._mask_seed(keys, bound))
        # Invariant: the nonce is one of this device's, or its secrets would not be those in the list; and where it adds
        # data to its own sum, they are the very bytes that others hold.
        if (commitment(bound, secrets.secret), commitment(bound, secrets.mask)) != (shares.secret, shares.mask):
            raise Refused("list", "a list must have what this device has shared, got something else")
        found.opened[self._place] = secrets
        if self._study.form.holds_uploads:
            mine = self._shared(keys, common, listed.members)
            if mine.shares != shares:
                raise Refused("rows", "a device must share the numbers that it shared before")
            self._add(common, listed, found, {self._place: mine.body})
            self._made = None

    def _open(
        self,
        keys: GenerationKeys,
        common: wire.ListCommon,
        listed: wire.List,
        found: _Sum,
        envelopes: Mapping[int, bytes],
    ) -> None:
        """Take secrets; refused where one is not what its owner committed to for all."""
        for owner, envelope in envelopes.items():
            if owner in found.opened or owner not in self._study.senders(self._place):
                continue
            shares, bound = listed.shares[owner], self._bound(common, listed, owner)
            key = envelope_key(keys.own.with_public(listed.members[owner].public), bound, self.name)
            try:
                secrets = wire.decode(ChaCha20Poly1305(key).decrypt(bytes(12), envelope, None), Secrets, "an envelope")
            except InvalidTag:
                raise Refused("data", f"the envelope of {shares.name!r} must open with this device's key") from None
            needed = owner in self._study.code.row_support(self._place)
            for secret, promised in ((secrets.secret, shares.secret if needed else b""), (secrets.mask, shares.mask)):
                if commitment(bound, secret) != promised:
                    raise Refused("data", f"the secrets of {shares.name!r} must be those it has committed to")
            found.opened[owner] = secrets

    def _add(self, common: wire.ListCommon, listed: wire.List, found: _Sum, bodies: Mapping[int, bytes]) -> None:
        code = self._study.code
        support, rows = code.row_support(self._place), code.coefficients(self._place)
        terms = [
            Term(
                [row[support.index(owner)] for row in rows],
                found.opened[owner].secret,
                body,
                self._bound(common, listed, owner),
            )
            for owner, body in bodies.items()
        ]
        self._study.form.add(self._study.ring, found.numbers, terms)
        found.added |= set(bodies)

    # -- phase 2 (paper IV-C)

    def _answered_epoch(self, keys: GenerationKeys, common: wire.CodedAnswerCommon, own: wire.CodedAnswerOwn) -> bytes:
        """C without e, and Cbar e with one, of sums that are kept: the server, who has asked for both, adds them.

        Paper: IV-C (a) to (c). Shown by ``pytest tests/coded/test_coded_sums.py -k added_up_before``.
        """
        study, ring = self._study, self._study.ring
        found = self._sum(keys, common, own.list)
        if own.list is not None:
            self._open(keys, common, own.list, found, own.envelopes)
        self._complete(common, own.list, found)
        numbers = self._times(common, found) if common.e else found.numbers[:, : study.sizes.length].copy()
        # Invariant: the masks are bound to all that is common to a question: whoever is asked something else, or by
        # another list, has unrelated masks, and what is left of both is uniform.
        seeds = {i: secrets.mask for i, secrets in found.opened.items()}
        if study.masks:
            label = f"mask|{digest(wire.encode(common)).hex()}"
            mask = combined_mask(ring, study.code, self._place, seeds, label, numbers.shape[1])
            numbers = ring.add(numbers, mask)
        return wire.encode(wire.CodedAnswered(ring.pack(numbers)))

    def _complete(self, common: wire.CodedAnswerCommon, listed: wire.List | None, found: _Sum) -> None:
        """Add what can be added; who is missing then is named."""
        study = self._study
        if any(i not in found.opened for i in study.senders(self._place)) and listed is None:
            raise Missing("list", "the list and the envelopes must be sent along the first time")
        missing = {i for i in study.senders(self._place) if i not in found.opened}
        lacking = [i for i in study.code.row_support(self._place) if i not in found.added]
        if study.form.holds_uploads:
            missing |= set(lacking)
        elif lacking and not missing and listed is not None:
            self._add(common, listed, found, dict.fromkeys(lacking, b""))
        if missing:
            raise Missing(",".join(map(str, sorted(missing))), "what others have shared must be put here first")

    def _times(self, common: wire.CodedAnswerCommon, found: _Sum) -> Planes:
        sizes, ring = self._study.sizes, self._study.ring
        if not sizes.size or len(common.e) != 8 * sizes.size * sizes.columns:
            raise Refused("request", "e must have the study's shape, and a matrix to be multiplied with")
        e = np.frombuffer(common.e, dtype="<i8").reshape(sizes.size, sizes.columns)
        check_e(e, sizes.room)
        # Invariant: each different e shows what the sum of X'X does to its directions; they are counted, on the disk.
        self._memory.answer(common.ask, digest(pack(self._study.digest, common.ask, common.e)))
        if found.matrix is None:
            found.matrix = ring.symmetric(np.ascontiguousarray(found.numbers[:, sizes.length :]), sizes.size)
        return ring.product(found.matrix, ring.from_integers(e)).reshape(len(ring.primes), -1)


def check_e(e: Integers, room: int) -> None:
    """Refuse an e with which a product could wrap, or read several columns at once."""
    norms = [sum(map(abs, column)) for column in e.T.tolist()]
    if max(norms, default=0) > room:
        raise Refused("request", f"e must have a column 1-norm of at most {room}, got {max(norms)}")

"""A device: a function of contract, frozen rows, keys of the generation, and request.

It may be asked anything, at any time, twice, by a process that was killed in between: the reply to a request is always
the same bytes. What it must not forget is in its ``Memory`` (root of the generation, budgets, digests of what was
uploaded), on the disk before a reply that follows from it leaves. Everything else here is a cache.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.errors import MessageRefused, RangeExceeded
from codedfl.sum import wire
from codedfl.sum.contract import Contract
from codedfl.sum.keys import (
    NONCE_BYTES,
    ExchangeKey,
    GenerationKeys,
    Scope,
    digest,
    enrolment_text,
    kappa,
    label_of,
    pack,
    pad_key,
    request_text,
    role_key_text,
    role_sum_text,
    total_text,
    upload_text,
)
from codedfl.sum.layout import Layout
from codedfl.sum.memory import MOST_CONTENT, Generation, Memory
from codedfl.sum.pad_sums import PadSum
from codedfl.sum.pads import add_pads
from codedfl.sum.signatures import check_signature
from codedfl.sum.wire import Enrolment, ListEntry, Refused
from codedfl.typing import RandomBytes

log = logging.getLogger("codedfl.device")

MOST_SECONDS = 60 * 24 * 3600  # a generation lasts no longer than this
_MOST_TILE_SUMS = 2  # sums of pads that are kept, each as large as an upload
_MOST_SECRETS = 1 << 16


class Device:
    """One participant of one study.

    Examples
    --------
    See ``codedfl.sum.session``, whose example asks devices for a sum.

    Parameters
    ----------
    name, identity: as on the roster.
    contract: the study as it was approved here.
    memory: what must not be forgotten.
    now: seconds since 1970. random_bytes: draws roots, and nothing else.
    """

    kinds: ClassVar[wire.Kinds] = wire.KINDS  # of requests that it answers

    def __init__(
        self,
        name: str,
        identity: Identity,
        contract: Contract,
        memory: Memory,
        *,
        now: Callable[[], float] = time.time,
        random_bytes: RandomBytes = secrets.token_bytes,
    ) -> None:
        self.name, self._identity, self._contract, self._memory = name, identity, contract, memory
        self._now, self._random_bytes = now, random_bytes
        self._terms = contract.terms
        self._role = self._terms.roles.get(name)
        self._forget()

    def _forget(self) -> None:
        """All caches; a reply is the same without them."""
        self._keys: GenerationKeys | None = None
        self._enrolment: Enrolment | None = None
        self._secrets: dict[tuple[int, str, bytes, bytes], bytes] = {}
        self._opened: dict[bytes, ExchangeKey] = {}
        self._sums: OrderedDict[bytes, PadSum] = OrderedDict()

    def reply(self, request: bytes) -> bytes:
        """The reply to any bytes at all; what is wrong with them is said by its code, and in this device's log."""
        asked = digest(request)
        self._named: Enrolment | None = None  # of the generation that is asked for, once that is known to continue
        kind: wire.ReplyKind
        try:
            kind, code, body = self._answered(request, asked)
        except wire.Missing as error:
            kind, code, body = "missing", error.code, b""
        except Refused as error:
            log.warning("refused (%s): %s", error.code, error)
            kind, code, body = "refused", error.code, b""
        except MessageRefused as error:
            log.warning("refused (request): %s", error)
            kind, code, body = "refused", "request", b""
        return wire.encode(wire.Reply(kind, asked, self._named, code, body))

    def _answered(self, request: bytes, asked: bytes) -> tuple[wire.ReplyKind, str, bytes]:
        # Invariant: nothing is computed before the request is typed, is about this study, and is signed by its server.
        found, common, own = wire.parsed(request, self.kinds)
        if common.study != self._terms.study:
            raise Refused("study", "the study must be the one approved here, got another")
        text = request_text(found.kind, found.common)
        check_signature("signature", self._terms.server, text, found.signature)
        # Closing needs no key, so it also ends a generation that this device has never heard of.
        if isinstance(common, wire.CloseCommon):
            self._close(common)
            return "ok", "", b""
        keys = self._generation(common)
        # Invariant: all that leaves is sealed to the server's key of the generation, and bound to this very request.
        plain = wire.encode(wire.Nothing()) if isinstance(common, wire.EnrolCommon) else self._plain(keys, common, own)
        return "ok", "", keys.seal_reply(common.server, asked, plain)

    def _plain(self, keys: GenerationKeys, common: wire.Common, own: wire.Wire) -> bytes:
        """What is sealed to the server."""
        if isinstance(common, wire.AskCommon):
            self._refuse_lacking(common.ask)
        match common, own:
            case _, wire.PutOwn():
                return self._keep_content(own)
            case wire.AnswerCommon(), wire.AnswerOwn():
                return self._answer(keys, common, own)
            case wire.CertifyCommon(), wire.CertifyOwn():
                return self._certify(keys, common, own)
            case wire.AskCommon(), wire.UploadOwn():
                return self._upload(keys, common, own)
            case _, wire.DrawOwn():
                return self._draw(keys, own)
        raise Refused("request", "a request must be of a known kind, got another")

    # -- generations

    def expire(self) -> None:
        """Delete the keys of a generation whose time is up.

        Whoever runs a device calls this now and then: a device that nobody asks any more keeps nothing that opens what
        was sent, either.
        """
        kept = self._memory.generation()
        # Invariant: the number stays, so a generation that is over never begins again; only its root goes.
        if kept is not None and kept.root and self._now() >= kept.not_after:
            self._memory.keep(Generation(kept.number, b"", kept.not_after))
            self._forget()

    def _generation(self, common: wire.Common) -> GenerationKeys:
        self.expire()
        kept, now = self._memory.generation(), self._now()
        # Invariant: generations only go forward. A server that asks for an older one finds it without keys.
        if kept is None or common.generation > kept.number:
            if not isinstance(common, wire.EnrolCommon):
                raise Refused("generation", f"generation {common.generation} must begin by enrolling")
            if not now < common.not_after <= now + MOST_SECONDS:
                raise Refused("generation", f"not_after must be within {MOST_SECONDS} seconds, got {common.not_after}")
            # Invariant: the root is on the disk before any key of it leaves, or a device that is killed here would
            # enrol twice.
            kept = Generation(common.generation, self._random_bytes(KEY_BYTES), common.not_after)
            self._memory.keep(kept)
        if common.generation < kept.number or not kept.root:
            self._forget()
            raise Refused("generation", f"generation {common.generation} must not be over, got one that is")
        # One generation has one end: it is signed, and what expires when must not depend on who asks.
        if isinstance(common, wire.EnrolCommon) and common.not_after != kept.not_after:
            raise Refused("generation", f"not_after must be {kept.not_after} as this generation began, got another")
        if self._keys is None or self._keys.root != kept.root:
            self._forget()
            self._keys = GenerationKeys(Scope(self._terms.study, kept.number), kept.root)
            text = enrolment_text(self._keys.scope, kept.not_after, self._keys.own.public)
            public = self._keys.own.public
            self._enrolment = Enrolment(self.name, public, kept.not_after, self._identity.sign(text))
        self._named = self._enrolment
        return self._keys

    def _close(self, common: wire.CloseCommon) -> None:
        """The keys are gone, and with them everything that could open what was sent. Closing again changes nothing."""
        # Invariant: a late message cannot delete the keys of a generation that began after it.
        kept = self._memory.generation()
        if kept is not None and kept.number > common.generation:
            return
        # The record first: a device killed between both lines closes again, and has it once.
        self._memory.closed(common.generation, common.record)
        self._memory.keep(Generation(common.generation, b"", 0))
        self._forget()

    # -- drawing a role key

    def _draw(self, keys: GenerationKeys, own: wire.DrawOwn) -> bytes:
        role, sealed = self._held_role(), {}
        for member in own.members:
            # Invariant: the key goes to holders of its own role only, or two roles would be known to one device.
            if self._terms.roles.get(member.name) != role:
                raise Refused("role", f"a role key must be sealed to holders of its role, got {member.name[:80]!r}")
            self._terms.check_enrolment(keys.scope, member, self._now())
            if member.name != self.name:
                sealed[member.name] = keys.seal_role_key(role, member.public)
        drawn = keys.role_key(role)
        signature = self._identity.sign(role_key_text(keys.scope, role, drawn.public))
        return wire.encode(wire.Drawn(drawn.public, signature, sealed))

    def _held_role(self) -> int:
        if self._role is None:
            raise Refused("role", "this device holds no role in the study")
        return self._role

    # -- contents that asks need

    def _keep_content(self, own: wire.PutOwn) -> bytes:
        if len(own.content) > MOST_CONTENT:
            raise Refused("request", f"a content must have at most {MOST_CONTENT} bytes, got {len(own.content)}")
        # Invariant: kept by its digest, which an ask names: whatever else a server puts is read by nobody.
        self._memory.put(own.content)
        return wire.encode(wire.Kept())

    def _refuse_lacking(self, ask: bytes) -> None:
        # A cache may be gone: the server learns what to put again, one after the other, and the reply is the same.
        for one in sorted(self._contract.needs(ask)):
            if self._memory.content(one) is None:
                raise wire.Missing(one.hex(), "what an ask needs must be put here first")

    # -- uploading a statistic

    def _upload(self, keys: GenerationKeys, common: wire.AskCommon, own: wire.UploadOwn) -> bytes:
        terms, scope = self._terms, keys.scope
        # Invariant: who has rows is in the contract; nobody is asked for what it did not approve.
        if self.name not in terms.owners:
            raise Refused("role", "a key-only participant has no rows to upload")
        layout, label = self._contract.layout(common.ask), label_of(terms.study, common.ask)
        # Invariant: one pad per role, no role twice and none left out: z colluders lack at least one pad of every
        # upload.
        if len(own.role_keys) != terms.colluders + 1:
            raise Refused("role", f"an upload must have {terms.colluders + 1} role keys, got {len(own.role_keys)}")
        for role, key in enumerate(own.role_keys):
            self._terms.check_role_key(scope, role, key)
        words = self._contract.words(common.ask)
        plain = layout.to_bytes(words)
        # Invariant: the nonce is a function of the very bytes that are padded. Other rows, code or rounding have
        # another nonce and so other pads; no memory is needed to use a pad once.
        nonce = keys.nonce("codedfl 4 nonce", label, plain)
        # Invariant: two uploads of different words under one label would differ by this device's change alone, for
        # whoever gets the sums over both: the first is pinned, on the disk before anything leaves.
        self._memory.contribute(common.ask, self._identity.tag(pack("codedfl 4 pinned", label, plain)))
        publics = [key.public for key in own.role_keys]
        pads = [
            pad_key(self._secret(scope, role, self.name, keys.own.public, public, keys.own), label, nonce)
            for role, public in enumerate(publics)
        ]
        # A copy: the words are a cache, and an upload that is asked for again must pad the same numbers.
        padded = words.copy()
        add_pads(padded, pads, layout.bits // 8)
        numbers = layout.to_bytes(padded)
        signature = b""
        if layout.certified:
            signature = self._identity.sign(upload_text(label, keys.own.public, publics, nonce, numbers))
        return wire.encode(wire.Uploaded(nonce, numbers, signature))

    def _secret(self, scope: Scope, role: int, owner: str, enrolled: bytes, public: bytes, pair: ExchangeKey) -> bytes:
        """kappa of an owner and a role key: from the owner's own pair, or from that of the role."""
        place = (role, owner, enrolled, public)  # a dishonest drawer may have one key signed for two roles
        if place not in self._secrets:
            # Deleted whole, for a server may send any number of keys; all are derived again from the root.
            if len(self._secrets) >= _MOST_SECRETS:
                self._secrets.clear()
            shared = pair.with_public(public if pair.public == enrolled else enrolled)
            self._secrets[place] = kappa(shared, scope, role, owner, enrolled, public)
        return self._secrets[place]

    # -- answering for a role

    def _answer(self, keys: GenerationKeys, common: wire.AnswerCommon, own: wire.AnswerOwn) -> bytes:
        role, layout = self._held_role(), self._contract.layout(common.ask)
        label = label_of(self._terms.study, common.ask)
        self._terms.check_role_key(keys.scope, role, own.role_key)
        pair = self._opened_role_key(keys, role, own)
        # Invariant: the digest is signed with the request, so that all holders of a role answer for one and the same
        # list.
        if own.entries and digest(own.entries) != common.list:
            raise Refused("list", "a list must have the digest that is common to all holders")
        place = pack(label, common.list, own.role_key.public)
        pads = self._sums.get(place)
        if pads is None:
            if not own.entries:
                # A cache may be gone: the server is asked to send the list again, and the reply is the same.
                raise wire.Missing("list", "the list must be sent along the first time")
            entries = self._checked_list(keys.scope, common.ask, common.list, own.entries)
            public = own.role_key.public
            # Invariant: from the owners' own enrolments, nonces and this role's key: exactly the pads that they have
            # added.
            owners = [
                pad_key(self._secret(keys.scope, role, one.name, one.public, public, pair), label, one.nonce)
                for one in entries
            ]
            pads = self._sums[place] = PadSum(layout, owners)
            while len(self._sums) > _MOST_TILE_SUMS:
                self._sums.popitem(last=False)
        if not common.e:
            numbers = layout.to_bytes(pads.vector())
        else:
            numbers = self._product(common, own.rows, pads, layout, label)
        signature = b""
        if layout.certified:
            signature = self._identity.sign(role_sum_text(label, common.list, role, own.role_key.public, numbers))
        return wire.encode(wire.Answered(numbers, signature))

    def _opened_role_key(self, keys: GenerationKeys, role: int, own: wire.AnswerOwn) -> ExchangeKey:
        key = own.role_key
        if key.drawer == self.name and keys.role_key(role).public == key.public:
            return keys.role_key(role)
        # Invariant: all that it is opened from, or what is refused of a fresh device would not be of this one.
        place = pack(key.drawer_public, key.public, own.sealed)
        if place not in self._opened:
            try:
                self._opened[place] = keys.open_role_key(role, key.drawer_public, key.public, own.sealed)
            except MessageRefused as error:
                raise Refused("role", str(error)) from None
        return self._opened[place]

    def _checked_list(self, scope: Scope, ask: bytes, wanted: bytes, data: bytes) -> tuple[ListEntry, ...]:
        if digest(data) != wanted:
            raise Refused("list", "a list must have the digest that is common to all holders")
        entries = wire.decode_list(data)
        # Invariant: checked before any pad is made. Names first, since a signature is looked up by its name.
        self._terms.check_list(entries, self._contract.groups(ask))
        for one in entries:
            if len(one.nonce) != NONCE_BYTES:
                raise Refused("list", f"a nonce must have {NONCE_BYTES} bytes, got {len(one.nonce)}")
            self._terms.check_enrolment(scope, one.enrolment, self._now())
        return entries

    def _product(
        self, common: wire.AnswerCommon, rows: tuple[int, int], pads: PadSum, layout: Layout, label: bytes
    ) -> bytes:
        if layout.certified or not layout.size or len(common.e) != layout.bits // 8 * layout.size * layout.columns:
            raise Refused("request", "e must have the study's shape, and a matrix to be multiplied with")
        # Which rows is the server's choice: blocks of one product are shared out, and the question is the same.
        first, last = rows
        if not 0 <= first < last <= layout.tile_rows:
            raise Refused("request", f"rows must be tile rows of {layout.tile_rows}, got {first} to {last}")
        e = layout.signed(layout.from_bytes(common.e, layout.size * layout.columns)).reshape(
            layout.size, layout.columns
        )
        layout.check_e(e)
        # Invariant: each different e shows what the sum of X'X does to its directions; they are counted over the life
        # of the study, on the disk before the reply leaves. The same e again is free.
        self._memory.answer(common.ask, digest(pack(label, common.e)))
        return b"".join(layout.to_bytes(one.reshape(-1)) for one in pads.product(e, first, last))

    # -- certified totals

    def _certify(self, keys: GenerationKeys, common: wire.CertifyCommon, own: wire.CertifyOwn) -> bytes:
        """Recompute a total from what owners and holders have signed, so that nobody need believe the server."""
        layout, terms, label = self._contract.layout(common.ask), self._terms, label_of(self._terms.study, common.ask)
        entries = self._checked_list(keys.scope, common.ask, common.list, own.entries)
        if not layout.certified or layout.size:
            raise Refused("request", "only small statistics that devices act upon are certified")
        # Invariant: every owner of the list and every role, each once and in the contract's order.
        if len(own.uploads) != len(entries) or len(own.sums) != terms.colluders + 1:
            raise Refused("list", "a certified total must have an upload of each owner and a sum of each role")
        publics = [one.role_key.public for one in own.sums]
        total = np.zeros(layout.total_words, dtype=np.uint64)
        # Invariant: signed by the owner for this label, these role keys and this nonce; a server has no numbers of its
        # own in it.
        for entry, upload in zip(entries, own.uploads, strict=True):
            text = upload_text(label, entry.public, publics, entry.nonce, upload.numbers)
            check_signature("list", terms.by_name[entry.name].key, text, upload.signature)
            total += layout.from_bytes(upload.numbers, layout.total_words)
        for role, one in enumerate(own.sums):
            terms.check_role_key(keys.scope, role, one.role_key)
            text = role_sum_text(label, common.list, role, one.role_key.public, one.numbers)
            self._check_signers(role, text, one.signatures)
            total -= layout.from_bytes(one.numbers, layout.total_words)
        # Nobody signs a total beyond its bound: some owner has invented numbers, or some holder has.
        try:
            layout.numbers_of(total)
        except RangeExceeded as error:
            raise Refused("list", str(error)) from None
        numbers = layout.to_bytes(total)
        return wire.encode(wire.Answered(numbers, self._identity.sign(total_text(label, common.list, numbers))))

    def _check_signers(self, role: int, text: bytes, signatures: Sequence[tuple[str, bytes]]) -> None:
        terms, signers = self._terms, {name for name, _ in signatures}
        # Invariant: z + 1 holders of the role, so one of them at least is honest and has made the sum itself.
        if len(signers) <= terms.colluders or any(terms.roles.get(name) != role for name in signers):
            raise Refused("role", f"a certified sum must be signed by {terms.colluders + 1} holders of role {role}")
        for name, signature in signatures:
            check_signature("role", terms.by_name[name].key, text, signature)


__all__ = ["Contract", "Device", "Generation", "Memory"]

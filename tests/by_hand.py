"""Requests to single devices, one at a time, as a server would make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codedfl.sum import wire
from codedfl.sum.device import Device
from codedfl.sum.keys import ExchangeKey, Scope, digest, open_reply, signed_request
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Enrolment, ListEntry, RoleKey
from federations import SERVER

NOT_AFTER = 1000


class ByHand:
    """A server's keys of generation 1, and its requests."""

    def __init__(self, terms: Terms, devices: Mapping[str, Device]) -> None:
        self.terms, self.devices = terms, dict(devices)
        self.key = ExchangeKey(bytes([5]) * 32)
        self.ids = (terms.study, 1, self.key.public)
        self.last = b""

    def reply(self, name: str, kind: str, common: wire.Common, own: wire.Wire) -> wire.Reply:
        """As it travels, but decoded."""
        text = wire.encode(common)
        self.last = wire.encode(wire.Request(kind, text, wire.encode(own), signed_request(SERVER, kind, text)))
        return wire.decode(self.devices[name].reply(self.last), wire.Reply, "a reply")

    def ask(self, name: str, kind: str, common: wire.Common, own: wire.Wire) -> tuple[Enrolment | None, bytes]:
        """What a reply says when it is opened; nothing if it is a refusal."""
        reply = self.reply(name, kind, common, own)
        if reply.kind != "ok":
            return None, b""
        public = reply.enrolment.public
        shared, scope = self.key.with_public(public), Scope(self.terms.study, 1)
        return reply.enrolment, open_reply(scope, shared, public, self.key.public, digest(self.last), reply.body)

    def enrolled(self, name: str) -> Enrolment:
        one, _ = self.ask(name, "enrol", wire.EnrolCommon(*self.ids, NOT_AFTER), wire.Nothing())
        assert one is not None
        return one

    def drawn(self, name: str, members: Sequence[Enrolment]) -> tuple[RoleKey, dict[str, bytes]]:
        """A role key, and its secret half as it is sealed to each member."""
        one, plain = self.ask(name, "draw", wire.Common(*self.ids), wire.DrawOwn(tuple(members)))
        found = wire.decode(plain, wire.Drawn, "a role key")
        return RoleKey(name, one.public, found.public, found.signature), found.sealed

    def upload(self, name: str, ask: bytes, role_keys: Sequence[RoleKey]) -> wire.Reply:
        return self.reply(name, "upload", wire.AskCommon(*self.ids, ask), wire.UploadOwn(tuple(role_keys)))

    def entry(self, one: Enrolment, nonce: bytes = bytes(16)) -> ListEntry:
        return ListEntry(one.name, one.public, one.not_after, one.signature, nonce)

    def answer(self, name: str, ask: bytes, key: RoleKey, entries: Sequence[ListEntry], e: bytes = b"") -> wire.Reply:
        text = wire.encode_list(tuple(entries))
        common = wire.AnswerCommon(*self.ids, ask, digest(text), e)
        return self.reply(name, "answer", common, wire.AnswerOwn(key, b"", (0, 1), text))

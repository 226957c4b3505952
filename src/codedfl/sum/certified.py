"""A total that devices believe without believing the server."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from codedfl.crypto.sealed import verify
from codedfl.sum import wire
from codedfl.sum.keys import digest, label_of, total_text
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Refused


@dataclass(frozen=True)
class CertifiedTotal:
    """A total that z + 1 devices have computed from what owners and holders signed, so one honest device at least.

    What it promises: it is the sum over whole groups of what their owners uploaded. It does not promise that a
    colluding owner uploaded something sensible: that one's numbers may be any at all.

    Examples
    --------
    See ``codedfl.sum.session.Session.certified``.
    """

    ask: bytes
    entries: bytes
    numbers: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def owners(self) -> tuple[str, ...]:
        """Whose rows are in it."""
        return tuple(one.name for one in wire.decode_list(self.entries))

    def check(self, terms: Terms) -> None:
        """Refuse a total that fewer than z + 1 devices of the roster have signed."""
        text = total_text(label_of(terms.study, self.ask), digest(self.entries), self.numbers)
        # Invariant: a set of names, so that one device that signs twice counts once.
        signers = {name for name, _ in self.signatures}
        if len(signers) <= terms.colluders or not signers <= set(terms.by_name):
            raise Refused("list", f"a certified total must be signed by {terms.colluders + 1} devices of the roster")
        # Every signature is checked, also those beyond z + 1: one that is false shows a server that makes things up.
        for name, signature in self.signatures:
            verify(terms.by_name[name].key, text, signature)

    def encode(self) -> bytes:
        """As it is kept, and sent to devices."""
        return msgspec.msgpack.encode((self.ask, self.entries, self.numbers, self.signatures))

    @classmethod
    def decode(cls, data: bytes) -> CertifiedTotal:
        """What ``encode`` made; whether it is to be believed, ``check`` says."""
        try:
            found = msgspec.msgpack.decode(data, type=tuple[bytes, bytes, bytes, tuple[tuple[str, bytes], ...]])
        except msgspec.MsgspecError as error:
            raise Refused("request", f"a certified total must have its fields: {error}") from None
        return cls(*found)

"""Whose data are in the total: one list of owners per run, signed by a majority of the devices (role-keys).

If some holders summed over J and others over J without j, the difference would be device j. So a device signs one
list per run, and a holder answers only to a list that more than (D + z)/2 of the D devices have signed: two such lists
would share more than z signers, hence an honest one that signed twice. The list names each owner's commitments and
upload, so that everybody sums the same.

All devices sign and not the holders alone, because of later runs: who holds keys is the server's choice, and holders
that were never shown the list of one run would sign it without one device in the next. As it is, lists of two runs of
the same devices have an honest signer in common, which has both in its ledger.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from codedfl.crypto.sealed import Identity, verify
from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.messages import check_types, pack_list, unpack_list
from codedfl.state import Codec, optional

DIGEST_BYTES = 32


@dataclass(frozen=True)
class ListedOwner:
    """``commitments`` and ``upload`` are digests of what the owner signed and sent."""

    name: str
    commitments: bytes
    upload: bytes


@dataclass(frozen=True)
class OwnerList:
    """In the order of the agreement."""

    owners: tuple[ListedOwner, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(owner.name for owner in self.owners)

    @cached_property
    def encoded(self) -> bytes:
        return pack_list([[owner.name, owner.commitments, owner.upload] for owner in self.owners])

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(b"codedfl owners v3|" + self.encoded).digest()

    @classmethod
    def decode(cls, data: bytes, agreed: Agreement) -> OwnerList:
        """Refuses a list with somebody who does not own data in this run, or not in the agreement's order."""
        listed = cls.unpacked(data)
        positions = [agreed.position(name) for name in listed.names]
        if positions != sorted(set(positions)) or not set(positions) <= set(agreed.owners):
            raise MessageRefused("a list must name owners of this run, each once and in its order: it does not")
        return listed

    @classmethod
    def unpacked(cls, data: bytes) -> OwnerList:
        """As it was encoded, whatever the agreement."""
        owners = []
        for fields in unpack_list(data, "a list of owners", depth=2):
            name, commitments, upload = check_types(_as_list(fields), (str, bytes, bytes), "a listed owner")
            if len(commitments) != DIGEST_BYTES or len(upload) != DIGEST_BYTES:
                raise MessageRefused(f"a listed owner must have digests of {DIGEST_BYTES} bytes, got another length")
            owners.append(ListedOwner(name, commitments, upload))
        return cls(tuple(owners))

    # -- signatures

    def _statement(self, agreed: Agreement) -> bytes:
        return pack_list(["codedfl owners signed v3", agreed.run, agreed.hash, self.digest])

    def signed_by(self, identity: Identity, agreed: Agreement) -> bytes:
        return identity.sign(self._statement(agreed))

    def check_signature(self, name: str, signature: bytes, agreed: Agreement) -> None:
        verify(agreed.member(name).identity, self._statement(agreed), signature)


def signatures_needed(n_devices: int, colluders: int) -> int:
    """More than (D + z)/2."""
    return (n_devices + colluders) // 2 + 1


@dataclass(frozen=True)
class Certificate:
    """The signatures of devices on one list."""

    signatures: dict[str, bytes]

    def encode(self) -> bytes:
        return pack_list([[name, signature] for name, signature in self.signatures.items()])

    @classmethod
    def decode(cls, data: bytes) -> Certificate:
        signatures: dict[str, bytes] = {}
        for fields in unpack_list(data, "a certificate", depth=2):
            name, signature = check_types(_as_list(fields), (str, bytes), "a certificate's signature")
            signatures[name] = signature
        return cls(signatures)

    def check(self, owners: OwnerList, agreed: Agreement, signed_by: str) -> None:
        """Refuse it unless enough different devices of this run have signed this very list, as ``signed_by`` has."""
        for name, signature in self.signatures.items():
            if name != signed_by:
                owners.check_signature(name, signature, agreed)  # refuses strangers too
        needed = signatures_needed(agreed.n_devices, agreed.parameters.colluders)
        if len(self.signatures) < needed:
            raise MessageRefused(
                f"a list must be signed by {needed} of {agreed.n_devices} devices, more than (D + z)/2, got"
                f" {len(self.signatures)}"
            )


def _as_list(fields: Any) -> list[Any]:
    if not isinstance(fields, list):
        raise MessageRefused("a list of owners or a certificate must hold lists, got something else")
    return fields


OWNERS = optional(Codec(lambda owners: owners.encoded, OwnerList.unpacked))

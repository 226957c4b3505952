"""The key pair of a role for one run: an owner seals its seed of a role once, whatever the number of holders.

One holder of the role draws the pair and gives the private half to co-holders, who give it on. Whoever has it signs the
public half, for this run, this agreement and this role. An owner seals to a key that min(z + 1, holders) holders of the
role have signed: one of them at least is honest, so the private half is not lost with a holder that dies or lies.

Whoever gives the private half away, or makes up a key, has the role itself, and counts in z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codedfl.crypto.sealed import KEY_BYTES, Identity, verify
from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import MOST_COLLUDERS, Agreement
from codedfl.protocol.messages import check_types, name_table, pack_list, unpack_list

_MOST_FIELDS = 2 + (MOST_COLLUDERS + 1) * (3 + 3 * (MOST_COLLUDERS + 1))


def signed_role_key(identity: Identity, agreed: Agreement, role: int, public: bytes) -> bytes:
    """A holder's word that it has the private half."""
    return identity.sign(_statement(agreed, role, public))


def check_role_key(signer: str, signature: bytes, agreed: Agreement, role: int, public: bytes) -> None:
    """Refuse what a holder of this role, in this agreement, has not signed."""
    if agreed.roles[agreed.position(signer)] != role:
        raise MessageRefused(f"the key of role {role} must be signed by its holders, got a signature of {signer!r}")
    verify(agreed.member(signer).identity, _statement(agreed, role, public), signature)


def _statement(agreed: Agreement, role: int, public: bytes) -> bytes:
    return pack_list(["codedfl role key v1", agreed.run, agreed.hash, role, public])


def signers_needed(agreed: Agreement, role: int) -> int:
    """min(z + 1, holders of the role)."""
    return min(agreed.parameters.colluders + 1, agreed.roles.count(role))


@dataclass(frozen=True)
class RoleKey:
    """The public half of a role's key, and who has signed it."""

    public: bytes
    signatures: dict[str, bytes]

    def check(self, agreed: Agreement, role: int) -> None:
        """Refuse a key that too few holders of the role have signed."""
        for name, signature in self.signatures.items():
            check_role_key(name, signature, agreed, role, self.public)
        needed = signers_needed(agreed, role)
        if len(self.signatures) < needed:
            raise MessageRefused(
                f"the key of role {role} must be signed by {needed} of its holders, got {len(self.signatures)}"
            )


def encode_keys(keys: list[RoleKey]) -> bytes:
    """One key per role, in their order."""
    return pack_list([[key.public, [[name, one] for name, one in key.signatures.items()]] for key in keys])


def decode_keys(data: bytes, agreed: Agreement) -> list[RoleKey]:
    """Undo ``encode_keys``; what the keys are worth, ``RoleKey.check`` says."""
    found = [_decoded(fields) for fields in unpack_list(data, "role keys", depth=4, most=_MOST_FIELDS)]
    if len(found) != agreed.parameters.colluders + 1:
        raise MessageRefused(f"there must be a key for each of {agreed.parameters.colluders + 1} roles: there is not")
    return found


def _decoded(fields: Any) -> RoleKey:
    if not isinstance(fields, list):
        raise MessageRefused("role keys must be lists, got something else")
    public, pairs = check_types(fields, (bytes, list), "a role key")
    if len(public) != KEY_BYTES:
        raise MessageRefused(f"a role key must have {KEY_BYTES} bytes, got {len(public)}")
    return RoleKey(public, name_table(pairs, "a role key's signatures"))

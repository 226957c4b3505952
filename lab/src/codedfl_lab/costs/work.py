"""What the parties of a sum do for its secrecy, counted: the secure sum's (``codedfl.sum``), and the coded schemes'.

Counts are of the code as it is: a device checks a signature once, derives each shared secret once, hashes an upload
three times (for its nonce, for the ledger, for the key that its reply is sealed with). ``tests/costs`` holds them
against a run in which every call of a primitive is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from codedfl.typing import Floats
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import hash_macs, pad_macs, seal_macs

Bits = float | Floats
HASHED = 3  # times that the bytes of an upload are hashed
REQUEST_HASHED, CODED_REQUEST_HASHED = 3, 4  # and those of a question
_SEALED_TO = 4  # holders who are given a role's key at once, and two more for each colluder


@dataclass(frozen=True, eq=False)
class Work:
    """Operations of one device, one number for all or one per position; the bits are those of the numbers treated."""

    verifications: Bits = 0.0
    signatures: Bits = 0.0
    exchanges: Bits = 0.0
    key_pairs: Bits = 0.0
    padded: Bits = 0.0
    hashed: Bits = 0.0
    sealed: Bits = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def macs(self, fleet: Fleet) -> Floats:
        """By the prices of the fleet: a key pair takes as long as an exchange."""
        padded, hashed, sealed = (np.asarray(bits, dtype=float) for bits in (self.padded, self.hashed, self.sealed))
        keys = (
            self.verifications * fleet.verification_macs
            + self.signatures * fleet.signature_macs
            + (self.exchanges + self.key_pairs) * fleet.exchange_macs
        )
        return pad_macs(fleet, padded) + hash_macs(fleet, hashed) + seal_macs(fleet, sealed) + keys


def enrolling() -> Work:
    """A device's key of the generation, signed; and its secret with the server."""
    return Work(verifications=1, signatures=1, exchanges=1, key_pairs=1)


def drawing(members: int) -> Work:
    """One holder of a role draws its key, signs it, and seals it to these holders, itself among them."""
    return Work(verifications=1 + members, signatures=1, exchanges=members - 1, key_pairs=1)


def drawn_at_once(holders: int, colluders: int) -> int:
    """How many holders are given a role's key when it is drawn; others when they are asked."""
    return min(holders, 2 * colluders + _SEALED_TO)


def uploading(colluders: int, bits: Bits) -> Work:
    """An upload under the pads of z + 1 roles."""
    roles = colluders + 1
    return Work(verifications=1 + roles, exchanges=roles, padded=roles * bits, hashed=HASHED * bits, sealed=bits)


def taking_the_list(owners: int, members_known: int = 0, *, drew: bool = False, holder_owns: bool = True) -> Work:
    """A holder checks everybody's key and derives the secret of everybody and its role.

    members_known: of them, those whose key it has checked before. drew: it drew its role's key and need not open it.
    holder_owns: it has uploaded, so its own secret is known.
    """
    opened = 0 if drew else 1
    return Work(verifications=owners - members_known, exchanges=owners - holder_owns + opened, key_pairs=opened)


def summing_pads(owners: int, bits: Bits) -> Work:
    """What a holder keeps of a role's sum, of all owners' pads."""
    return Work(padded=owners * bits)


def replying(bits: Bits, request: Bits = 0.0, passes: int = REQUEST_HASHED) -> Work:
    """To a request of these bits, whose signature is checked: it is hashed in several places, the reply is sealed."""
    return Work(verifications=1, hashed=bits + passes * request, sealed=bits)


def sharing_codewords(partners: int, devices: int, bits: Bits, *, padded: bool) -> Work:
    """A device of a coded scheme pads its numbers and seals what others need to those that it deals with.

    It checks the keys of those, and of whoever seals something to it. padded: it sends data under a pad whose seed it
    has with the server, encrypted once more for the others, and finds its own again when it adds up.
    """
    extra = 1 if padded else 0
    return Work(
        verifications=1 + min(2 * partners + 1, devices),
        exchanges=partners + extra,
        padded=bits,
        hashed=(HASHED + 1 + 2 * extra) * bits,
        sealed=(1 + extra) * bits,
    )


def opening_envelopes(partners: int) -> Work:
    """What those have sealed to it; they come with the first question."""
    return Work(exchanges=partners)


def taking_data(shares: int, bits: Bits) -> Work:
    """Data of others, each hashed with the request that puts it and by itself, and opened."""
    return Work(hashed=2 * shares * bits, sealed=shares * bits)

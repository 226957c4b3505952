"""How many bytes a message of each kind may have: by the sizes of the run where they are known, by a constant before.

What is longer is refused before its signature or seal is looked at, and so before anything of its size is made of it.
"""

from __future__ import annotations

from codedfl.crypto.sealed import bulk_size
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.messages import ENVELOPE_BYTES, Kind

MOST_PLAIN_BYTES = 2**16  # limit on what carries no numbers
MOST_DEVICES = 2**16
_BYTES_PER_NUMBER = 9  # on a ring of three primes; of two it is 6


def most_bytes(parameters: Parameters | None, n_devices: int, kind: Kind) -> int:
    """parameters: None before there are any; then only what carries no numbers can come."""
    if parameters is None:
        return MOST_PLAIN_BYTES
    p, model = parameters, parameters.n_features * parameters.n_outputs
    bulk = bulk_size(_BYTES_PER_NUMBER * (p.triangle_length + p.constant_length))
    beside = {
        Kind.AGREEMENT: 8 * model + ENVELOPE_BYTES * n_devices,
        Kind.SHARES: bulk + ENVELOPE_BYTES * (n_devices + 1),
        Kind.SHARE: bulk,
        Kind.UPDATE: _BYTES_PER_NUMBER * model,
        Kind.ANSWER: _BYTES_PER_NUMBER * p.answer_length(1),
        **dict.fromkeys((Kind.HOLDS, Kind.OWNERS, Kind.CERTIFICATE, Kind.ROLE_KEY), ENVELOPE_BYTES * n_devices),
        **dict.fromkeys((Kind.ROLE_KEYS, Kind.ROLE_KEY_WANTED), ENVELOPE_BYTES * n_devices),
    }
    return MOST_PLAIN_BYTES + beside.get(kind, 0)

"""The ledger file of 0.3, which is read into the new one, once: few devices have it."""

from __future__ import annotations

from typing import Any

import msgspec

from codedfl.contract.ledger import Approval, Contribution, Ledger
from codedfl.errors import InvalidInput

_FORMAT = "codedfl-ledger-1"
_Approval = tuple[bytes, str, int, str, str, list[str], list[str], list[float], int, int, int, str, tuple[float, ...]]
_LEDGER = tuple[str, list[_Approval], list[tuple[bytes, str, bytes, bytes, str]], list[tuple[bytes, bytes]]]


def former_ledger(data: bytes) -> Ledger:
    """The ledger file of 0.3; anything else is refused. What it counted keeps counting.

    >>> former_ledger(b"")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the ledger of 0.3 must be one that codedfl 0.3 wrote: it was damaged
    """
    try:
        said, approvals, given, asked = msgspec.msgpack.decode(data, type=_LEDGER)
        if said != _FORMAT:
            raise ValueError(said)
        contributions = (Contribution(study, name, argument, b"", when) for study, name, argument, _, when in given)
        known = {(one.digest, one.argument): one for one in contributions}
        return Ledger([_approval(*one) for one in approvals], known.values(), asked)
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise InvalidInput("the ledger of 0.3 must be one that codedfl 0.3 wrote: it was damaged") from None


def _approval(*fields: Any) -> Approval:
    digest, name, edition, who, when, pod, statistics, rho, width, rows, held_out, *_ = fields
    cost = rho[0] if rho else None
    return Approval(digest, name, edition, who, when, frozenset(pod), tuple(statistics), cost, width, rows, held_out)

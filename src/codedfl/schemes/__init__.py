"""One file a scheme. ``SCHEMES`` makes one from its name and its one parameter."""

from __future__ import annotations

from collections.abc import Callable

from codedfl.errors import InvalidInput
from codedfl.schemes.baselines.coded_fedl import CodedFedL
from codedfl.schemes.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl.schemes.baselines.drop_slowest import DropSlowest
from codedfl.schemes.coded import CodedScheme
from codedfl.schemes.coded_keys import CodedKeys
from codedfl.schemes.coded_padded import CodedPadded
from codedfl.schemes.one_shot import OneShot
from codedfl.schemes.scheme import Conditions, Descent, Scheme, WorkShape, epoch_end_times

__all__ = [
    "SCHEMES",
    "CodedFedL",
    "CodedKeys",
    "CodedPadded",
    "CodedScheme",
    "Conditions",
    "Conventional",
    "ConventionalFullBatch",
    "Descent",
    "DropSlowest",
    "OneShot",
    "Scheme",
    "WorkShape",
    "coded_scheme",
    "epoch_end_times",
]

SCHEMES: dict[str, Callable[..., Scheme]] = {
    scheme.name: scheme
    for scheme in (Conventional, ConventionalFullBatch, DropSlowest, CodedPadded, CodedKeys, OneShot, CodedFedL)
}


def coded_scheme(name: str, alpha: int, groups: int = 1, spare: int = 0) -> CodedScheme:
    """A scheme that runs as real state machines."""
    coded = {scheme.name: scheme for scheme in (CodedPadded, CodedKeys, OneShot)}
    if name not in coded:
        raise InvalidInput(f"scheme must be one of {', '.join(coded)}, got {name!r}")
    return coded[name](alpha, groups, spare)

"""What the schemes do differently: how data are shared, at a device and at the server, by the scheme's name.

Neither fleets nor times nor planning: this is what a device process loads.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from codedfl.errors import InvalidInput
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS

__all__ = [
    "CODED_KEYS",
    "CODED_PADDED",
    "ONE_SHOT",
    "PLUG_INS",
    "ROLE_KEYS",
    "ROLE_SUMS",
    "SHARING_SCHEMES",
    "sharing_scheme",
]

PLUG_INS = "codedfl.schemes"  # entry points that name a ``CodedScheme``
SHARING_SCHEMES: dict[str, SharingScheme] = {
    scheme.name: scheme for scheme in (CODED_PADDED, CODED_KEYS, ONE_SHOT, ROLE_KEYS, ROLE_SUMS)
}


def sharing_scheme(name: str) -> SharingScheme:
    """A scheme by its name; those of other packages by the entry points of ``PLUG_INS``."""
    for entry in () if name in SHARING_SCHEMES else entry_points(group=PLUG_INS, name=name):
        try:
            kind = entry.load()
            if hasattr(kind, "sharing_scheme"):  # a scheme may also be one that is compared and cannot be run
                SHARING_SCHEMES[name] = kind.sharing_scheme
        except Exception as error:  # a stranger's import may raise anything
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise InvalidInput(f"the scheme {name} ({entry.value}) could not be loaded: {why}") from None
    if name not in SHARING_SCHEMES:
        raise InvalidInput(f"scheme must be one of {', '.join(SHARING_SCHEMES)}, got {name!r}")
    return SHARING_SCHEMES[name]

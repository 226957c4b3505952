"""A scheme, as far as the parties of a run are concerned: how data are shared, and what the first answer shows.

Joining and epochs are the same in all of them (``server_joining``, ``server_epochs`` and their counterparts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SharingScheme:
    """The sharing phase of one scheme.

    name: as ``Parameters.scheme`` has it.
    device, server: the two sides of the phase, subclasses of ``DeviceSharing`` and ``ServerSharing``.
    reveals_gram: whether the first answer brings the total of X'X itself to the server; no update follows then.
    lists_owners: whether owners of the agreement may be left out of the total.
    adds_noise: whether one upload is all that ever depends on the rows, so that noise can hide them.
    """

    name: str
    device: type[Any]
    server: type[Any]
    reveals_gram: bool = False
    lists_owners: bool = False
    adds_noise: bool = False

"""The two phases as state machines without I/O (paper IV-B and IV-C)."""

from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.protocol.contribution import Rows, WholeNumbers
from codedfl.protocol.convener import Outgoing, Phase
from codedfl.protocol.device import Device
from codedfl.protocol.server import Server
from codedfl.protocol.terms import Terms

__all__ = [
    "Agreement",
    "Device",
    "Outgoing",
    "Parameters",
    "Phase",
    "Rows",
    "Server",
    "Terms",
    "WholeNumbers",
]

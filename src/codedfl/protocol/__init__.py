"""The two phases as state machines without I/O (paper IV-B and IV-C)."""

from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.protocol.contribution import Rows, WholeNumbers
from codedfl.protocol.device import Device
from codedfl.protocol.events import Event, Outgoing, Turn
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.protocol.terms import Terms

__all__ = [
    "Agreement",
    "Device",
    "Event",
    "Outgoing",
    "Parameters",
    "Phase",
    "Rows",
    "RunPlan",
    "Server",
    "Terms",
    "Turn",
    "WholeNumbers",
]

"""The two phases as state machines without I/O (paper IV-B and IV-C)."""

from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.protocol.convener import Outgoing, Phase
from codedfl.protocol.device import Device
from codedfl.protocol.ledger import Ledger
from codedfl.protocol.policy import Policy
from codedfl.protocol.server import Server

__all__ = ["Agreement", "Device", "Ledger", "Outgoing", "Parameters", "Phase", "Policy", "Server"]

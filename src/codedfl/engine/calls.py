"""What the server asks of a node, and what a node replies: the vocabulary of all engines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from codedfl.engine.letters import Parcel
from codedfl.protocol.messages import VERSION, pack_list


@dataclass(frozen=True)
class Hello:
    """Who are you? The node signs the challenge, so that nobody takes another's name.

    server_public: whose question it is.
    """

    challenge: bytes
    server_public: bytes
    version: int = VERSION


@dataclass(frozen=True)
class Step:
    """The next letters of a run.

    ask: which total of the study the run is for (``statistics.Ask``); only needed by a device that has nothing of the
        run yet.
    """

    run: bytes
    name: str
    parcel: Parcel
    version: int = VERSION
    ask: bytes = b""


@dataclass(frozen=True)
class Dismissal:
    """You cannot take part, and why: for the node's log."""

    reason: str


Call = Hello | Step | Dismissal


@dataclass(frozen=True)
class Introduction:
    """A node's name and public key, and its signature of the challenge under that name."""

    name: str
    public: bytes
    signature: bytes


@dataclass(frozen=True)
class Refused:
    """The node will not, and why."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """No reply: the node is gone, the call expired, or its process broke down."""

    reason: str


Reply = Introduction | Parcel | Refused | Failed


class Post(Protocol):
    """The way to the nodes, and all that an engine is: it moves calls there and replies back, in whatever time.

    Attributes
    ----------
    look_seconds: between two looks at who is connected; how much a look costs the engine.
    linger_seconds: how long letters to one device are collected before a call takes them along; 0 where a call is
        cheap.
    turned_away: devices, by name, that the engine itself turns away, since they are there for another study.
    """

    look_seconds: float
    linger_seconds: float

    @property
    def turned_away(self) -> Collection[str]: ...

    def nodes(self) -> set[int]:
        """The nodes that are connected now."""
        ...

    def called(self, node: int) -> str:
        """What people call a node: its device's name where the engine knows it, before the device has proved it."""
        ...

    def push(self, calls: list[tuple[int, Call]]) -> list[str | None]:
        """Send calls to nodes; returns the number of each call, or None where it could not be sent."""
        ...

    def pull(self, numbers: set[str]) -> list[tuple[str, Reply]]:
        """The replies that have come in so far to these calls."""
        ...

    def wait(self, seconds: float) -> None:
        """Until a reply may have come in, and no longer than this."""
        ...


def introduction_text(hello: Hello, name: str) -> bytes:
    """What a node signs to introduce itself: to this server, as its field lengths say where each ends."""
    return pack_list(["codedfl introduction v3", hello.server_public, hello.challenge, name])

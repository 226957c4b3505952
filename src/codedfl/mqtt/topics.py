"""The topics of a study on a broker, and the names that can be part of one.

``codedfl/STUDY/DEVICE/in`` is a device's inbox, which the server alone writes to; ``.../out`` its outbox, which it
alone writes to. STUDY is the beginning of the study's digest, so two editions never meet. ``codedfl/all/DEVICE/here``
is a device's presence, a retained message that the broker takes back when the device is lost; ``codedfl/STUDY/server``
is that of the server. The access lists of a broker (``broker_folder``) say the same.
"""

from __future__ import annotations

from codedfl.errors import InvalidInput
from codedfl.protocol.messages import MAX_NAME, name_length

ROOT = "codedfl"
INBOX, OUTBOX, HERE = "in", "out", "here"
SERVER_TOPIC = "server"
ALL = "all"  # in the place of a study: one connection of a device serves all of its studies
LEVEL_BYTES = 16


def level_of(study: bytes) -> str:
    """The level of the topics of the study with this digest."""
    return study[:LEVEL_BYTES].hex()


def inbox(study: str, device: str) -> str:
    """Where a device is called."""
    return f"{ROOT}/{study}/{device}/{INBOX}"


def outbox(study: str, device: str) -> str:
    """Where a device replies."""
    return f"{ROOT}/{study}/{device}/{OUTBOX}"


def presence(study: str, device: str) -> str:
    """Where a device says that it is there."""
    return f"{ROOT}/{study}/{device}/{HERE}"


def server_presence(study: str) -> str:
    """Where the server says that it is there."""
    return f"{ROOT}/{study}/{SERVER_TOPIC}"


def study_of(topic: str) -> str:
    """The study whose topic this is."""
    return topic.split("/")[1]


def device_of(topic: str) -> str:
    """The device whose topic this is."""
    return topic.split("/")[2]


def checked_name(name: str, what: str) -> str:
    """A name that is one level of a topic, and does as the name of a folder."""
    if not 1 <= name_length(name) <= MAX_NAME:
        raise InvalidInput(f"{what} must have 1 to {MAX_NAME} bytes, got {name[:80]!r}")
    if not name.isprintable() or name.startswith((".", "$")) or set(name) & set("/+#\\ "):
        raise InvalidInput(f"{what} must be printable, without spaces, / \\ + # and a dot in front, got {name!r}")
    return name

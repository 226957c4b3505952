"""The topics of a study on a broker.

``codedfl/STUDY/DEVICE/in`` is a device's inbox, which the server alone writes to; ``.../out`` its outbox, which it
alone writes to. STUDY is the beginning of the study's digest, so two editions never meet. ``codedfl/all/DEVICE/here``
is a device's presence, a retained message that the broker takes back when the device is lost; ``codedfl/STUDY/server``
is that of the server. The access lists of a broker (``broker_folder``) say the same.
"""

from __future__ import annotations

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

"""The topics of a study on a broker.

``codedfl/STUDY/DEVICE/in`` is a device's inbox, which the server alone writes to; ``.../out`` its outbox, which it
alone writes to; ``.../here`` its presence, a retained message that the broker takes back when the device is lost.
``codedfl/STUDY/server`` is the presence of the server. The access lists of a broker (``broker_folder``) say the same.
"""

from __future__ import annotations

ROOT = "codedfl"
INBOX, OUTBOX, HERE = "in", "out", "here"
SERVER_TOPIC = "server"


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


def device_of(topic: str) -> str:
    """The device whose topic this is."""
    return topic.split("/")[2]

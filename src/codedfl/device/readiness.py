"""Whether this machine is ready to take part: certificate, clock, disk, approval, rows, broker. ``codedfl site check``.

Nothing is changed and nothing of the rows leaves: the broker is only asked whether it lets this device in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.seen import seen_rows
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.crypto.key_files import DEVICE_KEY
from codedfl.data.tables import RawTable
from codedfl.device.approved import newer_edition
from codedfl.device.membership import Membership
from codedfl.errors import CodedFLError, InvalidInput
from codedfl.logs import one_line
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink, Received, Will
from codedfl.mqtt.presence import HERE
from codedfl.private_files import make_private_folder, write_private

_SOON_DAYS = 30
_LEAST_ROOM = 100 << 20  # bytes: a device's state is smaller, with all that a system needs beside it
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True)
class Point:
    """One thing that was looked at: what was found, and whether the device can take part with it."""

    what: str
    found: str
    ready: bool


def readiness(
    study: Study, address: BrokerAddress, membership: Membership, table: RawTable | None = None
) -> tuple[Point, ...]:
    """Everything that a device needs, point by point.

    table: the device's table as it is today, to compare with the rows that were frozen.
    """
    folder = DeviceFolder.of(membership.state, membership.name)
    looks: tuple[tuple[str, Callable[[], str]], ...] = (
        ("certificate", lambda: _certificate(address, membership.name)),
        ("clock", lambda: _clock(folder)),
        ("disk", lambda: _disk(membership)),
        ("study", lambda: _study(study, membership, folder)),
        ("rows", lambda: _rows(study, membership, folder, table)),
        ("broker", lambda: _broker(study, address, membership.name)),
    )
    return tuple(_looked(what, look) for what, look in looks)


def _looked(what: str, look: Callable[[], str]) -> Point:
    try:
        return Point(what, look(), True)
    except CodedFLError as error:
        return Point(what, one_line(error), False)
    except OSError as error:  # the disk's fault, which has a point of its own
        return Point(what, f"not known: {one_line(error)}", False)


def _certificate(address: BrokerAddress, name: str) -> str:
    address.context()  # it belongs to its key
    named = address.named()
    if named is None:
        return "none: the broker must let this device in without"
    if named[0] != name:
        raise InvalidInput(f"the certificate must name {name!r}, got {named[0]!r}: codedfl site enrol requests one")
    days = (named[1] - datetime.now(UTC)).days
    if days < _SOON_DAYS:
        raise InvalidInput(
            f"the certificate must be valid for {_SOON_DAYS} more days, got {days}: codedfl site enrol requests another"
        )
    return f"{name}, valid for {days} more days"


def _clock(folder: DeviceFolder) -> str:
    """There is nobody to ask for the time; but it never is earlier than what was written before."""
    now = datetime.now(UTC)
    with folder.ledger() as ledger:
        written = [one.when for one in ledger.approvals] + [one.when for one in ledger.contributions]
    last = max((when for when in map(_time, written) if when is not None), default=None)
    if last is not None and now < last:
        raise InvalidInput(
            f"the clock must be later than the ledger's last entry, {last:%Y-%m-%d %H:%M}, got {now:%Y-%m-%d %H:%M}"
        )
    return f"{now:%Y-%m-%d %H:%M} UTC by this machine: compare it"


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _disk(membership: Membership) -> str:
    try:
        probe = make_private_folder(membership.folder) / "ready"
        write_private(probe, [b"?"])
        probe.unlink()
    except OSError as error:
        raise InvalidInput(f"the disk must be writable and have room, got {error}") from None
    found = os.statvfs(membership.folder)
    room = found.f_bavail * found.f_frsize
    if room < _LEAST_ROOM:
        raise InvalidInput(f"{membership.folder} must have room for {_LEAST_ROOM >> 20} MB, got {room >> 20} MB")
    return f"{membership.folder} can be written, {room >> 20} MB are free"


def _study(study: Study, membership: Membership, folder: DeviceFolder) -> str:
    if not (membership.folder / DEVICE_KEY).exists():
        raise InvalidInput(
            f"the key of {membership.name!r} must be in {membership.folder}, got none: codedfl site enrol"
        )
    membership.device(study)
    with folder.ledger() as ledger:
        approval = ledger.approval(study.digest())
    assert approval is not None  # or there is no device
    if objection := newer_edition(study, ledger):
        raise InvalidInput(objection)
    return f"{study.name}, edition {study.edition}, approved by {approval.who} {approval.when}"


def _rows(study: Study, membership: Membership, folder: DeviceFolder, table: RawTable | None) -> str:
    if membership.name in membership.roster(study).helpers:
        return "none: a key-only participant has none"
    frozen = folder.frozen(study.digest())
    if table is None:
        return f"{len(frozen)} frozen when the study was approved (--table compares them with a table)"
    study.load_features()
    rows_key = folder.rows_key()
    with folder.ledger(with_rows=True) as ledger:
        now = seen_rows(study, take_snapshot(study, table, rows_key), table, rows_key)
        same = now.same_as(ledger.rows[study.digest()])
    if not same:
        raise InvalidInput(
            f"{table.name} must have the {len(frozen)} rows that were frozen when the study was approved, got others:"
            " newer rows are for a new edition of the study"
        )
    return f"{len(frozen)} frozen, as {table.name} has them"


def _broker(study: Study, address: BrokerAddress, name: str) -> str:
    """Under an id of its own, so that a device that is running keeps its connection."""
    level = topics.level_of(study.digest())
    link = BrokerLink(address, f"{name}-check", Will(topics.outbox(level, name)))
    link.open()
    try:
        link.subscribe(topics.server_presence(level), topics.inbox(level, name))
        until, served = time.monotonic() + _ANSWER_SECONDS, False
        while not served and time.monotonic() < until:
            events = [event for event in link.events(0.2) if isinstance(event, Received)]
            served = any(event.payload == HERE for event in events)
    finally:
        link.close()
    return f"{address} lets {name} in; the server {'is there' if served else 'is not there yet'}"

"""Calls and replies as the content of Flower messages.

Small things are one ``ConfigRecord``; every bulk and every update is a record of its own. Flower names records by their
content, so what goes to many nodes in one push is uploaded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, ConfigRecordValues, RecordDict

from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.engine.calls import Call, Dismissal, Failed, Hello, Introduction, Refused, Reply, Step
from codedfl.engine.letters import Letter, Parcel
from codedfl.errors import MessageRefused

HELLO, STEP, DISMISSAL = "query.codedfl_hello", "train.codedfl_step", "query.codedfl_dismissal"
KINDS = (HELLO, STEP, DISMISSAL)
_T = TypeVar("_T")


def call_record(call: Call) -> tuple[str, RecordDict]:
    """The message type and the content."""
    if isinstance(call, Hello):
        hello = ConfigRecord({"version": call.version, "challenge": call.challenge, "server": call.server_public})
        return HELLO, RecordDict({"call": hello})
    if isinstance(call, Dismissal):
        return DISMISSAL, RecordDict({"call": ConfigRecord({"reason": call.reason})})
    head = ConfigRecord({"version": call.version, "run": call.run, "name": call.name, "ask": call.ask})
    return STEP, RecordDict({"call": head, **_parcel_records(call.parcel)})


def read_call(kind: str, content: RecordDict) -> Call:
    """A call from Flower's records; anything malformed is refused."""
    head = _config(content, "call")
    if kind == HELLO:
        challenge, server = _field(head, "challenge", bytes), _field(head, "server", bytes)
        return Hello(challenge, server, _field(head, "version", int))
    if kind == DISMISSAL:
        return Dismissal(_field(head, "reason", str))
    run, name = _field(head, "run", bytes), _field(head, "name", str)
    if len(run) != RUN_ID_BYTES:  # it names a folder
        raise MessageRefused(f"a run id must have {RUN_ID_BYTES} bytes, got {len(run)}")
    version, ask = _field(head, "version", int), _field(head, "ask", bytes)
    return Step(run, name, _read_parcel(content), version, ask)


def reply_record(reply: Reply) -> RecordDict:
    """A reply as Flower's records."""
    if isinstance(reply, Introduction):
        fields: dict[str, ConfigRecordValues] = {
            "name": reply.name,
            "public": reply.public,
            "signature": reply.signature,
        }
        return RecordDict({"introduction": ConfigRecord(fields)})
    if isinstance(reply, Parcel):
        return RecordDict(dict(_parcel_records(reply)))
    return RecordDict({"refused": ConfigRecord({"reason": reply.reason})})


def read_reply(content: RecordDict) -> Reply:
    """What a node replied; whatever it is that is not well-formed counts as no reply."""
    try:
        if "introduction" in content:
            head = _config(content, "introduction")
            public, signature = _field(head, "public", bytes), _field(head, "signature", bytes)
            return Introduction(_field(head, "name", str), public, signature)
        if "refused" in content:
            return Refused(_field(_config(content, "refused"), "reason", str)[:1000])
        return _read_parcel(content)
    except MessageRefused as error:
        return Failed(str(error))


def _parcel_records(parcel: Parcel) -> dict[str, Any]:
    records: dict[str, Any] = {
        "parcel": ConfigRecord(
            {
                "first": parcel.first,
                "confirmed": parcel.confirmed,
                "refusal": parcel.refusal,
                "heads": [letter.head for letter in parcel.letters],
                "bulks": [bool(letter.bulk) for letter in parcel.letters],
            }
        )
    }
    if parcel.newest:
        records["newest"] = ConfigRecord({"data": parcel.newest})
    for index, letter in enumerate(parcel.letters):
        if letter.bulk:  # an array record is cut into chunks on the way, a config record is not
            array = Array("uint8", (len(letter.bulk),), "bytes", letter.bulk)
            records[f"bulk-{index}"] = ArrayRecord({"data": array})
    return records


def _read_parcel(content: RecordDict) -> Parcel:
    head = _config(content, "parcel")
    heads, bulks = _field(head, "heads", list), _field(head, "bulks", list)
    if len(heads) != len(bulks) or not all(isinstance(one, bytes) for one in heads):
        raise MessageRefused(f"a parcel must hold as many heads as bulks, got {len(heads)} and {len(bulks)}")
    letters = []
    for index, (one, bulky) in enumerate(zip(heads, bulks, strict=True)):
        record = content.array_records.get(f"bulk-{index}")
        if bulky and (record is None or "data" not in record):
            raise MessageRefused(f"letter {index} of a parcel must have its bulk, got none")
        letters.append(Letter(one, record["data"].data if bulky and record is not None else b""))
    first, confirmed = _field(head, "first", int), _field(head, "confirmed", int)
    if min(first, confirmed) < 0:
        raise MessageRefused(f"a parcel's numbers must be at least 0, got {first} and {confirmed}")
    newest = _field(_config(content, "newest"), "data", bytes) if "newest" in content else b""
    return Parcel(first, tuple(letters), confirmed, newest, _field(head, "refusal", str)[:1000])


def _config(content: RecordDict, name: str) -> Mapping[str, Any]:
    record = content.config_records.get(name)
    if record is None:
        raise MessageRefused(f"a message of codedfl must have a record {name!r}, got {sorted(content)!r:.200}")
    return record


def _field(record: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    value = record.get(name)
    if type(value) is not kind:
        raise MessageRefused(f"{name} must be of type {kind.__name__}, got {type(value).__name__}")
    return value

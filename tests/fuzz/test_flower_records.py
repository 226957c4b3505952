"""What Flower hands over as the content of a message, with anything in it that Flower's records can hold."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import msgpack
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from mutation import INPUTS, fuzz, packed, rewritten

from codedfl.engine.calls import Call, Dismissal, Failed, Hello, Introduction, Refused, Step
from codedfl.engine.letters import Letter, Line, Parcel
from codedfl.errors import CodedFLError
from codedfl.flower.records import KINDS, call_record, read_call, read_reply, reply_record

_LARGEST = 1 << 16
LETTERS = (Letter(b"head"), Letter(b"head", b"bulk" * 40))
PARCELS = (Parcel(0, LETTERS, 0), Parcel(1, (), 0, b"newest", "no"))
CALLS: tuple[Call, ...] = (
    Hello(bytes(16), bytes(32)),
    Dismissal("why"),
    *(Step(bytes(16), "device-0", parcel, ask=b"ask") for parcel in PARCELS),
)
REPLIES = (Introduction("device-0", bytes(64), bytes(64)), Refused("no"), *PARCELS)


def as_list(content: RecordDict) -> list[Any]:
    """A record dict as lists that ``mutation`` can rewrite and msgpack can hold."""
    configs = [
        [name, [[key, value] for key, value in record.items()]] for name, record in content.config_records.items()
    ]
    arrays = [[name, record["data"].data] for name, record in content.array_records.items()]
    return [configs, arrays]


def as_records(found: Any) -> RecordDict:
    """What can be made of such lists; Flower itself keeps other types out of its records."""
    content = RecordDict()
    configs, arrays = found if isinstance(found, list) and len(found) == 2 else ([], [])
    for entry in configs if isinstance(configs, list) else ():
        try:
            name, pairs = entry
            content[str(name)] = ConfigRecord({str(key): value for key, value in pairs})
        except (TypeError, ValueError):
            continue
    for entry in arrays if isinstance(arrays, list) else ():
        try:
            name, data = entry
            content[str(name)] = ArrayRecord({"data": Array("uint8", (len(data),), "bytes", bytes(data))})
        except (TypeError, ValueError, MemoryError, OverflowError):
            continue
    return content


def damaged_records(data: bytes, rng: random.Random) -> bytes:
    value = msgpack.unpackb(data)
    for _ in range(rng.randint(1, 4)):
        value = rewritten(value, rng)
    try:
        found = packed(value)
    except (OverflowError, ValueError):  # what msgpack itself cannot hold
        return data
    # Doubled again and again, an input may have megabytes; that takes megabytes to read is no bomb.
    return found if len(found) <= _LARGEST else data


@cache
def valid(calls: bool) -> list[bytes]:
    contents = [call_record(call)[1] for call in CALLS] if calls else [reply_record(reply) for reply in REPLIES]
    return [packed(as_list(content)) for content in contents]


@pytest.mark.parametrize("kind", KINDS)
def test_calls(kind: str):
    counts = fuzz(lambda data: read_call(kind, as_records(msgpack.unpackb(data))), valid(True), damaged_records)
    assert counts["taken"] > 0
    assert counts["refused"] > INPUTS // 3


def test_replies_are_never_an_error():
    """The server app goes on, whatever a node replies."""
    kinds: set[type] = set()

    def read(data: bytes) -> None:
        kinds.add(type(read_reply(as_records(msgpack.unpackb(data)))))

    assert fuzz(read, valid(False), damaged_records)["refused"] == 0
    assert kinds == {Introduction, Refused, Parcel, Failed}


def test_lines_take_any_parcel_or_refuse_it():
    rng = random.Random(1)
    for _ in range(INPUTS):
        line = Line()
        for _ in range(rng.randrange(3)):
            line.put(Letter(b"mine"))
        before = (line.first, line.received, list(line.waiting))
        parcel = Parcel(rng.choice([0, 1, 2**70]), LETTERS[: rng.randrange(3)], rng.choice([0, 1, 2, 2**70]))
        try:
            taken = list(line.take(parcel))
        except CodedFLError:
            assert (line.first, line.received, list(line.waiting)) == before
        else:
            assert len(taken) <= len(parcel.letters)

"""What a broker hands over, whoever put it there: frames, calls, replies and presences, damaged in every way."""

from __future__ import annotations

from mutation import damaged_list, fuzz

from codedfl.engine.calls import Call, Dismissal, Hello, Introduction, Refused, Step
from codedfl.engine.letters import Letter, Parcel
from codedfl.mqtt.fetching import Fetcher
from codedfl.mqtt.frames import (
    PIECE_BYTES,
    Envelope,
    Fetch,
    Frame,
    Gone,
    Missing,
    Nudge,
    Piece,
    Reference,
    Unknown,
    call_envelope,
    pack_frame,
    read_call,
    read_frame,
    read_reply,
    reply_envelope,
)
from codedfl.mqtt.presence import Presence

PARCELS = (Parcel(0, (Letter(b"head"), Letter(b"head", b"bulk" * 40)), 0), Parcel(1, (), 0, b"newest", "no"))
CALLS: tuple[Call, ...] = (
    Hello(bytes(16), bytes(32)),
    Dismissal("why"),
    *(Step(bytes(16), "device-0", parcel, ask=bytes(20)) for parcel in PARCELS),
    Step(bytes(16), "device-0", PARCELS[1], ask=bytes(PIECE_BYTES + 1)),
)
REPLIES = (Introduction("device-0", bytes(64), bytes(64)), Refused("no"), *PARCELS)
OTHERS: tuple[Frame, ...] = (
    *(Fetch(bytes(32), (0, 1)), Piece(bytes(32), 0, b"x"), Gone(bytes(32)), Nudge("n"), Unknown("n")),
)
FRAMES = [
    *(pack_frame(call_envelope("n-1", call, {})) for call in CALLS),
    *(pack_frame(reply_envelope("n-1", reply, {})) for reply in REPLIES),
    *(pack_frame(frame) for frame in OTHERS),
    pack_frame(Envelope("reply", "n-1", Reference(bytes(32), 1 << 20))),
]


def take(data: bytes) -> None:
    frame = read_frame(data)
    fetcher = Fetcher()
    if isinstance(frame, Envelope) and isinstance(frame.body, bytes):
        try:
            if frame.kind == "reply":
                read_reply(frame.body, {})
            else:
                read_call(frame.body, {})
        except Missing as missing:
            fetcher.want("a", missing.references)
            list(fetcher.requests(0.0))
    elif isinstance(frame, Piece):
        fetcher.take("a", frame)


def test_frames():
    counts = fuzz(take, FRAMES, damaged_list)
    assert min(counts.values()) > 10


def test_presences():
    counts = fuzz(Presence.read, [Presence.of_study(bytes(32)).pack()], damaged_list)
    assert counts["refused"] > 10

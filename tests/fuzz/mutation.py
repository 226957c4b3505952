"""Random damage to valid inputs, and the loop that feeds it to a decoder: only documented errors, no memory bombs.

``CODEDFL_FUZZ_INPUTS`` sets how many inputs every decoder gets (``make nightly``: 100 000).
"""

from __future__ import annotations

import os
import random
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from codedfl.errors import CodedFLError

INPUTS = int(os.environ.get("CODEDFL_FUZZ_INPUTS", "300"))
MOST_BYTES = 64 << 20  # that a decoder may allocate for an input of a few kB

# Where decoders break: lengths and counts at the edges of their types, other types, other texts.
NUMBERS = [0, 1, -1, 2, 127, 128, 255, 2**16, 10**9, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1, -(2**63)]
VALUES: list[Any] = [
    *NUMBERS, 0.0, -0.0, 1e-320, 1e308, float("inf"), float("nan"), True, None, b"", "", "\x00", "../../etc/passwd",
    "é" * 40, b"\xff" * 64, [], [[]], {}, {"a": 1},
]  # fmt: skip
TOKENS = [b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 3000, b"[" * 3000, b"9" * 5000, b"1e999", b"nan",
          b"'", b'"', b"\n", b"\x00", b",", b"=", b"../", b"\xef\xbb\xbf", b"\xff\xfe", b"{", b"true"]  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to four changes to the bytes themselves."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(out) + 1)
        kind = rng.randrange(7)
        if kind == 0 and out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[place:]
        elif kind == 2:
            out[place:place] = rng.choice(TOKENS)
        elif kind == 3:
            out[place : place + rng.randrange(1, 9)] = rng.randbytes(rng.randrange(9))
        elif kind == 4:
            end = min(len(out), place + rng.randrange(1, 64))
            out[place:place] = out[place:end]
        elif kind == 5:
            del out[place : place + rng.randrange(1, 32)]
        else:
            out[place : place + 8] = rng.choice(NUMBERS).to_bytes(9, "little", signed=True)[:8]
    return bytes(out)


def rewritten(value: Any, rng: random.Random) -> Any:
    """The same structure of lists with something in it replaced, left out, doubled or damaged."""
    if isinstance(value, list) and value and rng.random() < 0.8:
        copy = list(value)
        place = rng.randrange(len(copy))
        kind = rng.randrange(8)
        if kind == 0:
            del copy[place]
        elif kind == 1:
            copy.insert(place, rng.choice(VALUES))
        elif kind == 2:
            copy[place:place] = [copy[place]] * rng.choice([1, 2, 300])
        else:
            copy[place] = rewritten(copy[place], rng)
        return copy
    if isinstance(value, bytes) and rng.random() < 0.5:
        try:  # messages hold packed lists within packed lists
            inner = msgpack.unpackb(value)
        except (ValueError, msgpack.UnpackException, TypeError):
            return damaged(value, rng)
        return packed(rewritten(inner, rng))
    if isinstance(value, str) and rng.random() < 0.5:
        return damaged(value.encode(), rng).decode(errors="replace")
    return rng.choice(VALUES)


def packed(value: Any) -> bytes:
    out: bytes = msgpack.packb(value)
    return out


def damaged_list(data: bytes, rng: random.Random) -> bytes:
    """Damage to packed lists, as often to what they say as to their bytes."""
    if rng.random() < 0.6:
        return packed(rewritten(msgpack.unpackb(data), rng))
    return damaged(data, rng)


def fuzz(
    decode: Callable[[bytes], object],
    valid: Sequence[bytes],
    damage: Callable[[bytes, random.Random], bytes] = damaged,
    inputs: int = INPUTS,
) -> dict[str, int]:
    """How many inputs were taken and how many refused. Anything but a documented error, or a bomb, is raised."""
    rng = random.Random(zlib.crc32(b"".join(valid)))
    counts = {"taken": 0, "refused": 0}
    tracemalloc.start()
    try:
        for number in range(inputs):
            data = valid[number % len(valid)] if number < len(valid) else damage(rng.choice(valid), rng)
            tracemalloc.reset_peak()
            try:
                decode(data)
                counts["taken"] += 1
            except CodedFLError as error:
                counts["refused"] += 1
                if "\n" in str(error):
                    raise AssertionError(f"an error must be one line, got {error!s:.300}") from error
            except Exception as error:
                raise AssertionError(f"input {number}, {data[:300]!r}: {error!r}") from error
            peak = tracemalloc.get_traced_memory()[1]
            assert peak < MOST_BYTES, f"input {number} of {len(data)} bytes took {peak >> 20} MB: {data[:300]!r}"
    finally:
        tracemalloc.stop()
    return counts

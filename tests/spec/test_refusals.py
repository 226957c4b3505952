"""What the vectors cannot say: changed rows, disks set back, and requests that are spoiled in any place."""

from __future__ import annotations

import copy
import functools
import random
from typing import Any

import pytest
from from_vectors import Case, Clock, cases, package_reply, spec_device, spec_reply
from spec.make_vectors import drawn

from codedfl.sum import wire
from spec import device as of_spec
from spec import wire as of_wire

BY_NAME = {case["name"]: case for case in cases("exchange")}
GOOD = ("enrol", "draw", "put", "upload", "answer", "certify", "close")


def steps(case: Case, *kinds: str) -> list[tuple[str, bytes]]:
    """Requests that are answered, in the first generation."""
    found = [(step["what"], bytes.fromhex(step["receives"])) for step in case["steps"] if step["kind"] == "ok"]
    until = [what for what, _ in found].index("close")
    return [(what, data) for what, data in found[: until + 1] if what in (kinds or GOOD)]


def code(reply: bytes) -> str:
    return wire.decode(reply, wire.Reply, "a reply").code


def begun(name: str) -> Clock:
    clock = Clock()
    clock.now = BY_NAME[name]["steps"][0]["now"]
    return clock


@pytest.mark.parametrize("of_package", [True, False])
def test_rows_that_have_changed_are_not_uploaded_again(of_package: bool) -> None:
    """Two uploads of one statistic could be subtracted, for whoever gets both sums: this device's change alone."""
    case = copy.deepcopy(BY_NAME["a"])
    if of_package:
        reply = package_reply(case, begun("a"))
    else:
        device = spec_device(case, begun("a"))
        reply = functools.partial(of_spec.reply, device)
    first = steps(case, "enrol", "draw", "upload")[:3]
    assert [code(reply(request)) for _, request in first] == ["", "", ""]
    for rows in case["rows"].values():
        rows["vector"][0] = str(int(rows["vector"][0]) + 1)
    if not of_package:
        device.words = {ask: [words[0] + 1, *words[1:]] for ask, words in device.words.items()}
    assert [code(reply(request)) for _, request in first] == ["", "", "rows"]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_disk_set_back_before_the_generation_has_other_keys_and_pads(name: str) -> None:
    """It draws another root: nothing that is replied then has a pad of before."""
    case = BY_NAME[name]
    spec = spec_device(case, begun(name))
    before = [of_spec.reply(spec, request) for _, request in steps(case)]
    spec.memory, spec.random = of_spec.Memory(), lambda _: drawn("another root")
    for (kind, request), old in zip(steps(case), before, strict=True):
        found = of_wire.decode(of_spec.reply(spec, request), of_wire.REPLY)
        if kind != "close":
            assert found["enrolment"] != of_wire.decode(old, of_wire.REPLY)["enrolment"]
        assert kind == "close" or found["body"] != of_wire.decode(old, of_wire.REPLY)["body"]


def spoiled(data: bytes, by: random.Random) -> bytes:
    """A bit turned, a byte less, a byte more, or a piece twice."""
    at = by.randrange(len(data))
    piece = data[at : at + by.randrange(40)]
    flipped = data[:at] + bytes([data[at] ^ (1 << by.randrange(8))]) + data[at + 1 :]
    return by.choice([flipped, flipped, data[:at] + data[at + 1 :], data[:at] + b"\0" + data[at:], data[:at] + piece])


def resigned(data: bytes, by: random.Random) -> bytes:
    """As ``spoiled``, by a server that signs whatever it likes."""
    fields: dict[str, Any] = of_wire.decode(data, of_wire.REQUEST)
    part = by.choice(["common", "own", "own"])
    fields[part] = spoiled(fields[part], by)
    fields["signature"] = of_wire.sign(drawn("server"), "request", fields["kind"], of_wire.sha256(fields["common"]))
    return of_wire.encode(fields)


@pytest.mark.parametrize("spoil", [spoiled, resigned])
@pytest.mark.parametrize("name", ["a", "c", "l"])
def test_both_say_the_same_of_what_is_spoiled_in_any_place(name: str, spoil: Any) -> None:
    case, by = BY_NAME[name], random.Random(f"spoiled {name}")
    package, spec = package_reply(case, begun(name)), spec_reply(case, begun(name))
    seen = set()
    for kind, request in steps(case):
        for _ in range(12):
            bad = spoil(request, by)
            if kind not in ("enrol", "close"):  # whose number may be spoiled into a later generation
                found = package(bad)
                assert spec(bad) == found, (kind, bad.hex())
                seen.add(code(found))
        assert package(request) == spec(request)
    assert len(seen) >= 2

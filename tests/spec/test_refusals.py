"""A device of the specification refuses what a lying server or relay makes of each message, and is then as before."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature, InvalidTag
from spec.make_vectors import drawn

from spec import fixed_point, make_vectors, parties, role_keys, secrets, wire

CASES = json.loads((make_vectors.FOLDER / "exchange.json").read_text(encoding="utf-8"))["cases"]
REFUSED = (AssertionError, InvalidSignature, InvalidTag, KeyError, ValueError)
TOO_EARLY = {
    "role-keys": ("certificate", "update"),
    "owners": ("certificate", "update"),
    "certificate": ("update",),
}


def device_of(case: dict[str, Any]) -> parties.Device:
    terms = fixed_point.Parameters(*wire.unpacked(bytes.fromhex(case["parameters"])))
    (names,), name = case["pods"], case["name"]
    roster = {one: secrets.identity_of(drawn(one)) for one in names}
    server = bytes.fromhex(case["server"])
    rows: tuple[Any, Any] = (case["X"], case["Y"]) if "X" in case else ([], [[int(one) for one in case["numbers"]]])
    return parties.Device(
        name, drawn(name), server, terms, roster, [frozenset(names)], 3, *rows, make_vectors.draws(name)
    )


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


# What a body becomes, by kind: by a server that signs whatever it likes.
LIES: dict[str, list[Callable[[list[Any]], list[Any]]]] = {
    "invitation": [
        lambda body: [secrets.identity_of(b"x" * 32), *body[1:]],
        lambda body: [body[0], bytes(32), body[2]],  # a key that nothing can be sealed to
    ],
    "agreement": [
        lambda body: [flipped(body[0]), *body[1:]],
        lambda body: [*body[:2], body[2][::-1], *body[3:]],
        lambda body: [*body[:2], [[one[0], one[1], one[2], flipped(one[3])] for one in body[2]], *body[3:]],
        lambda body: [*body[:3], bytes(24), *body[4:]],
        lambda body: [*body[:4], [0] * 4, *body[5:]],
        lambda body: [*body[:4], [], [], []],  # without roles nobody would have to sign their keys
        lambda body: [*body[:4], [-2, *body[4][1:]], *body[5:]],
        lambda body: [*body[:5], [0], body[6]],
        lambda body: [*body[:6], [-2, *body[6][1:]]],
    ],
    "role-key-wanted": [lambda body: ["b"]],
    "role-key": [lambda body: [body[0], flipped(body[1]), body[2]], lambda body: [*body[:2], flipped(body[2])]],
    "role-keys": [
        lambda body: body[:1],
        lambda body: [[body[0][0], body[0][1][:1]], body[1]],
        lambda body: [[flipped(body[0][0]), body[0][1]], body[1]],
        lambda body: body[::-1],
    ],
    "share": [
        lambda body: [body[0], flipped(body[1])],
        lambda body: [[body[0][0], flipped(body[0][1])], body[1]],
    ],
    "owners": [
        lambda body: body[1:],
        lambda body: [body[0], *body],
        lambda body: body[::-1],
        lambda body: [[name, flipped(digest), upload] for name, digest, upload in body],
    ],
    "certificate": [lambda body: body[1:], lambda body: [[name, flipped(one)] for name, one in body]],
    "update": [
        lambda body: [0, *body[1:]],
        lambda body: [*body[:2], body[2] + bytes(3)],
        lambda body: [*body[:2], b"\xff" * 18],
    ],
}


# What another one of the same kind would say, after the first.
SECOND: dict[str, list[Callable[[list[Any]], list[Any]]]] = {
    "agreement": [lambda body: [*body[:4], [1 - role for role in body[4]], *body[5:]]],
    "owners": [lambda body: [[name, digest, flipped(upload)] for name, digest, upload in body]],
    "update": [lambda body: [body[0], body[1] + 1, body[2]], lambda body: [body[0] - 1, *body[1:]]],
}


def lies(sent: wire.Message) -> Iterator[wire.Message]:
    """The same message for others, by others, and with other contents."""
    yield replace(sent, receiver="b")
    if sent.kind != "invitation":
        yield replace(sent, run=flipped(sent.run))
    if sent.kind not in ("invitation", "agreement"):
        yield replace(sent, agreement=flipped(sent.agreement))
    for lie in LIES.get(sent.kind, []):
        yield replace(sent, body=wire.packed(*lie(wire.unpacked(sent.body))))


def is_refused(device: parties.Device, data: bytes) -> None:
    before = copy.deepcopy({name: value for name, value in vars(device).items() if name != "random"})
    with pytest.raises(REFUSED):
        role_keys.receive(device, data)
    assert {name: value for name, value in vars(device).items() if name != "random"} == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_lies_are_refused_and_change_nothing(case: dict[str, Any]) -> None:
    sent = [wire.decode(bytes.fromhex(step["receives"])) for step in case["messages"]]
    for place, message in enumerate(sent):
        device = device_of(case)
        for earlier in case["messages"][:place]:
            role_keys.receive(device, bytes.fromhex(earlier["receives"]))
        for lie in lies(message):
            is_refused(device, wire.encode(wire.signed(lie, drawn("server"))))
        if message.kind in parties.SIGNED:
            is_refused(device, wire.encode(wire.signed(message, drawn("another"))))
        too_early = TOO_EARLY.get(message.kind, ())
        for later in [one for one in sent[place + 1 :] if one.kind in too_early]:
            is_refused(device, wire.encode(later))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_was_said_is_said_once(case: dict[str, Any]) -> None:
    """No second invitation, agreement, list or update for the same epoch, and no question more than agreed on."""
    device = device_of(case)
    for step in case["messages"]:
        message = wire.decode(bytes.fromhex(step["receives"]))
        role_keys.receive(device, bytes.fromhex(step["receives"]))
        body = wire.unpacked(message.body) if message.body else []
        for other in SECOND.get(message.kind, []):
            again = replace(message, body=wire.packed(*other(body)))
            is_refused(device, wire.encode(wire.signed(again, drawn("server"))))
        if message.kind == "update" and body[0] == device.terms.epochs:
            more = replace(message, body=wire.packed(body[0] + 1, 0, bytes(18)))
            is_refused(device, wire.encode(wire.signed(more, drawn("server"))))
    assert not (device.key or device.role_key or device.seeds or device.matrix or device.constant)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_other_terms_are_refused_in_the_same_words(case: dict[str, Any]) -> None:
    device = device_of(case)
    device.terms = replace(device.terms, epochs=2)
    (answer,) = role_keys.receive(device, bytes.fromhex(case["messages"][0]["receives"]))
    refusal = wire.decode(answer)
    assert (refusal.kind, refusal.body) == ("refusal", b"this device does not take part")
    secrets.verify(device.roster[device.name], wire.signed_part(refusal), refusal.signature)
    is_refused(device, bytes.fromhex(case["messages"][1]["receives"]))


@pytest.mark.parametrize("change", ["pods", "roster", "least_owners"])
def test_what_the_operator_approved_binds(change: str) -> None:
    """A list without a whole pod or with too few owners is not signed; nobody outside the roster is accepted."""
    device = device_of(CASES[0])
    steps = [bytes.fromhex(step["receives"]) for step in CASES[0]["messages"]]
    kinds = [wire.decode(data).kind for data in steps]
    last = kinds.index("agreement" if change == "roster" else "owners")
    for data in steps[:last]:
        role_keys.receive(device, data)
    if change == "roster":
        device.roster = {**device.roster, "b": device.roster["a"]}
    elif change == "pods":
        device.pods = [frozenset({"a", "b", "c", "d", "absent"})]
    else:
        device.least_owners = 5
    is_refused(device, steps[last])


AGREEMENT = wire.unpacked(
    bytes.fromhex(
        json.loads((make_vectors.FOLDER / "agreements.json").read_text(encoding="utf-8"))["cases"][1]["agreement"]
    )
)


@pytest.mark.parametrize(
    ("roles", "blocks"),
    [
        ([], []),  # nobody would have to sign the keys of the roles
        ([], AGREEMENT[6]),
        ([role - (role < 0) for role in AGREEMENT[4]], AGREEMENT[6]),
        (AGREEMENT[4], [0 if role < 0 else block for role, block in zip(AGREEMENT[4], AGREEMENT[6], strict=True)]),
        (AGREEMENT[4], [block - (block < 0 <= role) for role, block in zip(AGREEMENT[4], AGREEMENT[6], strict=True)]),
        ([role + 2 * (role < 0) + (role > 0) for role in AGREEMENT[4]], AGREEMENT[6]),
    ],
)
def test_an_agreement_deals_roles_and_blocks(roles: list[int], blocks: list[int]) -> None:
    run, invited, members, theta, _, helpers, _ = AGREEMENT
    wire.read_agreement(wire.packed(*AGREEMENT))
    with pytest.raises((AssertionError, ValueError)):
        wire.read_agreement(wire.packed(run, invited, members, theta, roles, helpers, blocks))


def test_there_is_no_key_of_no_role() -> None:
    """Not even among several devices that hold none."""
    agreed = wire.read_agreement(wire.packed(*AGREEMENT))
    device = device_of(CASES[0])
    device.name, device.secret, device.agreed = "f", drawn("f"), agreed
    assert agreed.role["f"] == -1
    with pytest.raises(AssertionError, match="by a holder, to co-holders only"):
        role_keys.on_role_key_wanted(device, parties.message(device, "role-key-wanted", wire.packed()))
    assert not device.role_key
    signature = secrets.sign(drawn("f"), wire.role_key_statement(agreed, -1, bytes(32)))
    with pytest.raises(AssertionError, match="signed by its holders"):
        role_keys.check_role_key(agreed, -1, bytes(32), "f", signature)

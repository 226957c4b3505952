"""The package makes the specification's vectors byte for byte, and opens what the specification made."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any

import numpy as np
import pytest

from codedfl.code.gradient_code import GradientCode
from codedfl.code.roles import Cell
from codedfl.crypto import pads, sealed
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.ring import Ring
from codedfl.exact.row_blocks import RowBlocks
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Agreement, Invitation, Member, Parameters
from codedfl.protocol.contribution import Rows, WholeNumbers
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Commitments, Kind, Message, pack_list
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.role_keys import ROLE_KEYS
from spec import make_vectors, wire


def cases(part: str) -> list[Any]:
    return json.loads((make_vectors.FOLDER / f"{part}.json").read_text(encoding="utf-8"))["cases"]


def secret(label: str, count: int = 32) -> bytes:
    return hashlib.shake_256(label.encode()).digest(count)


@pytest.mark.parametrize("part", make_vectors.PARTS, ids=lambda part: part.__name__)
def test_the_files_are_what_the_specification_makes(part: Any) -> None:
    found = (make_vectors.FOLDER / f"{part.__name__}.json").read_text(encoding="utf-8")
    assert found == make_vectors.text_of(part)


def test_there_is_no_other_file() -> None:
    assert {path.stem for path in make_vectors.FOLDER.iterdir()} == {part.__name__ for part in make_vectors.PARTS}


@pytest.mark.parametrize("case", cases("packing"))
def test_packing(case: dict[str, Any]) -> None:
    ring, numbers = Ring(tuple(case["primes"])), list(map(int, case["numbers"]))
    residues = np.array([[(x + p // 2) % p - p // 2 for x in numbers] for p in ring.primes], dtype=np.float32)
    assert ring.pack(residues).hex() == case["packed"]
    assert list(ring.to_integers(ring.unpack(bytes.fromhex(case["packed"]), len(numbers)))) == numbers


@pytest.mark.parametrize("case", cases("gradient_code"))
def test_gradient_code(case: dict[str, Any]) -> None:
    code = GradientCode(case["devices"], case["alpha"], case["primes"])
    row, decoding = list(map(int, case["row"])), list(map(int, case["decoding"]))
    for plane, prime, vector in zip(code.matrix(), code.primes, code.decoding_vector(case["survivors"]), strict=True):
        assert plane[0].tolist() == [x % prime for x in row]
        assert vector.tolist() == [x % prime for x in decoding]


@pytest.mark.parametrize("case", cases("rounding"))
def test_rounding(case: dict[str, Any]) -> None:
    X, Y, e = (np.array(case[name]) for name in ("X", "Y", "e"))
    scales = FixedPoint.derive(Bounds(*case["bounds"]), X.shape[1], case["owners"])
    bits = [scales.feature_bits, scales.label_bits, scales.gram_bits, scales.constant_bits]
    assert bits == case["fraction_bits"]
    assert [scales.limit, scales.gram_limit, scales.cross_limit] == case["limits"]
    assert scales.ring.to_integers(scales.gram_planes(X)).tolist() == case["gram"]
    constant = -scales.ring.to_integers(scales.cross(X, Y)).reshape(-1)
    assert [*constant.tolist(), len(X)] == case["constant"]
    integers, update_bits = scales.round_update(e)
    assert (integers.tolist(), update_bits) == (case["update"], case["update_bits"])


@pytest.mark.parametrize("case", cases("row_blocks"))
def test_row_blocks(case: dict[str, Any]) -> None:
    rows, columns = np.triu_indices(case["d"])
    blocks, places = RowBlocks(case["d"], case["blocks"]), np.stack([rows, columns])
    laid_out = [blocks.by_pairs(places[:, blocks.strip(k)], k).T.tolist() for k in range(case["blocks"])]
    assert [place for strip in laid_out for place in strip] == case["entries"]


@pytest.mark.parametrize("case", cases("pads"))
def test_pads(case: dict[str, Any]) -> None:
    ring, seed = Ring(tuple(case["primes"])), bytes.fromhex(case["seed"])
    total, (a, b) = ring.zeros(case["count"]), case.get("pair", (0, 0))
    pads.add_pieces(ring, total, {(a, b): slice(0, case["count"])}, [(1, seed)], case["label"])
    packed = ring.pack(total)
    assert (a, b) != (0, 0) or packed == ring.pack(pads.expand(ring, seed, case["label"], case["count"]))
    assert case.get("packed", packed.hex()) == packed.hex()
    assert case.get("sha256", "") in ("", hashlib.sha256(packed).hexdigest())


def test_sealing() -> None:
    envelope, bulk = cases("sealing")
    sender, receiver = (RunKey(bytes.fromhex(envelope[who])) for who in ("sender", "receiver"))
    context, plaintext = bytes.fromhex(envelope["context"]), bytes.fromhex(envelope["plaintext"])
    fresh = bytes.fromhex(envelope["fresh"])
    made = sealed.seal(sender, receiver.public, context, plaintext, lambda _: fresh)
    assert made.hex() == envelope["sealed"]
    assert sealed.open_sealed(receiver, sender.public, context, bytes.fromhex(envelope["sealed"])) == plaintext
    text = secret(bulk["shake256"], bulk["length"])
    encrypted = b"".join(sealed.encrypt_bulk(bytes.fromhex(bulk["content_key"]), bytes.fromhex(bulk["context"]), text))
    assert hashlib.sha256(encrypted).hexdigest() == bulk["sha256"]


@pytest.mark.parametrize("case", cases("agreements"), ids=["coded-padded", "role-keys"])
def test_agreements(case: dict[str, Any]) -> None:
    run, server, server_key = bytes.fromhex(case["run"]), Identity(secret("server")), RunKey(secret("server key"))
    coded, with_roles = ("coded-padded", 3, 4, 2), ("role-keys", 1, 4, 2)
    parameters = Parameters(
        *(with_roles if case["roles"] else coded),
        Bounds(1.0, 1.0, 100, 30),
        epochs=6,
        recipe=secret("recipe"),
        colluders=1 if case["roles"] else 0,
    )
    assert parameters.encode().hex() == case["parameters"]
    invitation = Invitation(run, server.public, server_key.public, parameters)
    message = Message(Kind.INVITATION, run, b"", "", "", invitation.encoded).signed_by(server)
    assert message.encode().hex() == case["invitation"]
    members = []
    for name in sorted(case["seats"]):
        identity, run_key = Identity(secret(name)), RunKey(secret(f"key {name}"))
        signature = identity.sign(invitation.join_statement(name, run_key.public))
        members.append(Member(name, identity.public, run_key.public, signature))
    dealt = [Cell(*one) for one in zip(case["roles"], case["blocks"], strict=True)]
    cells = dict(zip(case["seats"], dealt, strict=True)) if dealt else None
    agreed = Agreement.freeze(
        invitation, members, cells=cells, helpers=[case["seats"][seat] for seat in case["helpers"]]
    )
    assert (list(agreed.names), agreed.encoded.hex(), agreed.hash.hex()) == (
        case["seats"],
        case["agreement"],
        case["hash"],
    )
    again = Agreement.decode(bytes.fromhex(case["agreement"]))
    assert (again.names, again.roles, again.helpers, again.blocks) == (
        agreed.names,
        tuple(case["roles"]),
        tuple(case["helpers"]),
        tuple(case["blocks"]),
    )
    seeds = {purpose: bytes.fromhex(seed) for purpose, seed in case["seeds"].items()}
    commitments = Commitments.to(seeds, "a", agreed.hash, Identity(secret("a")))
    assert pack_list(commitments.fields()).hex() == case["commitments"]
    commitments.check_signature("a", agreed.hash, Identity(secret("a")).public)


@pytest.mark.parametrize("case", cases("exchange"), ids=["a", "c", "whole numbers", "on three primes"])
def test_exchange(case: dict[str, Any]) -> None:
    """List digest and signatures, upload and answers are what a device sends in it."""
    parameters, name, numbered = Parameters.decode(bytes.fromhex(case["parameters"])), case["name"], itertools.count()
    whole = [int(one) for one in case.get("numbers", [])]
    brought = (
        WholeNumbers(len(whole), lambda ring: ring.from_integers(np.array(whole)))
        if whole
        else Rows(case["X"], case["Y"])
    )
    device = Device(
        RunPlan(ROLE_KEYS, parameters, tuple(case["pods"][0]), blocks=1 if whole else 2),
        name,
        brought,
        identity=Identity(secret(name)),
        random_bytes=lambda count: secret(f"{name} {next(numbered)}", count),
    )
    for step in case["messages"]:
        sent = device.receive(bytes.fromhex(step["receives"])).outgoing
        assert [one.data.hex() for one in sent] == step["sends"]


def test_the_totals_of_the_exchange() -> None:
    """Of every device's rows on the grid of values, added up in integers: G^(1), the number of rows, two products."""
    names, scales = cases("exchange")[0]["pods"][0], FixedPoint.derive(Bounds(1.0, 1.0, 100, 10), 3, 4)
    rows = [
        (np.array([[i / 8, 0.1, -0.5], [0.3, -i / 8, 1.0]]), np.array([[0.5], [-i / 8]])) for i in range(len(names))
    ]
    cross = np.sum([scales.ring.to_integers(scales.cross(X, Y)) for X, Y in rows], axis=0)
    triangle = np.sum([scales.ring.to_integers(scales.gram_planes(X)) for X, _ in rows], axis=0)
    gram = np.zeros((3, 3))
    gram[np.triu_indices(3)] = triangle
    gram += np.triu(gram, 1).T
    expected = [[*np.ldexp(-cross.ravel().astype(float), -scales.constant_bits), 2.0 * len(names)]]
    for e in ([0.5, -0.25, 1.0], [1.0, 0.5, -0.25]):
        integers, bits = scales.round_update(np.array(e)[:, None])
        expected.append([*np.ldexp((gram @ integers).ravel(), -scales.gram_bits - bits)])
    assert cases("exchange")[0]["totals"] == expected
    for case, unit in zip(cases("exchange")[2:], (100, 2**55 + 2**10), strict=True):
        assert case["totals"] == [[str(6 * unit), "0", "-10"]]


@pytest.mark.parametrize("case", cases("agreements"), ids=["coded-padded", "role-keys"])
def test_what_the_package_makes_the_specification_reads(case: dict[str, Any]) -> None:
    agreed = wire.read_agreement(bytes.fromhex(case["agreement"]))
    assert (agreed.names, agreed.hash.hex()) == (case["seats"], case["hash"])
    assert wire.encode(wire.decode(bytes.fromhex(case["invitation"]))).hex() == case["invitation"]

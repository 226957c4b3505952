"""The package makes the test vectors byte for byte, and so does the specification, which made the files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from from_vectors import Case, Clock, cases, layout_of, package_device, package_reply, spec_reply, whole

from codedfl.crypto.sealed import Identity
from codedfl.sum import keys as of_package
from codedfl.sum.layout import Layout, product
from codedfl.sum.pads import add_pads
from codedfl.sum.terms import Participant, Terms
from spec import make_vectors


@pytest.mark.parametrize("part", make_vectors.PARTS)
def test_the_files_are_what_the_specification_makes(part: str) -> None:
    assert (make_vectors.FOLDER / f"{part}.json").read_text(encoding="utf-8") == make_vectors.made(part)


def test_there_are_no_other_files() -> None:
    assert {path.stem for path in make_vectors.FOLDER.iterdir()} == set(make_vectors.PARTS)


@pytest.mark.parametrize("case", cases("layouts"))
def test_layouts(case: Case) -> None:
    layout, factor = layout_of(case["layout"]), int(case["factor"])
    of_matrix = [make_vectors.pattern(i, j) * factor for i in range(layout.size) for j in range(i, layout.size)]
    words = layout.words_of(whole(case["vector"]), np.array(of_matrix, dtype=object))
    made = {"words": layout.to_bytes(words), "product": b""}
    e = np.array(case["e"], dtype=np.int64)
    for plane in range(layout.words if layout.size else 0):
        part = words[layout.vector_words + plane * layout.triangle :]
        tiles = {(a, b): part[start:stop] for a, b, start, stop in layout.tiles()}
        made["product"] += layout.to_bytes(product(layout.dense(tiles, *case["rows"]), e).reshape(-1))
    for name, data in made.items():
        assert case.get(name) == data.hex() or case[f"{name}_sha256"] == hashlib.sha256(data).hexdigest()


def test_keys() -> None:
    (case,) = cases("keys")
    given = {name: bytes.fromhex(one) for name, one in case.items() if isinstance(one, str) and name != "name"}
    scope = of_package.Scope(given["study"], case["generation"])
    owner, drawer = (of_package.GenerationKeys(scope, given[root]) for root in ("root", "drawer_root"))
    label, role, public = of_package.label_of(scope.study, given["ask"]), case["role"], owner.own.public
    drawn = drawer.role_key(role)
    kappa = of_package.kappa(owner.own.with_public(drawn.public), scope, role, case["name"], public, drawn.public)
    text = of_package.enrolment_text(scope, case["not_after"], public)
    nonce = owner.nonce("codedfl 4 nonce", label, given["plain"])
    made = {
        "packed": of_package.pack("abc", b"", 7),
        "identity": Identity(given["secret"]).public,
        "signature": Identity(given["secret"]).sign(text),
        "device_key": owner.own.secret,
        "device_public": public,
        "role_key": drawn.secret,
        "role_public": drawn.public,
        "label": label,
        "nonce": nonce,
        "pad_key": of_package.pad_key(kappa, label, nonce),
        "sealed_role_key": drawer.seal_role_key(role, public),
        "sealed_reply": owner.seal_reply(
            of_package.ExchangeKey(given["server_key"]).public, given["request"], given["reply"]
        ),
    }
    assert made == {name: given[name] for name in made}
    assert of_package.kappa(drawn.with_public(public), scope, role, case["name"], public, drawn.public) == kappa


@pytest.mark.parametrize("case", cases("pads"))
def test_pads(case: Case) -> None:
    words = np.zeros(case["count"], dtype=np.uint64)
    add_pads(words, [bytes.fromhex(case["key"])], case["bits"] // 8, case["first"])
    assert Layout(case["bits"]).to_bytes(words).hex() == case["words"]


@pytest.mark.parametrize("case", cases("rosters"))
def test_rosters(case: Case) -> None:
    people = [(name, int(number)) for number, names in case["group"].items() for name in names]
    everybody = [*people, *((name, None) for name in case["key_only"])]
    roster = tuple(Participant(name, name.encode() * 32, group) for name, group in reversed(everybody))
    assert Terms(bytes(32), bytes(32), roster, case["colluders"], holders=case["holders"]).roles == case["roles"]


@pytest.mark.parametrize("make", [package_reply, spec_reply])
@pytest.mark.parametrize("case", cases("exchange"), ids=lambda case: case["name"])
def test_exchange(case: Case, make: Callable[[Case, Clock], Callable[[bytes], bytes]]) -> None:
    clock = Clock()
    reply = make(case, clock)
    for step in case["steps"]:
        clock.now = step["now"]
        for _ in range(2):  # a request that comes twice has one reply
            assert reply(bytes.fromhex(step["receives"])).hex() == step["sends"], step["what"]


def test_a_device_whose_caches_are_deleted_before_every_request() -> None:
    """What it must not forget is its memory, and the rest follows from it."""
    for case in cases("exchange"):
        clock = Clock()
        device = package_device(case, clock)
        for step in case["steps"]:
            clock.now = step["now"]
            device._forget()
            assert device.reply(bytes.fromhex(step["receives"])).hex() == step["sends"], step["what"]


def test_every_kind_of_request_and_every_code_is_in_them() -> None:
    steps = [step for case in cases("exchange") for step in case["steps"]]
    assert {step["what"] for step in steps if step["kind"] == "ok"} >= {*make_vectors.wire.KINDS}
    codes = {step["code"] for step in steps if step["kind"] == "refused"}
    assert codes == {"study", "signature", "generation", "request", "role", "list", "budget"}  # rows: test_refusals
    content = make_vectors.secrets.sha256(make_vectors.CONTENT).hex()
    assert {step["code"] for step in steps if step["kind"] == "missing"} == {"list", content}

"""A device: a function of the study, its frozen rows, its keys of the generation, and the request.

It may be asked anything, at any time, twice, by a process that was killed in between: the reply to a request is always
the same bytes. ``Memory`` is all that it must not forget; it is on the disk before a reply that follows from it leaves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag

from spec import secrets, wire
from spec.numbers import TILE, Layout, Matrix, add, from_bytes, numbers_of, product, signed, spans, to_bytes
from spec.secrets import is_signed, keyed_hash, label_of, pack, public_of, sha256, sign
from spec.study import Study, check_enrolment, check_list, check_role_key

CODES = {InvalidTag: "role", ValueError: "request", KeyError: "request"}  # sealed, public key, ask


@dataclass
class Memory:
    """On the disk. ``arguments`` and ``directions``: how many different asks and e are allowed; None is any number."""

    arguments: int | None = None
    directions: int | None = None
    generation: tuple[int, bytes, int] = (-1, b"", 0)  # the newest: number, root (empty once it is over), not_after
    pinned: dict[bytes, bytes] = field(default_factory=dict)  # by ask: what was padded, as a keyed digest
    asked: set[bytes] = field(default_factory=set)  # digests of e
    records: dict[int, Any] = field(default_factory=dict)  # by generation: who was in which sum


@dataclass
class Device:
    """A participant, on a study as it was approved here."""

    name: str
    secret: bytes  # long-term
    study: Study
    words: dict[bytes, list[int]]  # by ask: of its frozen rows
    memory: Memory
    now: Callable[[], float]  # seconds since 1970
    random: Callable[[int], bytes]  # draws roots, and nothing else
    contents: dict[bytes, bytes] = field(default_factory=dict)  # by digest: a cache, which may be lost


@dataclass
class Keys:
    """Of the generation that is asked for."""

    scope: secrets.Scope
    root: bytes
    private: bytes  # a
    public: bytes  # A
    enrolment: list[Any]


def reply(device: Device, request: bytes) -> bytes:
    """The reply to any bytes at all: what fails is refused, and the text of the assertion is all that is said of it."""
    asked, keys, kind, code, body = sha256(request), None, "ok", "", b""
    try:
        found, common, own = wire.read_request(request)
        assert common["study"] == device.study.digest, "study"
        text = ("request", found["kind"], sha256(found["common"]))
        assert is_signed(device.study.server, found["signature"], *text), "signature"
        if found["kind"] == "close":
            close(device, common)
        else:
            keys = keys_of(device, common, found["kind"])
            for one in sorted(device.study.needs.get(common.get("ask", b""), ())):
                assert one in device.contents, ("missing", one.hex())
            plain = wire.encode(HANDLERS[found["kind"]](device, keys, common, own))
            tag = keyed_hash(keys.scope, keys.root, "reply", asked, plain)
            body = secrets.seal_reply(keys.scope, keys.private, common["server"], asked, tag, plain)
    except (AssertionError, *CODES) as no:
        code = CODES.get(type(no)) or no.args[0]
        kind, code = code if isinstance(code, tuple) else ("refused", code)
    named = keys and keys.enrolment  # nil where the device does not take part in the generation
    return wire.encode({"kind": kind, "request": asked, "enrolment": named, "code": code, "body": body})


# -- generations


def keys_of(device: Device, common: wire.Found, kind: str) -> Keys:
    """Draw a root for a newer generation, if the request is to enrol; delete it where its time is up."""
    (number, root, end), now = device.memory.generation, device.now()
    if root and now >= end:
        root, device.memory.generation = b"", (number, b"", 0)
    if common["generation"] > number:
        assert kind == "enrol" and now < common["not_after"] <= now + 60 * 24 * 3600, "generation"
        device.memory.generation = number, root, end = common["generation"], device.random(32), common["not_after"]
    assert number == common["generation"] and root and common.get("not_after", end) == end, "generation"
    scope = (device.study.digest, number)
    private = secrets.derive(root, "device key", *scope)
    public = public_of(private)
    signature = sign(device.secret, "enrolment", *scope, end, public)
    return Keys(scope, root, private, public, [device.name, public, end, signature])


def close(device: Device, common: wire.Found) -> None:
    """Delete the root, and caches with it; closing again, or what is older than the newest, changes nothing."""
    if common["generation"] >= device.memory.generation[0]:
        device.memory.records.setdefault(common["generation"], common["record"])
        device.memory.generation = (common["generation"], b"", 0)


# -- a role's key


def draw(device: Device, keys: Keys, _: wire.Found, own: wire.Found) -> wire.Found:
    """The key of this device's role: B for everybody, b for other holders of the role."""
    role, sealed = device.study.role.get(device.name), {}
    assert role is not None, "role"
    b = secrets.derive(keys.root, "role key", *keys.scope, role)
    for name, public, *rest in own["members"]:
        assert device.study.role.get(name) == role, "role"
        check_enrolment(device.study, keys.scope, [name, public, *rest], device.now())
        if name != device.name:
            secret = secrets.shared(keys.private, public)
            seal = secrets.role_seal(keys.scope, secret, role, keys.public, public, public_of(b))
            sealed[name] = seal.encrypt(bytes(12), b, None)
    signature = sign(device.secret, "role key", *keys.scope, role, public_of(b))
    return {"public": public_of(b), "signature": signature, "sealed": sealed}


def opened_role_key(device: Device, keys: Keys, role: int, own: wire.Found) -> bytes:
    """b: from the root if this device drew it, else what its drawer sealed to this device."""
    check_role_key(device.study, keys.scope, role, own["role_key"])
    drawer, drawer_public, public, _ = own["role_key"]
    b = secrets.derive(keys.root, "role key", *keys.scope, role)
    if drawer != device.name or public_of(b) != public:
        secret = secrets.shared(keys.private, drawer_public)
        seal = secrets.role_seal(keys.scope, secret, role, drawer_public, keys.public, public)
        b = seal.decrypt(bytes(12), own["sealed"], None)
    assert len(b) == 32 and public_of(b) == public, "role"
    return b


# -- what asks need


def put(device: Device, _: Keys, __: wire.Found, own: wire.Found) -> wire.Found:
    """Keep a content by its digest, and of those before it the newest."""
    assert len(own["content"]) <= 2**22, "request"
    device.contents = dict([*{**device.contents, sha256(own["content"]): own["content"]}.items()][-8:])
    return {}


# -- an owner


def upload(device: Device, keys: Keys, common: wire.Found, own: wire.Found) -> wire.Found:
    """The words of the statistic, plus one pad for each role."""
    study, ask, memory = device.study, common["ask"], device.memory
    assert device.name in study.owners, "role"
    layout, label, owner = study.layout[ask], label_of(study.digest, ask), (study.digest, device.name, keys.public)
    assert len(own["role_keys"]) == study.colluders + 1, "role"
    for role, key in enumerate(own["role_keys"]):
        check_role_key(study, keys.scope, role, key)
    publics, words = [public for _, _, public, _ in own["role_keys"]], device.words[ask]
    plain = to_bytes(layout.bits, words)
    nonce = keyed_hash(keys.scope, keys.root, "nonce", label, plain)  # other bytes have other pads
    pinned = secrets.derive(device.secret, "pinned", label, sha256(plain))  # keyed: a thief cannot try numbers
    assert memory.pinned.get(ask, pinned) == pinned, "rows"  # two versions could be subtracted
    assert ask in memory.pinned or memory.arguments is None or len(memory.pinned) < memory.arguments, "budget"
    memory.pinned[ask] = pinned
    for role, public in enumerate(publics):
        key = secrets.pad_key(secrets.shared(keys.private, public), role, owner, public, label, nonce)
        words = add(words, secrets.pad(key, layout.bits, 0, len(words)))
    return {"nonce": nonce, **signed_numbers(device, layout, words, "upload", label, keys.public, *publics, nonce)}


def signed_numbers(device: Device, layout: Layout, words: list[int], what: str, *parts: secrets.Part) -> wire.Found:
    """Signed only where the layout is certified."""
    numbers = to_bytes(layout.bits, words)
    signature = sign(device.secret, what, *parts, sha256(numbers)) if layout.certified else b""
    return {"numbers": numbers, "signature": signature}


# -- a holder


def answer(device: Device, keys: Keys, common: wire.Found, own: wire.Found) -> wire.Found:
    """The sum of the pads of a role over the owners of a list: of the vector, or rows of the matrix times e."""
    study, role, ask = device.study, device.study.role.get(device.name), common["ask"]
    assert role is not None, "role"
    layout, label, public = study.layout[ask], label_of(study.digest, ask), own["role_key"][2]
    b, pads = opened_role_key(device, keys, role, own), []
    assert own["entries"], ("missing", "list")
    for name, enrolled, _, _, nonce in read_list(device, keys, common, own):
        owner = (study.digest, name, enrolled)
        pads.append(secrets.pad_key(secrets.shared(b, enrolled), role, owner, public, label, nonce))
    e = read_e(device, layout, label, common["e"], own["rows"]) if common["e"] else []
    first, last = spans(layout) if e else (0, spans(layout)[0])
    each = [secrets.pad(key, layout.bits, first, last - first) for key in pads]
    words = [sum(column) for column in zip(*each, strict=True)]
    words = product(layout, words, e, *own["rows"]) if e else words
    return signed_numbers(device, layout, words, "role sum", label, common["list"], role, public)


def read_list(device: Device, keys: Keys, common: wire.Found, own: wire.Found) -> Any:
    """A list of owners that may be summed over."""
    assert sha256(own["entries"]) == common["list"], "list"
    entries = wire.decode(own["entries"], (wire.ENTRY,), "list")
    check_list(device.study, keys.scope, common["ask"], entries, device.now())
    return entries


def read_e(device: Device, layout: Layout, label: bytes, data: bytes, rows: Sequence[int]) -> Matrix:
    """Row by row, words of the layout, little endian, two's complement. Each e is counted."""
    assert not layout.certified and len(data) == layout.bits // 8 * layout.size * layout.columns > 0, "request"
    assert rows[0] < rows[1] <= -(-layout.size // TILE), "request"
    flat, question = signed(layout.bits, from_bytes(layout.bits, data)), sha256(pack(label, data))
    assert all(sum(map(abs, flat[c :: layout.columns])) <= layout.room for c in range(layout.columns)), "request"
    asked, most = device.memory.asked, device.memory.directions
    assert question in asked or most is None or len(asked) < most, "budget"  # the same e again is free
    asked.add(question)
    return [flat[at : at + layout.columns] for at in range(0, len(flat), layout.columns)]


# -- a device that computes a total itself, so that others can believe it


def certify(device: Device, keys: Keys, common: wire.Found, own: wire.Found) -> wire.Found:
    """The total, from what owners and at least z + 1 holders of each role have signed."""
    study, label, listed = device.study, label_of(device.study.digest, common["ask"]), common["list"]
    layout, entries = study.layout[common["ask"]], read_list(device, keys, common, own)
    assert layout.certified and not layout.size, "request"
    assert len(own["uploads"]) == len(entries) and len(own["sums"]) == study.colluders + 1, "list"
    publics, total = [key[2] for key, _, _ in own["sums"]], [0] * spans(layout)[1]
    for (name, public, _, _, nonce), (numbers, signature) in zip(entries, own["uploads"], strict=True):
        assert is_signed(study.key[name], signature, "upload", label, public, *publics, nonce, sha256(numbers)), "list"
        total = add(total, from_bytes(layout.bits, numbers))
    for role, (key, numbers, signatures) in enumerate(own["sums"]):
        check_role_key(study, keys.scope, role, key)
        # z + 1 holders of the role, so one of them at least is honest.
        by = {name for name, _ in signatures if study.role.get(name) == role}
        assert len(by) > study.colluders, "role"
        text = ("role sum", label, listed, role, key[2], sha256(numbers))
        assert all(name in by and is_signed(study.key[name], one, *text) for name, one in signatures), "role"
        total = add(total, from_bytes(layout.bits, numbers), -1)
    assert all(abs(v) <= layout.limit for v in numbers_of(layout, total)), "list"
    return signed_numbers(device, layout, total, "total", label, listed)


HANDLERS = {"enrol": lambda *_: {}, "draw": draw, "put": put, "upload": upload, "answer": answer, "certify": certify}

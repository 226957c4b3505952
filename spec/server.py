"""The server: asks devices, and adds up what they reply. Whom it asks, when, and how often is its own affair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spec import secrets, wire
from spec.numbers import TILE, Matrix, add, from_bytes, numbers_of, product, spans, to_bytes
from spec.study import Study, check_enrolment


@dataclass
class Server:
    """One generation. ``line``: a name and a request to the reply."""

    study: Study
    secret: bytes  # long-term
    scope: secrets.Scope
    key: bytes  # X25519, drawn for this generation
    line: Callable[[str, bytes], bytes]
    enrolled: dict[str, list[Any]] = field(default_factory=dict)
    role_keys: list[list[Any]] = field(default_factory=list)
    sealed: dict[str, bytes] = field(default_factory=dict)  # b, by holder
    lists: dict[bytes, list[Any]] = field(default_factory=dict)  # by ask
    matrices: dict[bytes, list[int]] = field(default_factory=dict)  # by ask: the sum of uploads, under pads
    contents: dict[str, bytes] = field(default_factory=dict)  # by digest, in hexadecimal: put where it is missing


def asked(server: Server, name: str, kind: str, own: wire.Found, **more: Any) -> Any:
    """One request, and what was sealed in the reply."""
    common = {"study": server.scope[0], "generation": server.scope[1], "server": secrets.public_of(server.key), **more}
    request = wire.request(server.secret, kind, common, own)
    found = wire.decode(server.line(name, request), wire.REPLY)
    if found["kind"] == "missing" and found["code"] in server.contents:
        asked(server, name, "put", {"content": server.contents[found["code"]]})
        return asked(server, name, kind, own, **more)
    assert found["kind"] == "ok" and found["request"] == secrets.sha256(request), f"{found['kind']} {found['code']}"
    if kind == "close":
        return {}
    enrolment = server.enrolled[name] = found["enrolment"]
    check_enrolment(server.study, server.scope, enrolment, 0)
    plain = secrets.open_reply(server.scope, server.key, enrolment[1], secrets.sha256(request), found["body"])
    return wire.decode(plain, wire.KINDS[kind][2])


def begin(server: Server, here: Sequence[str], not_after: int) -> None:
    """Enrol those who are here; then one holder of each role draws its key for the others."""
    for name in here:
        asked(server, name, "enrol", {}, not_after=not_after)
    for role in range(server.study.colluders + 1):
        drawer, *others = [name for name in here if server.study.role.get(name) == role]
        drawn = asked(server, drawer, "draw", {"members": [server.enrolled[name] for name in others]})
        server.role_keys.append([drawer, server.enrolled[drawer][1], drawn["public"], drawn["signature"]])
        server.sealed |= {drawer: b"", **drawn["sealed"]}


def uploads(server: Server, ask: bytes) -> list[wire.Found]:
    """Of all owners in whole groups; they are the list."""
    names = sorted(one for names in server.study.group.values() if {*names} <= {*server.enrolled} for one in names)
    found = {name: asked(server, name, "upload", {"role_keys": server.role_keys}, ask=ask) for name in names}
    server.lists[ask] = [[*server.enrolled[name], one["nonce"]] for name, one in found.items()]
    return [*found.values()]


def answer_of(server: Server, ask: bytes, name: str, e: bytes = b"", rows: Sequence[int] = (0, 1)) -> Any:
    """What one holder replies."""
    entries, key = wire.encode(server.lists[ask]), server.role_keys[server.study.role[name]]
    own = {"role_key": key, "sealed": server.sealed[name], "rows": rows, "entries": entries}
    return asked(server, name, "answer", own, ask=ask, list=secrets.sha256(entries), e=e)


def total(server: Server, ask: bytes, holders: Sequence[str]) -> list[int]:
    """The sum of the vector: of all uploads, less the sums of pads by one holder of each role."""
    layout = server.study.layout[ask]
    rows = [from_bytes(layout.bits, one["numbers"]) for one in uploads(server, ask)]
    words = [sum(column) for column in zip(*rows, strict=True)]
    found, server.matrices[ask] = words[: spans(layout)[0]], words[spans(layout)[0] :]
    for name in holders:
        found = add(found, from_bytes(layout.bits, answer_of(server, ask, name)["numbers"]), -1)
    numbers = numbers_of(layout, found)
    assert all(abs(v) <= layout.limit for v in numbers), "a sum beyond its limit is wrong, and is not used"
    return numbers


def product_with(server: Server, ask: bytes, e: Matrix, holders: Sequence[str]) -> list[int]:
    """The sum of the matrix times e, row by row: of the uploads, less what one holder of each role replies."""
    layout = server.study.layout[ask]
    data, rows = to_bytes(layout.bits, [v for row in e for v in row]), (0, -(-layout.size // TILE))
    found = product(layout, server.matrices[ask], e, *rows)
    for name in holders:
        found = add(found, from_bytes(layout.bits, answer_of(server, ask, name, data, rows)["numbers"]), -1)
    return numbers_of(layout, found)


def certified(server: Server, ask: bytes, holders: Sequence[Sequence[str]], by: Sequence[str]) -> list[wire.Found]:
    """What those ``by`` whom the total was computed reply; ``holders``: z + 1 or more of each role."""
    signed, sums = [[one["numbers"], one["signature"]] for one in uploads(server, ask)], []
    for key, names in zip(server.role_keys, holders, strict=True):
        found = {name: answer_of(server, ask, name) for name in names}
        assert len({one["numbers"] for one in found.values()}) == 1, "holders of a role reply the same"
        sums.append([key, found[names[0]]["numbers"], [[name, one["signature"]] for name, one in found.items()]])
    entries = wire.encode(server.lists[ask])
    own = {"entries": entries, "uploads": signed, "sums": sums}
    return [asked(server, name, "certify", own, ask=ask, list=secrets.sha256(entries)) for name in by]


def check_certified(study: Study, ask: bytes, entries: bytes, data: bytes, signatures: dict[str, bytes]) -> None:
    """What whoever acts upon a total checks: z + 1 of the roster have computed it."""
    text = ("total", secrets.label_of(study.digest, ask), secrets.sha256(entries), secrets.sha256(data))
    assert all(secrets.is_signed(study.key[name], signature, *text) for name, signature in signatures.items()), "list"
    assert len(signatures) > study.colluders, "list"


def close(server: Server) -> None:
    """End the generation at all who took part; they learn who was in which sum."""
    record = sorted([secrets.sha256(ask), [name for name, *_ in entries]] for ask, entries in server.lists.items())
    for name in server.enrolled:
        asked(server, name, "close", {}, record=record)

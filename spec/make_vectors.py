"""The test vectors: ``python -m spec.make_vectors`` writes them to spec/vectors, one JSON file per part.

Every implementation must make the outputs of its inputs byte for byte. Bytes are hexadecimal, whole numbers that may
pass 2^53 are decimal texts. What is drawn once follows from a label: the first 32 bytes of SHAKE-256 of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spec import device, numbers, secrets, server, study, wire
from spec.numbers import Layout

FOLDER = Path(__file__).parent / "vectors"
NOW, ENDS, GENERATION = 1_800_000_000, 1_800_086_400, 5
Case = dict[str, Any]


def drawn(label: str) -> bytes:
    """Bytes that follow from a label."""
    return hashlib.shake_256(label.encode()).digest(32)


def texts(of: list[int]) -> list[str]:
    """As they stand in the files."""
    return [str(one) for one in of]


# -- numbers, keys, pads, roles


def as_texts(layout: Layout) -> Case:
    """A layout; what may pass 2^53 as texts."""
    return {**asdict(layout), "limit": str(layout.limit), "room": str(layout.room)}


def pattern(i: int, j: int) -> int:
    """The matrices of the vectors: symmetric, of both signs."""
    return (7 * min(i, j) + 13 * max(i, j)) % 101 - 50


def layouts() -> list[Case]:
    """A layout, a vector and a matrix: the words of an upload, and a product; of much the SHA-256."""
    cases = []
    for bits, words, size, tall in ((32, 1, 0, 1), (48, 1, 3, 1), (64, 1, 5, 1), (64, 2, 4, 2**50), (48, 1, 300, 1)):
        layout = Layout(bits, words, 4, 2**20 * tall, size, 2 if size else 0, 2**20)
        vector = [0, 1, -1 * tall, -(2**20) * tall]
        matrix = [[tall * pattern(i, j) for j in range(size)] for i in range(size)]
        e = [[(i + 3 * c) % 11 - 5 for c in range(layout.columns)] for i in range(size)]
        rows = (1, 2) if size > 256 else (0, 1)
        data = numbers.words_of(layout, vector, matrix)
        made = numbers.product(layout, data[numbers.spans(layout)[0] :], e, *rows) if size else []
        case: Case = {"layout": as_texts(layout), "vector": texts(vector), "factor": str(tall), "rows": rows, "e": e}
        for name, found in (("words", data), ("product", made)):
            raw = numbers.to_bytes(bits, found)
            case |= {name: raw.hex()} if len(raw) < 2000 else {f"{name}_sha256": hashlib.sha256(raw).hexdigest()}
        cases.append(case)
    return cases


def keys() -> list[Case]:
    """Everything that is derived between an owner and a holder that has drawn the key of role 1."""
    scope, root, other = (drawn("study"), GENERATION), drawn("root a"), drawn("root b")
    a, b = secrets.derive(root, "device key", *scope), secrets.derive(other, "role key", *scope, 1)
    holder = secrets.derive(other, "device key", *scope)
    label = secrets.label_of(scope[0], b"ask")
    nonce = secrets.keyed_hash(scope, root, "nonce", label, b"words")
    owner = (scope[0], "clinic-é", secrets.public_of(a))
    pad_key = secrets.pad_key(secrets.shared(a, secrets.public_of(b)), 1, owner, secrets.public_of(b), label, nonce)
    to = secrets.public_of(drawn("server key"))
    tag = secrets.keyed_hash(scope, root, "reply", drawn("request"), b"reply")
    drawer = secrets.public_of(holder)
    seal = secrets.role_seal(scope, secrets.shared(holder, owner[2]), 1, drawer, owner[2], secrets.public_of(b))
    found = {
        "packed": secrets.pack("abc", b"", 7),
        "identity": secrets.identity_of(drawn("a")),
        "signature": secrets.sign(drawn("a"), "enrolment", *scope, ENDS, owner[2]),
        "device_key": a,
        "device_public": owner[2],
        "role_key": b,
        "role_public": secrets.public_of(b),
        "label": label,
        "nonce": nonce,
        "pad_key": pad_key,
        "sealed_role_key": seal.encrypt(bytes(12), b, None),
        "sealed_reply": secrets.seal_reply(scope, a, to, drawn("request"), tag, b"reply"),
    }
    given: Case = {"study": scope[0].hex(), "generation": GENERATION, "role": 1, "name": owner[1], "not_after": ENDS}
    given |= {"ask": b"ask".hex(), "plain": b"words".hex(), "reply": b"reply".hex()}
    drawn_here = {"root": root, "drawer_root": other, "secret": drawn("a"), "server_key": drawn("server key")}
    drawn_here["request"] = drawn("request")
    return [{**given, **{name: one.hex() for name, one in {**drawn_here, **found}.items()}}]


def pads() -> list[Case]:
    """Parts of pads, from within blocks too."""
    places = ((32, 0, 5), (48, 0, 12), (48, 9, 12), (64, 7, 2), (64, 2**20 + 3, 2))
    return [
        {
            **{"key": drawn("pad").hex(), "bits": bits, "first": first, "count": count},
            "words": numbers.to_bytes(bits, secrets.pad(drawn("pad"), bits, first, count)).hex(),
        }
        for bits, first, count in places
    ]


def rosters() -> list[Case]:
    """Who holds which role."""
    cases = []
    for groups, key_only, z, holders in (
        ({2: ["b", "a", "c"], 0: ["e", "d", "é", "z"]}, ["k", "K"], 1, None),
        ({0: ["b", "a", "c", "d"]}, [], 2, None),
        ({0: ["a", "b"], 1: ["c", "d"]}, ["k"], 0, 3),
    ):
        names = [*(name for group in groups.values() for name in group), *key_only]
        here = study.Study(b"", b"", dict.fromkeys(names, b""), groups, z, 2, holders, {}, {}, {})
        cases.append({"group": groups, "key_only": key_only, "colluders": z, "holders": holders, "roles": here.role})
    return cases


# -- a device, request by request

GROUPS = {0: ["a", "b", "c", "d"], 1: ["e", "f", "é"]}
ROSTER = ["a", "b", "c", "d", "e", "f", "é", "k", "l"]
LAYOUTS = {
    b"counts": Layout(32, 1, 3, 1000, certified=True),
    b"sums": Layout(64, 2, 3, 2**80),
    b"gram": Layout(48, 1, 2, 1000, 5, 2, 2**12),
    b"fixed": Layout(32, 1, 1, 1000),
    b"more": Layout(32, 1, 1, 1000),
    b"words": Layout(64, 1, 2, 2**63, certified=True),  # that may be anything: none is beyond the limit
}
CONTENT = b"what the ask named words needs"
E = [[1, 0], [-4089, 3], [0, 0], [5, 2**11], [-1, -1]]  # the sum of sizes in the first column is 2^12
OTHER_E = [[0, 1]] * 5


def study_of() -> study.Study:
    """Two groups, two without rows, of whom one holds no role; z = 1."""
    key = {name: secrets.identity_of(drawn(name)) for name in ROSTER}
    return study.Study(
        *(drawn("study"), secrets.identity_of(drawn("server")), key, GROUPS, 1, 4, 8, LAYOUTS, {b"fixed": {0}}),
        {b"words": {secrets.sha256(CONTENT)}},
    )


def rows_of(name: str, ask: bytes) -> tuple[list[int], list[list[int]]]:
    """What a device adds up."""
    layout, factor = LAYOUTS[ask], ROSTER.index(name) - 4
    large = {2**80: 2**70, 2**63: 2**61}.get(layout.limit, 1)
    vector = [factor * (i + 1) * large for i in range(layout.length)]
    return vector, [[factor * pattern(i, j) for j in range(layout.size)] for i in range(layout.size)]


class Recorded:
    """A device whose requests and replies are kept."""

    def __init__(self, name: str) -> None:
        self.name, self.now, self.steps, self.roots = name, NOW, list[Case](), list[str]()
        self.rows = {ask: rows_of(name, ask) for ask in LAYOUTS if any(name in group for group in GROUPS.values())}
        words = {ask: numbers.words_of(LAYOUTS[ask], *rows) for ask, rows in self.rows.items()}
        memory = device.Memory(arguments=5, directions=2)
        self.device = device.Device(name, drawn(name), study_of(), words, memory, lambda: self.now, self.root)

    def root(self, _: int) -> bytes:
        """Drawn by number."""
        found = drawn(f"root {self.name} {len(self.roots)}")
        self.roots.append(found.hex())
        return found

    def send(self, request: bytes, what: str = "") -> bytes:
        """One step."""
        reply = device.reply(self.device, request)
        found, what = wire.decode(reply, wire.REPLY), what or wire.decode(request, wire.REQUEST)["kind"]
        step = {"what": what, "now": self.now, "receives": request.hex(), "kind": found["kind"], "code": found["code"]}
        self.steps.append({**step, "sends": reply.hex()})
        return reply

    def refuses(self, what: str, kind: str, signed_by: str = "server", **changes: Any) -> None:
        """The newest request of a kind, with other values in it."""
        last = next(step for step in reversed(self.steps) if step["what"] == kind)
        _, common, own = wire.read_request(bytes.fromhex(last["receives"]))
        common |= {name: value for name, value in changes.items() if name in common}
        own |= {name: value for name, value in changes.items() if name in own}
        if "entries" in changes and "list" not in changes:
            common["list"] = secrets.sha256(own["entries"])
        self.send(wire.request(drawn(signed_by), kind, common, own), what)

    def case(self) -> Case:
        """As it stands in the file."""
        rows = {
            ask.hex(): {"vector": texts(vector), "matrix": [texts(row) for row in matrix]}
            for ask, (vector, matrix) in self.rows.items()
        }
        given = {"name": self.name, "secret": drawn(self.name).hex(), "roots": self.roots, "rows": rows}
        return {**given, "arguments": 5, "directions": 2, "study": as_json(study_of()), "steps": self.steps}


def as_json(here: study.Study) -> Case:
    """A study, as it was approved by all."""
    found = {name: value for name, value in vars(here).items() if name not in ("owners", "role")}
    found |= {"digest": here.digest.hex(), "server": here.server.hex()}
    found |= {"key": {name: key.hex() for name, key in here.key.items()}}
    found |= {"layout": {ask.hex(): as_texts(layout) for ask, layout in here.layout.items()}}
    found |= {"needs": {ask.hex(): [one.hex() for one in sorted(of)] for ask, of in here.needs.items()}}
    return {**found, "fixed": {ask.hex(): sorted(groups) for ask, groups in here.fixed.items()}}


def exchange() -> list[Case]:
    """Devices of one study, request by request: one draws, one does not, one has no rows, one has no role."""
    devices, here = {name: Recorded(name) for name in ROSTER}, study_of()
    asking = server.Server(
        here, drawn("server"), (here.digest, GENERATION), drawn("server key"), lambda to, data: devices[to].send(data)
    )
    before(devices["a"], asking)
    server.begin(asking, ROSTER, ENDS)
    server.total(asking, b"sums", "ab")
    server.total(asking, b"sums", "cd")
    server.total(asking, b"gram", "kb")
    for e in (E, E, OTHER_E):
        server.product_with(asking, b"gram", e, "ab")
        server.product_with(asking, b"gram", e, "cd")
    server.certified(asking, b"counts", ["ac", "bd"], "acl")
    never_put(devices["a"], asking)
    asking.contents[secrets.sha256(CONTENT).hex()] = CONTENT
    server.certified(asking, b"words", ["ac", "bd"], "acl")
    put_too_often(devices["a"])
    refused_by_all(devices["a"])
    refused_by_owners(devices["a"], asking)
    refused_by_holders(devices["c"], asking)
    refused_when_certified(devices["a"])
    refused_without_role(devices["l"], asking)
    server.close(asking)
    after(devices)
    return [devices[name].case() for name in ("a", "c", "k", "l")]


def ids(asking: server.Server) -> Case:
    """What is common to all requests."""
    return {"study": asking.scope[0], "generation": asking.scope[1], "server": secrets.public_of(asking.key)}


def before(one: Recorded, asking: server.Server) -> None:
    """Nothing is begun by what is refused."""
    one.send(drawn("noise"), "no MessagePack")
    enrol = {**ids(asking), "not_after": ENDS}
    one.send(wire.request(drawn("somebody"), "enrol", enrol, {}), "not signed by the server")
    one.send(
        wire.request(drawn("server"), "draw", ids(asking), {"members": []}), "a generation without enrolling in it"
    )
    for what, ends in (("over before it begins", NOW), ("longer than 60 days", NOW + 60 * 24 * 3600 + 1)):
        one.send(wire.request(drawn("server"), "enrol", {**enrol, "not_after": ends}, {}), what)


def never_put(one: Recorded, asking: server.Server) -> None:
    """What an ask needs and is not there, whatever else is."""
    for content in (b"", CONTENT[:-1]):
        one.send(wire.request(drawn("server"), "put", ids(asking), {"content": content}), "a content that nobody needs")
        one.refuses("a content that is missing", "upload", ask=b"words")


def put_too_often(one: Recorded) -> None:
    """Eight are kept; what is missing is put again, and the reply is as it was."""
    for number in range(8):
        one.refuses("a content more", "put", content=b"%d" % number)
    for kind in ("upload", "answer", "certify"):
        one.refuses("a content that was put out", kind, ask=b"words")
    one.refuses("the content again", "put", content=CONTENT)
    for number in (*range(8, 15), None, 15):
        content, what = (CONTENT, "what is there is no newer") if number is None else (b"%d" % number, "a content more")
        one.refuses(what, "put", content=content)
    one.refuses("a content that was put out", "upload", ask=b"words")
    one.refuses("the content again", "put", content=CONTENT)
    one.refuses("the upload again", "upload")


def refused_by_all(one: Recorded) -> None:
    """Whatever is asked for."""
    good = bytes.fromhex(one.steps[-1]["receives"])
    fields, common, own = wire.read_request(good)
    one.send(good + b"\0", "something left over")
    one.send(good[:-1], "something missing")
    one.send(wire.encode({**fields, "kind": "open"}), "an unknown kind")
    one.send(wire.encode({**fields, "more": 1}), "an unknown field")
    name, shortest = wire.encode("generation"), wire.encode(GENERATION)
    plain = wire.encode(common)

    def spelled(what: str, text: bytes) -> None:
        signature = secrets.sign(drawn("server"), "request", fields["kind"], secrets.sha256(text))
        one.send(wire.encode({**fields, "common": text, "signature": signature}), what)

    for first, width in ((0xCC, 1), (0xCF, 8), (0xD0, 1), (0xD3, 8)):
        longer = bytes([first]) + GENERATION.to_bytes(width, "big")
        spelled("a number in more bytes than it takes", plain.replace(name + shortest, name + longer))
    spelled("a key twice, of which the last counts", bytes([plain[0] + 1]) + name + wire.encode(0) + plain[1:])
    spelled("a key that is no text", plain.replace(name, bytes([0xC4, len("generation")]) + name[1:]))
    spelled("a key that is not UTF-8", plain.replace(name, name[:-1] + b"\xff"))
    one.send(wire.encode({name: value for name, value in fields.items() if name != "own"}), "a field missing")
    for what, changes in (("a number that is none", {"generation": 5.0}), ("a negative number", {"generation": -1})):
        one.send(wire.request(drawn("server"), fields["kind"], {**common, **changes}, own), what)
    one.send(wire.request(drawn("server"), fields["kind"], {**common, "server": bytes(31)}, own), "a short key")
    one.send(
        wire.request(drawn("server"), fields["kind"], {**common, "server": bytes(32)}, own), "a key of small order"
    )
    one.refuses("another study", "enrol", study=drawn("other study"))
    one.refuses("not signed by the server", "enrol", "somebody")
    one.send(wire.encode({**fields, "signature": fields["signature"][::-1]}), "a spoiled signature")
    one.refuses("an older generation", "upload", generation=GENERATION - 1)
    one.refuses("a newer generation, without enrolling", "upload", generation=GENERATION + 1)
    one.refuses("this generation with another end", "enrol", not_after=ENDS + 1)


def refused_by_owners(one: Recorded, asking: server.Server) -> None:
    """Draws and uploads."""
    member = asking.enrolled["c"]
    one.refuses("a co-holder of another role", "draw", members=[asking.enrolled["b"]])
    one.refuses("a co-holder with another key", "draw", members=[[member[0], drawn("key"), *member[2:]]])
    one.refuses("a co-holder for another time", "draw", members=[[*member[:2], member[2] + 1, member[3]]])
    first, second = asking.role_keys
    one.refuses("an ask that does not follow from the study", "upload", ask=b"other")
    one.refuses("one role key", "upload", role_keys=[first])
    one.refuses("role keys in another order", "upload", role_keys=[second, first])
    one.refuses("a role key twice", "upload", role_keys=[first, first])
    one.refuses("a role key that nobody signed", "upload", role_keys=[first, [*second[:2], drawn("B"), second[3]]])
    one.refuses("a role key by somebody without a role", "upload", role_keys=[first, ["l", *second[1:]]])
    low = [*first[:2], bytes(32), secrets.sign(drawn("a"), "role key", *asking.scope, 0, bytes(32))]
    one.refuses("a role key of small order", "upload", role_keys=[low, second])
    one.send(bytes.fromhex(next(s for s in one.steps if s["what"] == "upload")["receives"]), "the first upload again")
    server.uploads(asking, b"fixed")
    one.refuses("one argument more than the study allows", "upload", ask=b"more")


def refused_by_holders(one: Recorded, asking: server.Server) -> None:
    """Sums of pads."""
    entries, key = asking.lists[b"sums"], asking.role_keys[0]

    def listed(what: str, found: list[Any], **changes: Any) -> None:
        one.refuses(what, "answer", **{"ask": b"sums", "e": b"", "entries": wire.encode(found), **changes})

    listed("an empty list, sent along", [])
    listed("half a group", entries[1:])
    listed("too few owners", [entry for entry in entries if entry[0] in GROUPS[1]])
    listed("not ascending", [entries[1], entries[0], *entries[2:]])
    listed("an owner twice", [entries[0], *entries])
    listed("somebody without rows", [*entries, [*asking.enrolled["k"], bytes(16)]])
    listed("somebody who is not on the roster", [*entries, ["z", *entries[0][1:]]])
    listed("an enrolment that nobody signed", [[*entries[0][:3], entries[1][3], entries[0][4]], *entries[1:]])
    listed("a short nonce", [[*entries[0][:4], bytes(15)], *entries[1:]])
    listed("no list", [], entries=b"", list=drawn("list"))
    listed("another list than the common one", entries, list=drawn("list"))
    listed("no MessagePack as a list", [], entries=b"\xc1")
    listed("other groups than the study fixes", asking.lists[b"sums"], ask=b"fixed")
    listed("the key of another role", entries, role_key=asking.role_keys[1])
    listed("a role key that nobody signed", entries, role_key=[*key[:2], drawn("B"), key[3]])
    listed("a sealed key for somebody else", entries, sealed=asking.sealed["k"])
    listed("no sealed key", entries, sealed=b"")
    gram: Case = {"ask": b"gram", "entries": wire.encode(asking.lists[b"gram"])}
    gram["e"] = numbers.to_bytes(64, [v for row in E for v in row])
    for what, rows in (("no rows", [0, 0]), ("rows beyond the matrix", [0, 2]), ("rows backwards", [1, 0])):
        one.refuses(what, "answer", **gram, rows=rows)
    for what, e in (
        ("a column of e beyond its room", [[1, 0], [-(2**12), 3], [0, 0], [0, 0], [0, 0]]),
        ("the largest negative number", [[-(2**63), 0], *[[0, 0]] * 4]),
        ("a row of e missing", E[1:]),
        ("an e more than the study allows", [[1, 1]] * 5),
    ):
        one.refuses(what, "answer", **{**gram, "e": numbers.to_bytes(64, [v for row in e for v in row])})
    one.refuses("an e of no matrix", "answer", ask=b"sums", e=bytes(8), entries=wire.encode(entries))


def refused_when_certified(one: Recorded) -> None:
    """Totals that somebody else would have to believe."""
    last = next(step for step in reversed(one.steps) if step["what"] == "certify")
    own = wire.read_request(bytes.fromhex(last["receives"]))[2]
    uploads, (first, second) = own["uploads"], own["sums"]
    spoiled = [[bytes([uploads[0][0][0] ^ 1]) + uploads[0][0][1:], uploads[0][1]], *uploads[1:]]
    one.refuses("an upload that its owner has not signed", "certify", uploads=spoiled)
    one.refuses("an upload left out", "certify", uploads=uploads[1:])
    one.refuses("uploads in another order", "certify", uploads=[uploads[1], uploads[0], *uploads[2:]])
    one.refuses("a role's sum left out", "certify", sums=[first])
    one.refuses("too few signatures of a role's sum", "certify", sums=[first, [*second[:2], second[2][:1]]])
    one.refuses("a signature twice", "certify", sums=[first, [*second[:2], second[2][:1] * 2]])
    one.refuses("signatures by another role", "certify", sums=[first, [*second[:2], first[2]]])
    one.refuses("another sum than was signed", "certify", sums=[first, [second[0], bytes(12), second[2]]])
    one.refuses("a statistic that is not certified", "certify", ask=b"sums")
    one.refuses("a statistic that is not certified, over nobody", "certify", ask=b"sums", entries=wire.encode([]))


def refused_without_role(one: Recorded, asking: server.Server) -> None:
    """A device that helps with nothing but certified totals."""
    scope, secret = ids(asking), drawn("server")
    one.send(wire.request(secret, "draw", scope, {"members": []}), "a role key of who holds none")
    for ask, what in ((b"sums", "rows of who has none"), (b"other", "rows of who has none, and no ask of the study")):
        one.send(wire.request(secret, "upload", {**scope, "ask": ask}, {"role_keys": asking.role_keys}), what)
    common = {**scope, "ask": b"sums", "list": drawn("list"), "e": b""}
    own = {"role_key": asking.role_keys[0], "sealed": b"", "rows": [0, 1], "entries": b""}
    one.send(wire.request(secret, "answer", common, own), "an answer of who holds no role")
    other = wire.request(secret, "answer", {**common, "ask": b"other"}, own)
    one.send(other, "an answer of who holds no role, and no ask of the study")


def after(devices: dict[str, Recorded]) -> None:
    """A generation that was closed stays closed; the next one has other keys, and ends by itself."""
    one = devices["a"]
    one.refuses("close", "close")
    one.refuses("an upload after the end", "upload")
    one.refuses("enrolling again after the end", "enrol")
    one.refuses("enrol", "enrol", generation=GENERATION + 1)
    one.refuses("draw", "draw", generation=GENERATION + 1, members=[])
    one.refuses("the older generation's close", "close")
    one.now = ENDS
    one.refuses("a draw when time is up", "draw", generation=GENERATION + 1, members=[])
    one.refuses("enrol", "enrol", generation=GENERATION + 2, not_after=ENDS + 1)
    member = wire.decode(bytes.fromhex(devices["c"].steps[0]["sends"]), wire.REPLY)["enrolment"]
    one.refuses("a co-holder whose time is up", "draw", generation=GENERATION + 2, members=[member])


PARTS: dict[str, Callable[[], list[Case]]] = {
    "layouts": layouts,
    "keys": keys,
    "pads": pads,
    "rosters": rosters,
    "exchange": exchange,
}


def made(part: str) -> str:
    """The file of a part."""
    what = (PARTS[part].__doc__ or "").partition("\n")[0]
    return json.dumps({"protocol": 4, "part": part, "what": what, "cases": PARTS[part]()}, indent=1) + "\n"


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for part in PARTS:
        (FOLDER / f"{part}.json").write_text(made(part), encoding="utf-8")


if __name__ == "__main__":
    main()

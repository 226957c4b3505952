"""The test vectors: ``python -m spec.make_vectors`` writes them to spec/vectors, one JSON file per part.

Every implementation must make the outputs of its inputs byte for byte. Bytes are hexadecimal, ring numbers are decimal
texts (they pass 2^53), secrets are SHAKE-256 of their labels.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import astuple, replace
from math import prod
from pathlib import Path
from typing import Any

from spec import coded_padded, fixed_point, numbers, parties, role_keys, secrets, wire
from spec.numbers import Pair

FOLDER = Path(__file__).parent / "vectors"
RUN, PRIMES = bytes(range(16)), numbers.primes_for(5)
Case = dict[str, Any]
RowsByName = dict[str, tuple[fixed_point.Reals, fixed_point.Reals]]  # X and Y; or none, and whole numbers


def drawn(label: str, count: int = 32) -> bytes:
    """Bytes that follow from a label."""
    return hashlib.shake_256(label.encode()).digest(count)


def packing() -> list[Case]:
    """Ring numbers, positive and negative, with two and three primes."""
    cases = []
    for count in (2, 3):
        primes = numbers.primes_for(5, count)
        values = [0, 1, -1, 2**23, -(2**40), prod(primes) // 2]
        cases.append(
            {"primes": list(primes), "numbers": list(map(str, values)), "packed": numbers.pack(values, primes).hex()}
        )
    return cases


def gradient_code() -> list[Case]:
    """Row 0 of B, and the decoding vector of some survivors, for D = 5."""
    survivors = [4, 0, 2]
    return [
        {
            "primes": list(PRIMES),
            "devices": 5,
            "alpha": 3,
            "row": list(map(str, coded_padded.code_row(5, 3, PRIMES))),
            "survivors": survivors,
            "decoding": list(map(str, coded_padded.decoding_vector(survivors, 5, 3, PRIMES))),
        }
    ]


def rounding() -> list[Case]:
    """A device's X'X and constant part, and an update, on grids that follow from public bounds."""
    X = [[0.5, -0.25, 0.1], [1.0, 0.3, -1.0], [-0.7, 0.0, 2**-30]]
    Y = [[1.0, 0.0], [0.0, 1.0], [0.1, -0.9]]
    e = [[0.25, -3.5], [1e-9, 2.0], [0.1, 1e-3]]
    cases = []
    for bounds in ((1.0, 1.0, 100, 10), (3.5, 1.0, 60000, 2400), (1.0, 2.0, 10**7, 10**6)):
        parameters = fixed_point.Parameters("role-keys", 1, 3, 2, *bounds)
        scales, places = fixed_point.scales(parameters, owners=5), numbers.entries(3, 1, [0])[0, 0]
        gram, constant = fixed_point.statistics(parameters, scales, X, Y, places)
        update, bits = fixed_point.rounded_update(scales, e)
        cases.append(
            {
                "bounds": list(bounds),
                "owners": 5,
                "X": X,
                "Y": Y,
                "fraction_bits": [scales.feature_bits, scales.label_bits, scales.gram_bits, scales.constant_bits],
                "limits": [prod(scales.primes) // 8, scales.gram_limit, scales.cross_limit],
                "gram": gram,
                "constant": constant,
                "e": e,
                "update": update,
                "update_bits": bits,
            }
        )
    return cases


def row_blocks() -> list[Case]:
    """The entries (row, column) of a triangle in the order in which they travel, for d rows in blocks."""
    shapes = ((4, 1), (5, 2), (7, 3))
    return [
        {"d": d, "blocks": k, "entries": [place for one in numbers.entries(d, k, range(k)).values() for place in one]}
        for d, k in shapes
    ]


def pads() -> list[Case]:
    """The first numbers of a pad, and of a piece for a pair of row blocks; of one longer than a segment the digest."""
    seed = drawn("a seed")
    short, piece = (secrets.pad(seed, "gram", 5, PRIMES, pair) for pair in ((0, 0), (1, 2)))
    long = secrets.pad(seed, "constant", secrets.SEGMENT + 3, PRIMES)
    common = {"seed": seed.hex(), "primes": list(PRIMES)}
    return [
        {**common, "label": "gram", "count": 5, "packed": numbers.pack(short, PRIMES).hex()},
        {**common, "label": "gram", "pair": [1, 2], "count": 5, "packed": numbers.pack(piece, PRIMES).hex()},
        {
            **common,
            "label": "constant",
            "count": len(long),
            "sha256": secrets.sha256(numbers.pack(long, PRIMES)).hex(),
        },
    ]


def sealing() -> list[Case]:
    """An envelope between two run keys, and a bulk under a content key."""
    ours, theirs = drawn("sender"), drawn("receiver")
    context, plaintext, fresh, key = b"a context", b"a plaintext", drawn("fresh"), drawn("content key")
    sealed = secrets.seal(ours, secrets.public_of(theirs), context, plaintext, fresh)
    bulk = drawn("bulk", secrets.CHUNK + 5)
    encrypted = secrets.encrypt_bulk(key, context, bulk)
    return [
        {
            "sender": ours.hex(),
            "receiver": theirs.hex(),
            "fresh": fresh.hex(),
            "context": context.hex(),
            "plaintext": plaintext.hex(),
            "sealed": sealed.hex(),
        },
        {
            "content_key": key.hex(),
            "context": context.hex(),
            "shake256": "bulk",
            "length": len(bulk),
            "sha256": secrets.sha256(encrypted).hex(),
        },
    ]


def agreement(parameters: fixed_point.Parameters, cells: dict[str, Pair], helpers: str, purposes: list[str]) -> Case:
    """What these devices, by name with role and block, agree on."""
    invited = wire.invitation(secrets.identity_of(drawn("server")), secrets.public_of(drawn("server key")), parameters)
    members = []
    for name in cells:
        identity, run_key = secrets.identity_of(drawn(name)), secrets.public_of(drawn(f"key {name}"))
        signature = secrets.sign(drawn(name), wire.join_statement(RUN, invited, name, run_key))
        members.append(wire.Member(name, identity, run_key, signature))
    seats = wire.seated(members, RUN)
    has_roles = parameters.scheme == "role-keys"
    roles, blocks = ([cells[one.name][i] for one in seats if has_roles] for i in (0, 1))
    without_rows = [seat for seat, one in enumerate(seats) if one.name in helpers]
    agreed = wire.Agreement(RUN, invited, seats, b"", roles, without_rows, blocks)
    seeds = {purpose: drawn(purpose) for purpose in purposes}
    commitments = wire.committed(seeds, agreed, "a", drawn("a"))
    message = wire.Message("invitation", RUN, b"", "", "", invited)
    return {
        "run": RUN.hex(),
        "secrets": "shake256 of server, server key, a, key a, ...",
        "parameters": wire.packed(*astuple(parameters)).hex(),
        "invitation": wire.encode(wire.signed(message, drawn("server"))).hex(),
        "seats": agreed.names,
        "roles": agreed.roles,
        "helpers": agreed.helpers,
        "blocks": agreed.blocks,
        "agreement": agreed.encoded.hex(),
        "hash": agreed.hash.hex(),
        "seeds": {purpose: seed.hex() for purpose, seed in seeds.items()},
        "commitments": wire.packed(*commitments).hex(),
    }


def agreements() -> list[Case]:
    """Devices join one invitation: parameters, statements, seats, the agreement and its hash; commitments.

    Of coded-padded, then of role keys in two blocks of rows, with a reserve that is a helper, and a device of no role.
    """
    bounds = (1.0, 1.0, 100, 30)
    coded = fixed_point.Parameters("coded-padded", 3, 4, 2, *bounds, epochs=6, recipe=drawn("recipe"))
    by_roles = fixed_point.Parameters("role-keys", 1, 4, 2, *bounds, epochs=6, recipe=drawn("recipe"), colluders=1)
    cells = {"a": (0, 0), "b": (1, 0), "c": (0, 1), "d": (1, 1), "e": (0, -1), "f": (-1, -1)}
    return [
        agreement(coded, dict.fromkeys("abcde", (-1, -1)), "", ["mask", "pad"]),
        agreement(by_roles, cells, "e", ["role-0", "role-1"]),
    ]


class TwoProducts:
    """A solver that asks for two products, and notes all totals."""

    def __init__(self) -> None:
        self.totals: list[list[float]] = []

    def __call__(self, e: fixed_point.Reals, total: list[float]) -> fixed_point.Reals | None:
        """After G^(1) and the number of rows twice the same numbers, at other places."""
        self.totals.append(total if e else [*total[:-1], int(total[-1])])
        return {1: [[0.5], [-0.25], [1.0]], 2: [[1.0], [0.5], [-0.25]]}.get(len(self.totals))


class WholeTotal:
    """Of whole numbers there is one total, and no question."""

    def __init__(self) -> None:
        self.totals: list[list[str]] = []

    def __call__(self, e: fixed_point.Reals, total: list[float]) -> None:
        """As texts: they may pass 2^53."""
        del e
        self.totals.append([str(int(one)) for one in total])


def draws(label: str) -> Callable[[int], bytes]:
    """A source of secrets: the n-th is SHAKE-256 of the label and n."""
    numbered = itertools.count()
    return lambda length: drawn(f"{label} {next(numbered)}", length)


def run_of(
    terms: fixed_point.Parameters,
    data: RowsByName,
    blocks: dict[str, int],
    solver: TwoProducts | WholeTotal,
    shown: str,
) -> list[Case]:
    """A run of role keys with these rows: what the devices that are shown receive and send."""
    names, public = list(data), secrets.identity_of(drawn("server"))
    roster = {name: secrets.identity_of(drawn(name)) for name in names}
    seen: dict[str, list[Case]] = {name: [] for name in names}

    def line(name: str) -> parties.Send:
        device = parties.Device(
            name, drawn(name), public, terms, roster, [frozenset(names)], 3, *data[name], draws(name)
        )

        def send(message: bytes) -> list[bytes]:
            replies = role_keys.receive(device, message)
            seen[name].append({"receives": message.hex(), "sends": [reply.hex() for reply in replies]})
            return replies

        return send

    server = parties.Server(drawn("server"), {name: line(name) for name in names}, draws("server"))
    role_keys.run(server, terms, solver, {name: i % 2 for i, name in enumerate(names)}, blocks)
    parameters = wire.packed(*astuple(terms)).hex()
    common = {"server": public.hex(), "parameters": parameters, "pods": [names], "totals": solver.totals}
    found = []
    for name in shown:
        X, Y = data[name]
        brought = {"X": X, "Y": Y} if X else {"numbers": [str(one) for one in Y[0]]}
        found.append({"name": name, **common, **brought, "messages": seen[name]})
    return found


def exchange() -> list[Case]:
    """Devices through a run of role keys: all messages to them and from them; the totals.

    Two co-holders in two blocks of rows, then one of whole numbers, and one of whole numbers that take three primes.
    The n-th secret of a device is SHAKE-256 of "NAME n" (32 bytes), its long-term secret that of "NAME".
    """
    terms = fixed_point.Parameters(
        "role-keys", 1, 3, 1, 1.0, 1.0, 100, 10, epochs=3, recipe=drawn("recipe"), colluders=1
    )
    rows: RowsByName = {
        name: ([[i / 8, 0.1, -0.5], [0.3, -i / 8, 1.0]], [[0.5], [-i / 8]]) for i, name in enumerate("abcd")
    }
    found = run_of(terms, rows, {"a": 0, "b": 0, "c": 1, "d": 1}, TwoProducts(), "ac")
    for unit, limit in ((100, 10**6), (2**55 + 2**10, 2**60)):
        total = replace(terms, d=1, outputs=3, epochs=1, total_limit=limit.to_bytes(9))
        numbers: RowsByName = {name: ([], [[i * unit, 0, -i - 1]]) for i, name in enumerate("abcd")}
        found += run_of(total, numbers, {}, WholeTotal(), "c")
    return found


def as_letter(data: bytes) -> list[bytes]:
    """[head, bulk]: a message that travels without its attachment, and that beside it."""
    found = wire.decode(data)
    return [wire.encode(replace(found, attachment=b"")), found.attachment]


def broker() -> list[Case]:
    """The first device of ``exchange`` at a broker: its client id, and to each frame that comes in those that go out.

    The specification has no broker: this is the section "At a broker" of its page, done by hand.
    """
    case, study, key_file = exchange()[0], "trial", b"the file of a private key"
    name, server, no_part = case["name"], bytes.fromhex(case["server"]), "this device does not take part"
    taken = [bytes.fromhex(one["receives"]) for one in case["messages"]]
    sent = [[bytes.fromhex(reply) for reply in one["sends"]] for one in case["messages"]]
    count = len(taken) - 4  # three updates and the end are no letters
    run, letters = wire.decode(taken[0]).run, [as_letter(one) for one in taken[:count]]
    replies = [as_letter(reply) for one in sent[:count] for reply in one]
    frames: list[Case] = []

    def frame(what: str, comes: bytes, *leave: bytes) -> None:
        frames.append({"what": what, "receives": comes.hex(), "sends": [one.hex() for one in leave]})

    def call(what: str, body: bytes, *reply: Any) -> None:
        number = f"call-{len(frames)}"
        frame(what, wire.packed("call", number, body), wire.packed("reply", number, wire.packed(*reply)))

    def again(what: str) -> None:
        frames.append({**frames[-1], "what": what})

    def hello(version: int, key: bytes) -> bytes:
        return wire.packed("hello", version, drawn("challenge", 16), key)

    def step(first: int, last: int, confirmed: int, newest: bytes = b"", to: str = name) -> bytes:
        parcel = (first, confirmed, "", newest, letters[first:last])
        return wire.packed("step", wire.VERSION, run, to, b"an ask", *parcel)

    statement = wire.packed("codedfl introduction v3", server, drawn("challenge", 16), name)
    signature = secrets.sign(drawn(name), statement)
    call("a hello", hello(3, server), "introduction", name, secrets.identity_of(drawn(name)), signature)
    again("the same call once more")
    frame("how is it with that call?", wire.packed("nudge", "call-0"), bytes.fromhex(frames[0]["sends"][0]))
    frame("how is it with another?", wire.packed("nudge", "another"), wire.packed("unknown", "another"))
    frame("no frame", b"\x00")
    other_version = "the protocol version must be 3 on this node, got 2"
    call("another version", hello(2, server), "refused", other_version)
    call("another server", hello(3, drawn("another")), "refused", no_part)
    call("a run that is not known, from letter 2 on", step(2, 3, 0), "refused", no_part)
    call("the end of a run that is not known", step(0, 0, 0, taken[-1]), "parcel", 0, 0, "", b"", [])
    call("another device's step", step(0, 1, 0, to="b"), "refused", no_part)
    call("the invitation", step(0, 1, 0), "parcel", 0, 1, "", b"", replies[:1])
    call("it again, and the agreement", step(0, 2, 0), "parcel", 0, 2, "", b"", replies[:1])
    call("role-key-wanted; the join is confirmed", step(2, 3, 1), "parcel", 1, 3, "", b"", replies[1:2])
    call("a letter is missing", step(4, 5, 1), "parcel", 1, 3, no_part, b"", replies[1:2])
    call("more confirmed than was sent", step(3, 4, 9), "parcel", 1, 3, no_part, b"", replies[1:2])
    call("an update before its time", step(3, 3, 2, taken[count]), "parcel", 2, 3, no_part, b"", [])
    call("all other letters", step(3, count, 2), "parcel", 2, count, "", b"", replies[2:])
    for epoch, (update, (answer,)) in enumerate(zip(taken[count:-1], sent[count:-1], strict=True)):
        update_step = step(count, count, len(replies), update)
        call(f"update {epoch + 1}", update_step, "parcel", len(replies), count, "", answer, [])
    call("you cannot take part", wire.packed("dismissal", "a reason"), "refused", no_part)
    end = step(count + 1, count + 1, len(replies), taken[-1])
    call("the end, though a letter is missing", end, "parcel", len(replies), count, no_part, b"", [])
    again("the same call once more")
    call("the end in another call", end, "parcel", 0, 0, "", b"", [])
    client_id = secrets.sha256(f"codedfl client id|{name}-{study}|".encode(), key_file).hex()[:32]
    asked = {"name": name, "study": study, "key_file": key_file.hex(), "client_id": f"{name}-{study}-{client_id}"}
    given = {key: case[key] for key in ("server", "parameters", "pods", "X", "Y")}
    return [{**asked, "ask": b"an ask".hex(), **given, "frames": frames}]


PARTS = (packing, gradient_code, rounding, row_blocks, pads, sealing, agreements, exchange, broker)


def text_of(part: Any) -> str:
    """The file of one part."""
    found = {"protocol": wire.VERSION, "part": part.__name__, "what": part.__doc__, "cases": part()}
    return json.dumps(found, indent=1) + "\n"


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    for part in PARTS:
        (FOLDER / f"{part.__name__}.json").write_text(text_of(part), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The test vectors: ``python -m spec.make_vectors`` writes them to spec/vectors, one JSON file per part.

Every implementation must make the outputs of its inputs byte for byte. Bytes are hexadecimal, ring numbers are decimal
texts (they pass 2^53), secrets are SHAKE-256 of their labels.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import astuple
from math import prod
from pathlib import Path
from typing import Any

from spec import coded_padded, fixed_point, numbers, parties, role_keys, secrets, wire

FOLDER = Path(__file__).parent / "vectors"
RUN, PRIMES = bytes(range(16)), numbers.primes_for(5)
Case = dict[str, Any]


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


def agreements() -> list[Case]:
    """Five devices join one invitation: parameters, statements, seats, the agreement and its hash; commitments."""
    parameters = fixed_point.Parameters("coded-padded", 3, 4, 2, 1.0, 1.0, 100, 30, epochs=6, recipe=drawn("recipe"))
    invited = wire.invitation(secrets.identity_of(drawn("server")), secrets.public_of(drawn("server key")), parameters)
    members = []
    for name in ("a", "b", "c", "d", "e"):
        identity, run_key = secrets.identity_of(drawn(name)), secrets.public_of(drawn(f"key {name}"))
        signature = secrets.sign(drawn(name), wire.join_statement(RUN, invited, name, run_key))
        members.append(wire.Member(name, identity, run_key, signature))
    agreed = wire.Agreement(RUN, invited, wire.seated(members, RUN), b"", [], [], [])
    seeds = {"mask": drawn("mask"), "pad": drawn("pad")}
    commitments = wire.committed(seeds, agreed, "a", drawn("a"))
    message = wire.Message("invitation", RUN, b"", "", "", invited)
    return [
        {
            "run": RUN.hex(),
            "secrets": "shake256 of server, server key, a, key a, ...",
            "parameters": wire.packed(*astuple(parameters)).hex(),
            "invitation": wire.encode(wire.signed(message, drawn("server"))).hex(),
            "seats": agreed.names,
            "agreement": agreed.encoded.hex(),
            "hash": agreed.hash.hex(),
            "seeds": {purpose: seed.hex() for purpose, seed in seeds.items()},
            "commitments": wire.packed(*commitments).hex(),
        }
    ]


class TwoProducts:
    """A solver that asks for two products, and notes all totals."""

    def __init__(self) -> None:
        self.totals: list[list[float]] = []

    def __call__(self, e: fixed_point.Reals, total: list[float]) -> fixed_point.Reals | None:
        """After G^(1) and the number of rows twice the same numbers, at other places."""
        self.totals.append(total if e else [*total[:-1], int(total[-1])])
        return {1: [[0.5], [-0.25], [1.0]], 2: [[1.0], [0.5], [-0.25]]}.get(len(self.totals))


def draws(label: str) -> Callable[[int], bytes]:
    """A source of secrets: the n-th is SHAKE-256 of the label and n."""
    numbered = itertools.count()
    return lambda length: drawn(f"{label} {next(numbered)}", length)


def exchange() -> list[Case]:
    """Two co-holders through a run of role keys in two blocks of rows: all messages to them and from them; the totals.

    The n-th secret of a device is SHAKE-256 of "NAME n" (32 bytes), its long-term secret that of "NAME".
    """
    names, public = ("a", "b", "c", "d"), secrets.identity_of(drawn("server"))
    roles, blocks = {"a": 0, "b": 1, "c": 0, "d": 1}, {"a": 0, "b": 0, "c": 1, "d": 1}
    terms = fixed_point.Parameters(
        "role-keys", 1, 3, 1, 1.0, 1.0, 100, 10, epochs=3, recipe=drawn("recipe"), colluders=1
    )
    data = {name: ([[i / 8, 0.1, -0.5], [0.3, -i / 8, 1.0]], [[0.5], [-i / 8]]) for i, name in enumerate(names)}
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

    server, solver = (
        parties.Server(drawn("server"), {name: line(name) for name in names}, draws("server")),
        TwoProducts(),
    )
    role_keys.run(server, terms, solver, roles, blocks)
    common = {
        "server": public.hex(),
        "parameters": wire.packed(*astuple(terms)).hex(),
        "pods": [names],
        "totals": solver.totals,
    }
    return [
        {"name": name, **common, "X": data[name][0], "Y": data[name][1], "messages": seen[name]} for name in ("a", "c")
    ]


PARTS = (packing, gradient_code, rounding, row_blocks, pads, sealing, agreements, exchange)


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

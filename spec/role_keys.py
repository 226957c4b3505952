"""Role keys, the default: server and any z devices learn the total only; all but one holder of each role may fail.

The holders are dealt into z + 1 roles. Owner j draws a seed per role; its pad is the sum of what they expand to. It
uploads its data plus the pad once, and seals each seed to the holders of its role. A holder of role r keeps S_r, the
sum of all owners' pads of this role, and answers S_r e. One answer of each role add up to the pad of the total.
Rows may be dealt out too: then a holder keeps, expands and answers one block of the rows of S_r, a reserve all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from math import prod
from typing import Any

from spec.numbers import Matrix, add, block_rows, entries, pack, product, rows_from, square, unpack
from spec.parties import (
    Device,
    Server,
    Solver,
    broadcast,
    come_together,
    on_agreement,
    on_finish,
    on_invitation,
    on_update,
    relayed,
    run_key,
    to_server,
    train,
)
from spec.secrets import open_sealed, pad, seal, sha256, signing_key, verify
from spec.wire import (
    Agreement,
    Message,
    Parameters,
    check_committed,
    check_signed,
    committed,
    context,
    decode,
    encode,
    list_statement,
    packed,
    signatures_needed,
    signed,
    unpacked,
)


def block_lengths(agreed: Agreement, beside: int) -> list[int]:
    """Numbers of each block of rows in an answer; ``beside`` the row count, which goes with the last one."""
    p, last = agreed.parameters, agreed.n_blocks - 1
    return [len(rows) * p.outputs + beside * (k == last) for k, rows in enumerate(block_rows(p.d, agreed.n_blocks))]


def pads(seed: bytes, agreed: Agreement, kept: Collection[int]) -> tuple[list[int], list[int]]:
    """What a seed expands to in these blocks of rows: of X'X the pairs that they are in, and of the constant part."""
    pairs, lengths, primes = (
        entries(agreed.parameters.d, agreed.n_blocks, kept),
        block_lengths(agreed, 1),
        agreed.scales.primes,
    )
    gram = (pad(seed, agreed.run, "gram", len(places), primes, pair) for pair, places in pairs.items())
    constant = (pad(seed, agreed.run, "constant", lengths[k], primes, (k, k)) for k in kept)
    return [*chain(*gram)], [*chain(*constant)]


# -- a device: an owner, and a holder of a role


def receive(device: Device, data: bytes, pods: Collection[frozenset[str]] = ()) -> list[bytes]:
    """A message in, messages out. ``pods`` are the contract's: owners that are in a total together or not at all."""
    message = decode(data)
    match message.kind:
        case "invitation":
            sent = on_invitation(device, message)
        case "agreement":
            on_agreement(device, message)
            device.kept = {"seeds": {}, "commitments": {}, "owners": b"", "certified": False}
            sent = _upload(device)
        case "share":
            sent = _on_share(device, message)
        case "owners":
            sent = _on_owners(device, message, pods)
        case "certificate":
            sent = _on_certificate(device, message)
        case "update":
            sent = on_update(device, message, lambda _, count: [0] * count)
        case _:
            on_finish(device, message)
            sent = []
    return [encode(one) for one in sent]


def _upload(device: Device) -> list[Message]:
    """U_j = X_j'X_j + R_j and V_j = G_j^(1) + r_j for the server; a seed of each role for each of its holders."""
    agreed, p, me = device.agreed, device.terms, device.seat
    primes, identity = agreed.scales.primes, signing_key(device.secret)
    seeds = [device.random(32) for _ in range(p.colluders + 1)]
    everything = range(agreed.n_blocks)
    triangle, constant = agreed.scales.statistics(device.X, device.Y)
    matrix, pairs = square(triangle, p.d), entries(p.d, agreed.n_blocks, everything)
    gram = [matrix[i][j] for places in pairs.values() for i, j in places]
    for seed in seeds:
        on_gram, on_constant = pads(seed, agreed, everything)
        gram, constant = add(gram, on_gram), add(constant, on_constant)
    bulk = pack(gram, primes) + pack(constant, primes)  # nothing to whoever has at most z roles: signed, not sealed
    commitments = committed({f"role-{r}": seed for r, seed in enumerate(seeds)}, agreed.hash, device.name, identity)
    envelopes = []
    for i, (member, role) in enumerate(zip(agreed.members, agreed.roles, strict=True)):
        if role >= 0 and i != me:
            share = context(Message("share", device.run, agreed.hash, device.name, member.name))
            plaintext = packed(b"", seeds[role], b"", b"")
            envelopes.append([member.name, seal(run_key(device), member.run_key, share, plaintext, device.random(32))])
    body = packed(commitments, b"", envelopes)
    sent = [signed(Message("shares", device.run, agreed.hash, device.name, "", body, bulk), identity)]
    return sent + (_take(device, me, seeds[agreed.roles[me]], commitments) if agreed.roles[me] >= 0 else [])


def _on_share(device: Device, message: Message) -> list[Message]:
    """A seed of this device's role, which its owner sealed and committed to."""
    check_signed(message, device.server)
    agreed, j = device.agreed, device.agreed.names.index(message.sender)
    commitments, envelope = unpacked(message.body)
    opened_share = open_sealed(run_key(device), agreed.members[j].run_key, context(message), envelope)
    return _take(device, j, unpacked(opened_share)[1], commitments)


def _take(device: Device, j: int, seed: bytes, commitments: list[Any]) -> list[Message]:
    agreed, kept = device.agreed, device.kept
    role = agreed.roles[device.seat]
    check_committed(commitments, {f"role-{role}": seed}, agreed.hash, agreed.members[j])
    kept["seeds"][j], kept["commitments"][j] = seed, sha256(packed(*commitments))
    if set(kept["seeds"]) != set(agreed.owners):
        return []
    return [to_server(device, "holds", packed(*(agreed.names[j] for j in sorted(kept["seeds"]))))]


def _on_owners(device: Device, message: Message, pods: Collection[frozenset[str]]) -> list[Message]:
    """Sign one list per run: at least z + 2 owners, whole pods, with the commitments that are known here."""
    check_signed(message, device.server)
    agreed, kept, p = device.agreed, device.kept, device.terms
    assert kept["owners"] in (b"", message.body), "a device signs one list per run"
    listed = {name: commitments for name, commitments, _ in unpacked(message.body)}
    assert len(listed) >= p.colluders + 2, "never few: a victim and z colluders alone would make the total the victim's"
    assert all(pod <= set(listed) or not pod & set(listed) for pod in pods), "a list is a union of whole pods"
    for name, digest in listed.items():
        assert kept["commitments"].get(agreed.names.index(name), digest) == digest, "the commitments known here"
    kept["owners"] = message.body
    statement = list_statement(device.run, agreed.hash, message.body)
    digest = sha256(b"codedfl owners v3|", message.body)
    body = packed(digest, signing_key(device.secret).sign(statement))
    return [Message("signature", device.run, agreed.hash, device.name, "", body)]


def _on_certificate(device: Device, message: Message) -> list[Message]:
    """Nothing made of the sums leaves before the list is certified; then they are over the list."""
    check_signed(message, device.server)
    agreed, kept, p = device.agreed, device.kept, device.terms
    statement = list_statement(device.run, agreed.hash, kept["owners"])
    signatures = dict(unpacked(message.body))
    for name, signature in signatures.items():
        verify(agreed.members[agreed.names.index(name)].identity, statement, signature)
    assert len(signatures) >= signatures_needed(len(agreed.members), p.colluders), "more than (D + z)/2 signed it"
    mine = agreed.kept(device.seat)
    sums = [pads(kept["seeds"][agreed.names.index(name)], agreed, mine) for name, _, _ in unpacked(kept["owners"])]
    gram, device.constant = ([sum(numbers) for numbers in zip(*one, strict=True)] for one in zip(*sums, strict=True))
    device.matrix = rows_from(gram, p.d, agreed.n_blocks, mine)
    return [to_server(device, "ready", b"")]


# -- the server, and with it everything


def run(server: Server, parameters: Parameters, solver: Solver, cells: dict[str, tuple[int, int]]) -> None:
    """A whole run: come together, take uploads, relay seeds, certify one list, then the epochs."""
    replies = come_together(server, parameters, cells)
    agreed, p, primes = server.agreed, parameters, server.agreed.scales.primes
    gram, constant = [0] * (p.d * (p.d + 1) // 2), [0] * (p.d * p.outputs + 1)
    listed: dict[int, list[Any]] = {}
    for one in [reply for reply in replies if reply.kind == "shares"]:
        j = agreed.names.index(one.sender)
        check_signed(one, agreed.members[j].identity)
        commitments, _, envelopes = unpacked(one.body)
        upload, at = one.attachment, 3 * len(primes) * len(gram)
        gram = add(gram, unpack(upload[:at], primes, len(gram)))
        constant = add(constant, unpack(upload[at:], primes, len(constant)))
        listed[j] = [one.sender, sha256(packed(*commitments)), sha256(one.attachment)]
        for name, envelope in envelopes:
            relayed(server, "share", one.sender, name, packed(commitments, envelope))
    owners = packed(*(listed[j] for j in sorted(listed)))
    signatures = {one.sender: unpacked(one.body)[1] for one in broadcast(server, "owners", owners)}
    needed = signatures_needed(len(agreed.members), p.colluders)
    certificate = packed(*([name, signatures[name]] for name in list(signatures)[:needed]))
    holders = [name for name, role in zip(agreed.names, agreed.roles, strict=True) if role >= 0]
    matrix = rows_from(gram, p.d, agreed.n_blocks, range(agreed.n_blocks))
    broadcast(server, "certificate", certificate, holders)

    def total(e: Matrix | None, answers: dict[int, list[int]]) -> list[int]:
        """The sum of the uploads, less one answer of each cell: a role and a block of its rows."""
        found = constant if e is None else product(matrix, e, prod(primes))
        for role in range(p.colluders + 1):
            at = 0
            for k, length in enumerate(block_lengths(agreed, e is None)):
                of_cell = [i for i in answers if agreed.roles[i] == role and k in agreed.kept(i)]
                said = answers[of_cell[0]][at:] if len(agreed.kept(of_cell[0])) > 1 else answers[of_cell[0]]
                found = found[:at] + add(found[at : at + length], said[:length], -1) + found[at + length :]
                at += length
        return found

    train(server, solver, total, holders)

"""Role keys, the default: server and any z devices learn the total only; all but one holder of each role may fail.

The holders are dealt into z + 1 roles. Owner j draws a seed per role; its pad is the sum of what they expand to. It
uploads its data plus the pad once, and seals each seed to the key of its role, whose private half the role's holders
give to each other. A holder of role r keeps S_r, the sum of all owners' pads of this role, and answers S_r e. One
answer of each role add up to the pad of the total. Rows may be dealt out too: then a holder keeps, expands and answers
one block of the rows of S_r, a reserve all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain
from math import prod
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from spec import parties, wire
from spec.numbers import Matrix, add, block_rows, entries, pack, product, rows_from, square, unpack
from spec.secrets import open_sealed, pad, public_of, seal, sha256, signing_key, verify


def block_lengths(agreed: wire.Agreement, beside: int) -> list[int]:
    """Numbers of each block of rows in an answer; ``beside`` the row count, which goes with the last one."""
    p, last = agreed.parameters, agreed.n_blocks - 1
    return [len(rows) * p.outputs + beside * (k == last) for k, rows in enumerate(block_rows(p.d, agreed.n_blocks))]


def pads(seed: bytes, agreed: wire.Agreement, kept: Collection[int]) -> tuple[list[int], list[int]]:
    """What a seed expands to in these blocks of rows: of X'X the pairs that they are in, and of the constant part."""
    pairs, lengths, primes = (
        entries(agreed.parameters.d, agreed.n_blocks, kept),
        block_lengths(agreed, 1),
        agreed.scales.primes,
    )
    gram = (pad(seed, "gram", len(places), primes, pair) for pair, places in pairs.items())
    constant = (pad(seed, "constant", lengths[k], primes, (k, k)) for k in kept)
    return [*chain(*gram)], [*chain(*constant)]


# -- a device: an owner, and a holder of a role


def receive(device: parties.Device, data: bytes, pods: Collection[frozenset[str]] = ()) -> list[bytes]:
    """A message in, messages out. ``pods`` are the contract's: owners that are in a total together or not at all."""
    message = wire.decode(data)
    handlers: dict[str, Callable[[parties.Device, wire.Message], list[wire.Message]]] = {
        "invitation": parties.on_invitation,
        "agreement": _on_agreement,
        "role-key-wanted": _on_role_key_wanted,
        "role-key": _on_role_key,
        "role-keys": _on_role_keys,
        "share": _on_share,
        "owners": lambda device, message: _on_owners(device, message, pods),
        "certificate": _on_certificate,
        "update": lambda device, message: parties.on_update(device, message, lambda _, count: [0] * count),
        "finish": parties.on_finish,
    }
    return [wire.encode(one) for one in handlers[message.kind](device, message)]


def _on_agreement(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    parties.on_agreement(device, message)
    device.kept = {"key": None, "seeds": {}, "commitments": {}, "owners": b""}
    return []


def _check_role_key(device: parties.Device, role: int, public: bytes, signer: str, signature: bytes) -> None:
    """Whoever signs the key of a role holds it in this agreement."""
    agreed, i = device.agreed, device.agreed.names.index(signer)
    assert agreed.roles[i] == role, "the key of a role is signed by its holders"
    verify(agreed.members[i].identity, wire.role_key_statement(device.run, agreed.hash, role, public), signature)


def _on_role_key_wanted(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """Draw the key of this device's role, unless it has one, and seal the private half to these co-holders."""
    agreed, me, identity = device.agreed, device.seat, signing_key(device.secret)
    if device.matrix is not None:
        return []
    key = device.kept["key"] = device.kept["key"] or device.random(32)
    public, envelopes = public_of(X25519PrivateKey.from_private_bytes(key)), []
    for name in wire.unpacked(message.body):
        member = agreed.members[agreed.names.index(name)]
        assert agreed.roles[agreed.names.index(name)] == agreed.roles[me] and name != device.name, "to co-holders only"
        wire.check_join(agreed, member)
        header = wire.context(wire.Message("role-key", device.run, agreed.hash, device.name, name))
        envelopes.append([name, seal(parties.run_key(device), member.run_key, header, key, device.random(32))])
    signature = identity.sign(wire.role_key_statement(device.run, agreed.hash, agreed.roles[me], public))
    body = wire.packed(public, signature, envelopes)
    return [wire.signed(wire.Message("role-key", device.run, agreed.hash, device.name, "", body), identity)]


def _on_role_key(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """The key of this device's role, from a co-holder; who has it signs it too."""
    wire.check_signed(message, device.server)
    agreed, role = device.agreed, device.agreed.roles[device.seat]
    public, signature, envelope = wire.unpacked(message.body)
    _check_role_key(device, role, public, message.sender, signature)
    giver = agreed.members[agreed.names.index(message.sender)]
    key = open_sealed(parties.run_key(device), giver.run_key, wire.context(message), envelope)
    assert public_of(X25519PrivateKey.from_private_bytes(key)) == public, "the private half of what was signed"
    device.kept["key"] = key
    mine = signing_key(device.secret).sign(wire.role_key_statement(device.run, agreed.hash, role, public))
    return [wire.Message("role-key-held", device.run, agreed.hash, device.name, "", wire.packed(public, mine))]


def _on_role_keys(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """Upload once, to keys that min(z + 1, holders) holders of each role have signed."""
    agreed, keys = device.agreed, wire.unpacked(message.body)
    if device.seat in device.kept["commitments"]:
        return []
    assert len(keys) == device.terms.colluders + 1, "a key for every role"
    for role, (public, signatures) in enumerate(keys):
        for name, signature in dict(signatures).items():
            _check_role_key(device, role, public, name, signature)
        assert len(dict(signatures)) >= min(len(keys), agreed.roles.count(role)), "one honest holder has it at least"
    return _upload(device, [public for public, _ in keys])


def seed_context(agreed: wire.Agreement, owner: str, role: int, commitments: list[Any]) -> bytes:
    """An envelope for a role opens beside the commitments that it was sealed with alone."""
    return wire.context(wire.Message("share", agreed.run, agreed.hash, owner, f"role-{role}")) + sha256(
        wire.packed(*commitments)
    )


def _upload(device: parties.Device, role_keys: list[bytes]) -> list[wire.Message]:
    """U_j = X_j'X_j + R_j and V_j = G_j^(1) + r_j for the server; a seed for the key of each role."""
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
    commitments = wire.committed(
        {f"role-{r}": seed for r, seed in enumerate(seeds)}, agreed.hash, device.name, identity
    )
    envelopes = []
    for role, (seed, public) in enumerate(zip(seeds, role_keys, strict=True)):
        bound = seed_context(agreed, device.name, role, commitments)
        plaintext = wire.packed(b"", seed, b"", b"")
        envelopes.append([f"role-{role}", seal(parties.run_key(device), public, bound, plaintext, device.random(32))])
    body = wire.packed(commitments, b"", envelopes)
    sent = [wire.signed(wire.Message("shares", device.run, agreed.hash, device.name, "", body, bulk), identity)]
    device.kept["commitments"][me] = commitments
    return sent + (_take(device, me, seeds[agreed.roles[me]], commitments) if agreed.roles[me] >= 0 else [])


def _on_share(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """A seed of this device's role, which its owner sealed to the role's key together with its commitments."""
    agreed, j = device.agreed, device.agreed.names.index(message.sender)
    commitments, envelope = wire.unpacked(message.body)
    key = X25519PrivateKey.from_private_bytes(device.kept["key"])
    bound = seed_context(agreed, message.sender, agreed.roles[device.seat], commitments)
    return _take(device, j, wire.unpacked(open_sealed(key, agreed.members[j].run_key, bound, envelope))[1], commitments)


def _take(device: parties.Device, j: int, seed: bytes, commitments: list[Any]) -> list[wire.Message]:
    agreed, kept = device.agreed, device.kept
    wire.check_fits(commitments, {f"role-{agreed.roles[device.seat]}": seed}, agreed.hash, agreed.names[j])
    kept["seeds"][j], kept["commitments"][j] = seed, commitments
    if set(kept["seeds"]) != set(agreed.owners):
        return []
    return [parties.to_server(device, "holds", wire.packed(*(agreed.names[j] for j in sorted(kept["seeds"]))))]


def _on_owners(device: parties.Device, message: wire.Message, pods: Collection[frozenset[str]]) -> list[wire.Message]:
    """Sign one list per run: at least z + 2 owners, whole pods, with the commitments that are known here."""
    wire.check_signed(message, device.server)
    agreed, kept, p = device.agreed, device.kept, device.terms
    assert kept["owners"] in (b"", message.body), "a device signs one list per run"
    listed = {name: commitments for name, commitments, _ in wire.unpacked(message.body)}
    assert len(listed) >= p.colluders + 2, "never few: a victim and z colluders alone would make the total the victim's"
    assert all(pod <= set(listed) or not pod & set(listed) for pod in pods), "a list is a union of whole pods"
    assert device.name not in listed or device.seat in kept["commitments"], "this device is listed as it has uploaded"
    for name, digest in listed.items():
        known = kept["commitments"].get(agreed.names.index(name))
        assert known is None or sha256(wire.packed(*known)) == digest, "the commitments known here"
    kept["owners"] = message.body
    statement = wire.list_statement(device.run, agreed.hash, message.body)
    digest = sha256(b"codedfl owners v3|", message.body)
    body = wire.packed(digest, signing_key(device.secret).sign(statement))
    return [wire.Message("signature", device.run, agreed.hash, device.name, "", body)]


def _on_certificate(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """Nothing made of the sums leaves before the list is certified; then they are over the list.

    Every owner on it has signed its commitments: by its signature on the list, which names them, or on themselves.
    """
    agreed, kept, p = device.agreed, device.kept, device.terms
    statement = wire.list_statement(device.run, agreed.hash, kept["owners"])
    signatures = dict(wire.unpacked(message.body))
    for name, signature in signatures.items():
        verify(agreed.members[agreed.names.index(name)].identity, statement, signature)
    assert len(signatures) >= wire.signatures_needed(len(agreed.members), p.colluders), "more than (D + z)/2 signed it"
    for name, _, _ in wire.unpacked(kept["owners"]):
        j = agreed.names.index(name)
        if name not in {*signatures, device.name}:
            wire.check_committed(kept["commitments"][j], agreed.hash, agreed.members[j])
    mine, kept["key"] = agreed.kept(device.seat), None
    sums = [pads(kept["seeds"][agreed.names.index(name)], agreed, mine) for name, _, _ in wire.unpacked(kept["owners"])]
    gram, device.constant = ([sum(numbers) for numbers in zip(*one, strict=True)] for one in zip(*sums, strict=True))
    device.matrix = rows_from(gram, p.d, agreed.n_blocks, mine)
    return [parties.to_server(device, "ready", b"")]


# -- the server, and with it everything


def holders_of(agreed: wire.Agreement, role: int) -> list[str]:
    """In the order of the seats."""
    return [name for name, one in zip(agreed.names, agreed.roles, strict=True) if one == role]


def _drawn_key(server: parties.Server, role: int) -> list[Any]:
    """The first holder of a role draws its key for all others; returns the public half and who has signed it."""
    first, *others = holders_of(server.agreed, role)
    (drawn,) = parties.broadcast(server, "role-key-wanted", wire.packed(*others), [first])
    public, signature, envelopes = wire.unpacked(drawn.body)
    signatures = [[first, signature]]
    for name, envelope in envelopes:
        (held,) = parties.relayed(server, "role-key", first, name, wire.packed(public, signature, envelope))
        signatures.append([name, wire.unpacked(held.body)[1]])
    return [public, signatures]


def run(
    server: parties.Server, parameters: wire.Parameters, solver: parties.Solver, cells: dict[str, tuple[int, int]]
) -> None:
    """A whole run: come together, have roles' keys drawn, relay seeds, certify one list, then the epochs."""
    parties.come_together(server, parameters, cells)
    keys = [_drawn_key(server, role) for role in range(parameters.colluders + 1)]
    replies = parties.broadcast(server, "role-keys", wire.packed(*keys))
    agreed, p, primes = server.agreed, parameters, server.agreed.scales.primes
    gram, constant = [0] * (p.d * (p.d + 1) // 2), [0] * (p.d * p.outputs + 1)
    listed: dict[int, list[Any]] = {}
    for one in [reply for reply in replies if reply.kind == "shares"]:
        j = agreed.names.index(one.sender)
        wire.check_signed(one, agreed.members[j].identity)
        commitments, _, envelopes = wire.unpacked(one.body)
        upload, at = one.attachment, 3 * len(primes) * len(gram)
        gram = add(gram, unpack(upload[:at], primes, len(gram)))
        constant = add(constant, unpack(upload[at:], primes, len(constant)))
        listed[j] = [one.sender, sha256(wire.packed(*commitments)), sha256(one.attachment)]
        for role, (_, envelope) in enumerate(envelopes):
            for name in set(holders_of(agreed, role)) - {one.sender}:
                parties.relayed(server, "share", one.sender, name, wire.packed(commitments, envelope))
    owners = wire.packed(*(listed[j] for j in sorted(listed)))
    signatures = {one.sender: wire.unpacked(one.body)[1] for one in parties.broadcast(server, "owners", owners)}
    needed = wire.signatures_needed(len(agreed.members), p.colluders)
    certificate = wire.packed(*([name, signatures[name]] for name in list(signatures)[:needed]))
    holders = [name for name, role in zip(agreed.names, agreed.roles, strict=True) if role >= 0]
    matrix = rows_from(gram, p.d, agreed.n_blocks, range(agreed.n_blocks))
    parties.broadcast(server, "certificate", certificate, holders)

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

    parties.train(server, solver, total, holders)

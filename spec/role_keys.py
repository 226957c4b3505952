"""Role keys, the default: server and any z devices learn the total only; all but one holder of each role may fail.

The holders are dealt into z + 1 roles. Owner j draws a seed per role; its pad is the sum of what they expand to. It
uploads its data plus the pad once, and seals each seed to the key of its role, whose private half the role's holders
give to each other. A holder of role r keeps S_r, the sum of all owners' pads of this role, and answers S_r e. One
answer of each role add up to the pad of the total. Rows may be dealt out too: then a holder keeps, expands and answers
one block of the rows of S_r, a reserve all of them.
"""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import Any

from spec import parties, wire
from spec.fixed_point import Parameters
from spec.numbers import Matrix, add, pieces, product, rows_from
from spec.parties import Device, Server, Solver
from spec.secrets import open_sealed, public_of, seal, sha256, sign, verify
from spec.wire import Agreement, Message

# -- a device: an owner, and a holder of a role


def receive(device: Device, data: bytes) -> list[bytes]:
    """A message in, messages out."""
    return parties.receive(globals(), device, data)


def check_role_key(agreed: Agreement, role: int, public: bytes, signer: str, signature: bytes) -> None:
    """Whoever signs the key of a role holds it in this agreement."""
    assert agreed.role[signer] == role >= 0, "the key of a role is signed by its holders"
    verify(agreed.member[signer].identity, wire.role_key_statement(agreed, role, public), signature)


def signed_role_key(device: Device) -> list[bytes]:
    """[key, signature]: this device has the private half."""
    public, role = public_of(device.role_key), device.agreed.role[device.name]
    return [public, sign(device.secret, wire.role_key_statement(device.agreed, role, public))]


def on_role_key_wanted(device: Device, found: Message) -> list[Message]:
    """Draw the key of this device's role, unless it has one, and seal the private half to these co-holders."""
    agreed, to, key = device.agreed, wire.unpacked(found.body), device.role_key or device.random(32)
    holders = {name for name in agreed.names if agreed.role[name] == agreed.role[device.name] >= 0}
    assert device.name in holders and set(to) <= holders - {device.name}, "by a holder, to co-holders only"
    envelopes = [[one, parties.sealed(device, "role-key", one, agreed.member[one].run_key, key).body] for one in to]
    device.role_key = key
    body = wire.packed(*signed_role_key(device), envelopes)
    return [wire.signed(parties.message(device, "role-key", body), device.secret)]


def on_role_key(device: Device, found: Message) -> list[Message]:
    """The key of this device's role, from a co-holder; who has it signs it too."""
    agreed, giver = device.agreed, device.agreed.member[found.sender]
    public, signature, envelope = wire.unpacked(found.body, "bbb")
    check_role_key(agreed, agreed.role[device.name], public, giver.name, signature)
    key = open_sealed(device.key, giver.run_key, wire.context(found), envelope)
    assert public_of(key) == public, "the private half of what was signed"
    device.role_key = key
    return [parties.message(device, "role-key-held", wire.packed(*signed_role_key(device)))]


def on_role_keys(device: Device, found: Message) -> list[Message]:
    """Upload once, to keys that min(z + 1, holders) holders of each role have signed."""
    agreed, keys = device.agreed, wire.unpacked(found.body)
    if device.name in device.commitments or device.name not in agreed.owners:
        return []
    assert len(keys) == device.terms.colluders + 1, "a key for every role"
    for role, (public, signatures) in enumerate(keys):
        for name, signature in signatures:
            check_role_key(agreed, role, public, name, signature)
        assert len(dict(signatures)) >= min(len(keys), agreed.roles.count(role)), "one honest holder has it at least"
    return upload(device, [public for public, _ in keys])


def seed_context(agreed: Agreement, owner: str, purpose: str, commitments: list[Any]) -> bytes:
    """An envelope for a role opens beside the commitments that it was sealed with alone."""
    share = Message("share", agreed.run, agreed.hash, owner, purpose)
    return wire.context(share) + sha256(wire.packed(*commitments))


def upload(device: Device, keys: list[bytes]) -> list[Message]:
    """U_j = X_j'X_j + R_j and V_j = G_j^(1) + r_j for the server; a seed for the key of each role.

    Whoever has at most z roles reads nothing from the upload: it is signed, not sealed.
    """
    agreed, me, envelopes = device.agreed, device.name, []
    seeds = {f"role-{role}": device.random(32) for role in range(len(keys))}
    bulk, commitments = parties.padded(device, [*seeds.values()]), wire.committed(seeds, agreed, me, device.secret)
    for (purpose, seed), key in zip(seeds.items(), keys, strict=True):
        bound, secrets = seed_context(agreed, me, purpose, commitments), wire.packed(b"", seed, b"", b"")
        envelopes.append([purpose, seal(device.key, key, bound, secrets, device.random(32))])
    shares = parties.message(device, "shares", wire.packed(commitments, b"", envelopes), bulk)
    device.commitments[me] = commitments
    mine = seeds.get(f"role-{agreed.role[me]}")  # the seed of its own role it keeps itself
    return [wire.signed(shares, device.secret), *(take(device, me, mine, commitments) if mine else [])]


def on_share(device: Device, found: Message) -> list[Message]:
    """A seed of this device's role, which its owner sealed to the role's key together with its commitments."""
    agreed, owner, purpose = device.agreed, found.sender, f"role-{device.agreed.role[device.name]}"
    commitments, envelope = wire.unpacked(found.body, "lb")
    bound = seed_context(agreed, owner, purpose, commitments)
    seed = wire.unpacked(open_sealed(device.role_key, agreed.member[owner].run_key, bound, envelope), "bbbb")[1]
    assert owner in agreed.owners and device.seeds.get(owner, seed) == seed, "owners share with holders, once"
    wire.check_fits(commitments, agreed, owner, purpose, seed)
    return take(device, owner, seed, commitments)


def take(device: Device, owner: str, seed: bytes, commitments: list[Any]) -> list[Message]:
    """Keep a seed; when all are here say whose, in the order of the seats."""
    device.seeds[owner], device.commitments[owner] = seed, commitments
    complete = set(device.seeds) == set(device.agreed.owners)
    return [parties.to_server(device, "holds", wire.packed(*device.agreed.owners))] if complete else []


def on_owners(device: Device, found: Message) -> list[Message]:
    """Sign one list per run: enough owners, whole pods, with the commitments that are known here."""
    agreed, listed = device.agreed, wire.unpacked(found.body)
    names = [name for name, _, _ in listed]
    assert device.owners in (b"", found.body), "a device signs one list per run"
    assert names == [name for name in agreed.owners if name in names], "owners, each once, in the order of the seats"
    assert device.name not in names or device.name in device.commitments, "this device is listed as it has uploaded"
    parties.check_list(device, names)
    for name, digest, _ in listed:
        known = device.commitments.get(name)
        assert known is None or digest == sha256(wire.packed(*known)), "the commitments known here"
    device.owners = found.body
    signature = sign(device.secret, wire.list_statement(agreed, found.body))
    return [parties.message(device, "signature", wire.packed(wire.list_digest(found.body), signature))]


def on_certificate(device: Device, found: Message) -> list[Message]:
    """Nothing made of the sums leaves before the list is certified; then they are over the list: S_r.

    Every owner on it has signed its commitments: by its signature on the list, which names them, or on themselves.
    """
    agreed, signatures, sums = device.agreed, dict(wire.unpacked(found.body)), []
    for name, signature in signatures.items():
        verify(agreed.member[name].identity, wire.list_statement(agreed, device.owners), signature)
    assert len(signatures) >= wire.signatures_needed(agreed), "more than (D + z)/2 signed the list that is known here"
    for name, digest, _ in wire.unpacked(device.owners):
        assert sha256(wire.packed(*device.commitments[name])) == digest, "the commitments are those listed"
        if name not in {*signatures, device.name}:
            wire.check_committed(device.commitments[name], agreed, name)
        sums.append(parties.pads(device.seeds[name], agreed, agreed.kept(device.name)))
    gram, constant = ([sum(numbers) for numbers in zip(*one, strict=True)] for one in zip(*sums, strict=True))
    device.seeds, device.role_key = {}, b""
    return parties.is_ready(device, gram, constant)


# -- the server, and with it everything


def role_key_of(server: Server, first: str, *others: str) -> list[Any]:
    """The first holder of a role draws its key for all others: [key, [[holder, signature], ...]]."""
    (drawn,) = parties.broadcast(server, [first], "role-key-wanted", wire.packed(*others))
    public, signature, envelopes = wire.unpacked(drawn.body, "bbl")
    signatures = [[first, signature]]
    for name, envelope in envelopes:
        (held,) = parties.relayed(server, first, name, "role-key", wire.packed(public, signature, envelope))
        signatures.append([name, wire.unpacked(held.body, "bb")[1]])
    return [public, signatures]


def run(server: Server, p: Parameters, solver: Solver, roles: dict[str, int], blocks: dict[str, int]) -> None:
    """A whole run: come together, have roles' keys drawn, relay seeds, certify one list, then the epochs.

    roles, blocks: who holds what, by name (``come_together``).
    """
    parties.come_together(server, p, roles, blocks)
    agreed, primes, (gram, constant) = server.agreed, server.agreed.scales.primes, parties.zeros(p)
    holders = [[name for name in agreed.names if agreed.role[name] == role] for role in range(p.colluders + 1)]
    keys, listed = wire.packed(*(role_key_of(server, *one) for one in holders)), {}
    for one in parties.broadcast(server, server.devices, "role-keys", keys):
        if one.kind == "shares":
            verify(agreed.member[one.sender].identity, wire.signed_part(one), one.signature)
            commitments, _, envelopes = wire.unpacked(one.body, "lbl")
            u, v = parties.two_parts(agreed, one.attachment)
            gram, constant = add(gram, u), add(constant, v)
            listed[one.sender] = [one.sender, sha256(wire.packed(*commitments)), sha256(one.attachment)]
            for (_, envelope), of_role in zip(envelopes, holders, strict=True):
                for name in set(of_role) - {one.sender}:
                    parties.relayed(server, one.sender, name, "share", wire.packed(commitments, envelope))
    owners = wire.packed(*(listed[name] for name in agreed.names if name in listed))
    replies = parties.broadcast(server, server.devices, "owners", owners)[: wire.signatures_needed(agreed)]
    certificate = wire.packed(*([one.sender, wire.unpacked(one.body, "bb")[1]] for one in replies))
    parties.broadcast(server, [*chain(*holders)], "certificate", certificate)
    matrix = rows_from(gram, p.d, agreed.n_blocks, range(agreed.n_blocks))

    def total(e: Matrix, answers: dict[str, list[int]]) -> list[int]:
        """The sum of the uploads, less one answer of each cell: a role and a block of its rows."""
        lengths = parties.block_lengths(agreed, not e)
        found = pieces(product(matrix, e, prod(primes)) if e else constant, lengths)
        for of_role in holders:
            for k in range(agreed.n_blocks):
                name = next(one for one in of_role if one in answers and k in agreed.kept(one))
                kept = agreed.kept(name)
                said = pieces(answers[name], [lengths[one] for one in kept])[kept.index(k)]
                found[k] = add(found[k], said, -1)
        return [*chain(*found)]

    parties.train(server, solver, total, [*chain(*holders)])

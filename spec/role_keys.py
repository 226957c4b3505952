"""Role keys, the default: server and any z devices learn the total only; all but one holder of each role may fail.

The holders are dealt into z + 1 roles. Owner j draws a seed per role; its pad is the sum of what they expand to. It
uploads its data plus the pad once, and seals each seed to the holders of its role. A holder of role r keeps S_r, the
sum of all owners' pads of this role, and answers S_r e. One answer of each role add up to the pad of the total.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

from spec.numbers import Matrix, add, pack, product, square, unpack
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


def lengths(p: Parameters) -> tuple[int, int]:
    """Numbers in the triangle of X'X, and in the constant part with its row count."""
    return p.d * (p.d + 1) // 2, p.d * p.outputs + 1


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
    gram, constant = agreed.scales.statistics(device.X, device.Y)
    for seed in seeds:
        gram = add(gram, pad(seed, device.run, "gram", len(gram), primes))
        constant = add(constant, pad(seed, device.run, "constant", len(constant), primes))
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
    gram, constant = ([0] * count for count in lengths(p))
    for name, _, _ in unpacked(kept["owners"]):
        seed, primes = kept["seeds"][agreed.names.index(name)], agreed.scales.primes
        gram = add(gram, pad(seed, device.run, "gram", len(gram), primes))
        constant = add(constant, pad(seed, device.run, "constant", len(constant), primes))
    device.matrix, device.constant = square(gram, p.d), constant
    return [to_server(device, "ready", b"")]


# -- the server, and with it everything


def run(server: Server, parameters: Parameters, solver: Solver, roles: dict[str, int]) -> None:
    """A whole run: come together, take uploads, relay seeds, certify one list, then the epochs."""
    replies = come_together(server, parameters, roles)
    agreed, p, primes = server.agreed, parameters, server.agreed.scales.primes
    gram, constant = ([0] * count for count in lengths(p))
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
    broadcast(server, "certificate", certificate, holders)

    def total(e: Matrix | None, answers: dict[int, list[int]]) -> list[int]:
        """The sum of the uploads, less one answer of each role."""
        found = constant if e is None else product(square(gram, p.d), e, prod(primes))
        for role in range(p.colluders + 1):
            found = add(found, next(answer for i, answer in answers.items() if agreed.roles[i] == role), -1)
        return found

    train(server, solver, total, holders)

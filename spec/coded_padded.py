"""The paper's scheme (IV-B and IV-C): one-time padded data shared along a gradient code, answers under zero-sum masks.

Seat i answers for seats i .. i + alpha - 1, so any D - alpha + 1 answers decode. ``run`` is the whole protocol.
"""

from __future__ import annotations

from math import prod

from spec import parties, wire
from spec.numbers import Matrix, add, code_row, decoding_vector, pack, product, square, unpack
from spec.secrets import decrypt_bulk, encrypt_bulk, open_sealed, pad, seal, sha256, signing_key


def answers_for(i: int, alpha: int, n_devices: int) -> list[int]:
    """Row i of B: whose data seat i answers for."""
    return [(i + s) % n_devices for s in range(alpha)]


def needs_mask_of(i: int, alpha: int, n_devices: int) -> list[int]:
    """Of those it answers for, and of the seat after each: z_j = m_j - m_(j + 1), so that all z_j sum up to zero."""
    rows = answers_for(i, alpha, n_devices)
    return sorted({*rows, *((j + 1) % n_devices for j in rows)})


# -- a device


def receive(device: parties.Device, data: bytes) -> list[bytes]:
    """A message in, messages out."""
    return [wire.encode(one) for one in _handle(device, wire.decode(data))]


def _handle(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    match message.kind:
        case "invitation":
            return parties.on_invitation(device, message)
        case "agreement":
            parties.on_agreement(device, message)
            p = device.terms
            device.kept = {"masks": {}, "gram": [0] * (p.d * (p.d + 1) // 2), "constant": [0] * (p.d * p.outputs + 1)}
        case "pad-seed":
            return _on_pad_seed(device, message)
        case "share":
            return _on_share(device, message)
        case "update":
            return parties.on_update(device, message, lambda digest, count: _mask(device, digest, count))
        case "finish":
            parties.on_finish(device, message)
    return []


def _on_pad_seed(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """Psi_i = G_i^(1) + Delta_i, Phi_i = X_i'X_i + Xi_i (eq. 6, 7), encrypted once for the devices of column i."""
    agreed, p, i = device.agreed, device.terms, device.seat
    server_key = wire.unpacked(device.invited)[1]
    seed = open_sealed(parties.run_key(device), server_key, wire.context(message), message.body)
    gram, constant = agreed.scales.statistics(device.X, device.Y)
    primes = agreed.scales.primes
    phi = add(gram, pad(seed, "gram", len(gram), primes))
    psi = add(constant, pad(seed, "constant", len(constant), primes))
    plaintext = pack(phi, primes) + pack(psi, primes)
    _add(device, i, plaintext)
    content_key, header = device.random(32), wire.Message("shares", device.run, agreed.hash, device.name, "")
    bulk = encrypt_bulk(content_key, wire.context(header), plaintext)
    mask = device.kept["masks"][i] = device.random(32)
    commitments = wire.committed({"mask": mask}, agreed.hash, device.name, signing_key(device.secret))
    envelopes = []
    n = len(agreed.members)
    for k, member in enumerate(agreed.members):
        if k != i and i in needs_mask_of(k, p.alpha, n):
            opens = [content_key, sha256(bulk)] if i in answers_for(k, p.alpha, n) else [b"", b""]
            share = wire.context(wire.Message("share", device.run, agreed.hash, device.name, member.name))
            sealed = seal(
                parties.run_key(device), member.run_key, share, wire.packed(mask, b"", *opens), device.random(32)
            )
            envelopes.append([member.name, sealed])
    body = wire.packed(commitments, b"", envelopes)
    shares = wire.Message("shares", device.run, agreed.hash, device.name, "", body, bulk)
    return [wire.signed(shares, signing_key(device.secret)), *_ready(device)]


def _on_share(device: parties.Device, message: wire.Message) -> list[wire.Message]:
    """Check the seal, the commitment and the digest of the bulk, then add b_ij times it."""
    wire.check_signed(message, device.server)
    agreed, j = device.agreed, device.agreed.names.index(message.sender)
    if j in device.kept["masks"]:
        return []  # a repeated share changes nothing
    commitments, envelope = wire.unpacked(message.body)
    plaintext = open_sealed(parties.run_key(device), agreed.members[j].run_key, wire.context(message), envelope)
    mask, _, content_key, digest = wire.unpacked(plaintext)
    wire.check_committed(commitments, agreed.hash, agreed.members[j])
    wire.check_fits(commitments, {"mask": mask}, agreed.hash, message.sender)
    if j in answers_for(device.seat, device.terms.alpha, len(agreed.members)):
        header = wire.Message("shares", device.run, agreed.hash, message.sender, "")
        _add(device, j, decrypt_bulk(content_key, wire.context(header), digest, message.attachment))
    device.kept["masks"][j] = mask
    return _ready(device)


def _add(device: parties.Device, j: int, plaintext: bytes) -> None:
    """C_i += b_ij Psi_j and Cbar_i += b_ij Phi_j (eq. 8 and 9)."""
    n, p, primes = len(device.agreed.members), device.terms, device.agreed.scales.primes
    b = code_row(n, p.alpha, primes)[(j - device.seat) % n]
    at = 3 * len(primes) * len(device.kept["gram"])
    for part, packed_part in (("gram", plaintext[:at]), ("constant", plaintext[at:])):
        terms = unpack(packed_part, primes, len(device.kept[part]))
        device.kept[part] = add(device.kept[part], terms, b)


def _ready(device: parties.Device) -> list[wire.Message]:
    """When every mask seed, and with it every share, is here."""
    agreed, p = device.agreed, device.terms
    if set(device.kept["masks"]) != set(needs_mask_of(device.seat, p.alpha, len(agreed.members))):
        return []
    device.matrix, device.constant = square(device.kept["gram"], p.d), device.kept["constant"]
    return [parties.to_server(device, "ready", b"")]


def _mask(device: parties.Device, digest: bytes, count: int) -> list[int]:
    """sum_j b_ij (m_j - m_(j+1)): bound to run and update, it cancels among answers to the same one only."""
    n, alpha, i = len(device.agreed.members), device.terms.alpha, device.seat
    primes = device.agreed.scales.primes
    row, total = code_row(n, alpha, primes), [0] * count
    for k, seed in device.kept["masks"].items():
        factor = row[(k - i) % n] - row[(k - 1 - i) % n]
        stream = pad(seed, f"mask|{device.run.hex()}|{digest.hex()}", count, primes)
        total = add(total, stream, factor)
    return total


# -- the server, and with it everything


def run(
    server: parties.Server,
    parameters: wire.Parameters,
    solver: parties.Solver,
    stragglers: frozenset[str] = frozenset(),
) -> None:
    """A whole run: come together, give out pads, relay shares, then the epochs. ``stragglers`` never answer one."""
    parties.come_together(server, parameters, cells={})
    agreed, scales = server.agreed, server.agreed.scales
    n, p, primes, modulus = len(agreed.members), parameters, scales.primes, prod(scales.primes)
    gram, constant = [0] * (p.d * (p.d + 1) // 2), [0] * (p.d * p.outputs + 1)
    shares = []
    for member in agreed.members:
        seed = server.random(32)  # of Delta_i and Xi_i; the server keeps their sums only
        gram = add(gram, pad(seed, "gram", len(gram), primes))
        constant = add(constant, pad(seed, "constant", len(constant), primes))
        header = wire.Message("pad-seed", server.run, agreed.hash, "", member.name)
        assert server.key is not None
        sealed = seal(server.key, member.run_key, wire.context(header), seed, server.random(32))
        data = wire.encode(wire.Message("pad-seed", server.run, agreed.hash, "", member.name, sealed))
        shares += [wire.decode(reply) for reply in server.devices[member.name](data)]
    ready = set()
    for one in shares:
        if one.kind == "ready":  # with alpha = 1 a device answers for itself alone, and may be ready at once
            ready.add(one.sender)
            continue
        wire.check_signed(one, agreed.members[agreed.names.index(one.sender)].identity)
        commitments, _, envelopes = wire.unpacked(one.body)
        for name, envelope in envelopes:
            column = agreed.names.index(one.sender) in answers_for(agreed.names.index(name), p.alpha, n)
            bulk = one.attachment if column else b""
            for reply in parties.relayed(server, "share", one.sender, name, wire.packed(commitments, envelope), bulk):
                assert parties.opened(server, reply) == b"" and reply.kind == "ready"
                ready.add(reply.sender)
    assert ready == set(agreed.names), "everybody's shares must be in before training"

    def total(e: Matrix | None, answers: dict[int, list[int]]) -> list[int]:
        """Decode any D - alpha + 1 answers, then take the sum of the pads off with one product."""
        survivors = [i for i in answers if agreed.names[i] not in stragglers][: n - p.alpha + 1]
        a = decoding_vector(survivors, n, p.alpha, primes)
        found = [-x for x in (constant if e is None else product(square(gram, p.d), e, modulus))]
        for factor, i in zip(a, survivors, strict=True):
            found = add(found, answers[i], factor)
        return found

    parties.train(server, solver, total, agreed.names)

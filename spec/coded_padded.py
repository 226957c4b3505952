"""The paper's scheme (IV-B and IV-C): one-time padded data shared along a gradient code, answers under zero-sum masks.

Seat i answers for seats i .. i + alpha - 1, so any D - alpha + 1 answers decode. ``run`` is the whole protocol.
"""

from __future__ import annotations

from math import prod

from spec import parties, wire
from spec.fixed_point import Parameters
from spec.numbers import Matrix, add, from_residues, product, rows_from
from spec.parties import Device, Server, Solver
from spec.secrets import decrypt_bulk, encrypt_bulk, open_sealed, sha256, verify
from spec.wire import Agreement, Message

SIGNED = (*parties.SIGNED, "share")

# -- the gradient code (paper II-B, eq. 1): A B = 1 exactly


def root_of_unity(order: int, primes: list[int]) -> int:
    """w: modulo each prime the first power base^((p - 1)/order), base = 2, 3, ..., of exactly this order."""
    found = []
    for p in primes:
        powers = (pow(base, (p - 1) // order, p) for base in range(2, p))
        found.append([next(w for w in powers if all(pow(w, s, p) != 1 for s in range(1, order)))])
    return from_residues(found, primes)[0]


def code_row(n_devices: int, alpha: int, primes: list[int]) -> list[int]:
    """b(w^s) for s = 0 .. D - 1, where b(x) = prod_{t = alpha}^{D - 1} (x - w^t): B[i][j] = row[(j - i) mod D]."""
    w, modulus = root_of_unity(n_devices, primes), prod(primes)
    return [prod(pow(w, s) - pow(w, t) for t in range(alpha, n_devices)) % modulus for s in range(n_devices)]


def decoding_vector(survivors: list[int], n_devices: int, alpha: int, primes: list[int]) -> list[int]:
    """a with a B[survivors] = 1, for D - alpha + 1 survivors: Lagrange's formula at 0, at the points y_i = w^-i."""
    w, modulus = root_of_unity(n_devices, primes), prod(primes)
    y = [pow(w, -i, modulus) for i in survivors]
    scale = pow(prod(-pow(w, t) for t in range(alpha, n_devices)), -1, modulus)  # 1/b(0)
    return [scale * prod(-v * pow(u - v, -1, modulus) for v in y if v != u) % modulus for u in y]


def code_factors(agreed: Agreement, name: str) -> dict[str, int]:
    """Row i of B: b_ij by the name of j, zero but for the alpha devices that device i answers for."""
    n, i = len(agreed.names), agreed.names.index(name)
    row = code_row(n, agreed.parameters.alpha, agreed.scales.primes)
    return {other: row[(j - i) % n] for j, other in enumerate(agreed.names)}


def mask_factors(agreed: Agreement, name: str) -> dict[str, int]:
    """Of the masks that device i needs: sum_j b_ij z_j with z_j = m_j - m_(j + 1), so that all z_j sum up to zero."""
    b, before = code_factors(agreed, name), [agreed.names[-1], *agreed.names[:-1]]
    return {j: b[j] - b[i] for i, j in zip(before, agreed.names, strict=True) if b[i] or b[j]}


# -- a device


def receive(device: Device, data: bytes) -> list[bytes]:
    """A message in, messages out."""
    return parties.receive(globals(), device, data)


def on_pad_seed(device: Device, found: Message) -> list[Message]:
    """Psi_i = G_i^(1) + Delta_i, Phi_i = X_i'X_i + Xi_i (eq. 6, 7), encrypted once for the devices of column i."""
    agreed, me = device.agreed, device.name
    assert me not in device.seeds, "data are padded once"
    seed = open_sealed(device.key, wire.unpacked(device.invited)[1], wire.context(found), found.body)
    device.shared[me] = parties.padded(device, [seed])
    mask, content_key = device.random(32), device.random(32)
    bulk = encrypt_bulk(content_key, wire.context(parties.message(device, "shares")), device.shared[me])
    commitments, envelopes = wire.committed({"mask": mask}, agreed, me, device.secret), []
    for other in agreed.members:
        if other.name != me and me in mask_factors(agreed, other.name):
            opens = [content_key, sha256(bulk)] if code_factors(agreed, other.name)[me] else [b"", b""]
            secrets = wire.packed(mask, b"", *opens)
            envelopes.append([other.name, parties.sealed(device, "share", other.name, other.run_key, secrets).body])
    device.seeds[me] = mask
    shares = parties.message(device, "shares", wire.packed(commitments, b"", envelopes), bulk)
    return [wire.signed(shares, device.secret), *ready_if_complete(device)]


def on_share(device: Device, found: Message) -> list[Message]:
    """Check the commitment, the seal and the digest of the bulk, then keep it; once more changes nothing."""
    agreed, owner = device.agreed, found.sender
    assert owner in mask_factors(agreed, device.name), "only whom this device needs shares with it"
    commitments, envelope = wire.unpacked(found.body, "lb")
    wire.check_committed(commitments, agreed, owner)
    secrets = open_sealed(device.key, agreed.member[owner].run_key, wire.context(found), envelope)
    mask_seed, _, content_key, digest = wire.unpacked(secrets, "bbbb")
    wire.check_fits(commitments, agreed, owner, "mask", mask_seed)
    assert device.seeds.get(owner, mask_seed) == mask_seed, "a device shares once"
    if code_factors(agreed, device.name)[owner]:
        bound = wire.context(Message("shares", device.run, agreed.hash, owner, ""))
        device.shared[owner] = decrypt_bulk(content_key, bound, digest, found.attachment)
    device.seeds[owner] = mask_seed
    return ready_if_complete(device)


def ready_if_complete(device: Device) -> list[Message]:
    """With all masks and shares: C_i = sum_j b_ij Psi_j and Cbar_i = sum_j b_ij Phi_j (eq. 8 and 9).

    Answers are masked by sum_j b_ij z_j, which cancels among answers to the same update.
    """
    agreed, b, (gram, constant) = device.agreed, code_factors(device.agreed, device.name), parties.zeros(device.terms)
    factors = mask_factors(agreed, device.name)
    if set(device.seeds) != set(factors):
        return []
    for owner, data in device.shared.items():
        phi, psi = parties.two_parts(agreed, data)
        gram, constant = add(gram, phi, b[owner]), add(constant, psi, b[owner])
    device.masks = {seed: factors[name] for name, seed in device.seeds.items()}
    return parties.is_ready(device, gram, constant)


# -- the server, and with it everything


def run(server: Server, p: Parameters, solver: Solver, stragglers: frozenset[str]) -> None:
    """A whole run: come together, give out pads, relay shares, then the epochs. ``stragglers`` never answer one."""
    parties.come_together(server, p, {}, {})
    agreed, primes, (gram, constant) = server.agreed, server.agreed.scales.primes, parties.zeros(p)
    for member in agreed.members:
        seed = server.random(32)  # of Delta_i and Xi_i; the server keeps their sums only
        xi, delta = parties.pads(seed, agreed, [0])
        gram, constant = add(gram, xi), add(constant, delta)
        pad_seed = parties.sealed(server, "pad-seed", member.name, member.run_key, seed)
        shares = parties.post(server, [member.name], pad_seed)[0]  # behind it may be that the device is ready
        verify(member.identity, wire.signed_part(shares), shares.signature)
        commitments, _, envelopes = wire.unpacked(shares.body, "lbl")
        for name, envelope in envelopes:
            bulk = shares.attachment if code_factors(agreed, name)[member.name] else b""
            parties.relayed(server, member.name, name, "share", wire.packed(commitments, envelope), bulk)

    def total(e: Matrix, answers: dict[str, list[int]]) -> list[int]:
        """Decode any D - alpha + 1 answers, then take the sum of the pads off with one product."""
        survivors = [name for name in answers if name not in stragglers][: len(agreed.names) - p.alpha + 1]
        seats = [agreed.names.index(name) for name in survivors]
        found = [-x for x in (product(rows_from(gram, p.d, 1, [0]), e, prod(primes)) if e else constant)]
        for factor, name in zip(decoding_vector(seats, len(agreed.names), p.alpha, primes), survivors, strict=True):
            found = add(found, answers[name], factor)
        return found

    parties.train(server, solver, total, agreed.names)

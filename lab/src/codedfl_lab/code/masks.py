"""Zero-sum masks: they cancel in the total, and hide everything else that the answers would show the server.

A code over a ring is exact, but plaintexts are tiny compared with M, so that lattice reduction would recover single
devices from the coded partial sums (tests/claims/test_server_learns_only_the_total.py shows it). Therefore device j
draws a mask seed; m_j(run, epoch, e) is the ring matrix it expands to, and z_j = m_j - m_(j+1), indices cyclic, so the
z_j sum to zero. Device i adds sum_j b_ij z_j to its answer. On decoding, the masks cancel whichever devices
answered. Collecting the terms of m_k: device i adds sum_k (b_ik - b_i,k-1) m_k.

With groups the chain of masks runs through all of them: the server learns no group's total either.

The stream is bound to the run and the digest of the update, so masks cancel among answers to the same e and no others:
a server that asks different devices for different e, or rolls a device back and asks it again, sees independent uniform
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from codedfl_lab.code.gradient_code import Code
from codedfl_lab.primes.pads import add_expanded
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring


def mask_senders(code: Code, i: int) -> list[int]:
    """Whose mask seeds device i needs: of those it answers for, and of the device after each of them."""
    support = code.row_support(i)
    return sorted({*support, *((j + 1) % code.n_devices for j in support)})


def mask_receivers(code: Code, j: int) -> list[int]:
    """Who needs device j's mask seed: the holders of column j and of column j - 1 of the code."""
    return sorted({*code.column_support(j), *code.column_support((j - 1) % code.n_devices)})


def mask_coefficients(code: Code, i: int) -> list[list[int]]:
    """For each prime, b_ik - b_i,k-1 along ``mask_senders(i)``."""
    support = code.row_support(i)
    rows = []
    for row in code.coefficients(i):
        b = dict(zip(support, row, strict=True))
        rows.append([b.get(k, 0) - b.get((k - 1) % code.n_devices, 0) for k in mask_senders(code, i)])
    return rows


def mask_label(run: bytes, update_digest: bytes) -> str:
    """The purpose of the streams m_j of one epoch: no other run and no other update has it."""
    return f"mask|{run.hex()}|{update_digest.hex()}"


def combined_mask(ring: Ring, code: Code, i: int, seeds: Mapping[int, bytes], label: str, count: int) -> Planes:
    """What device i adds to its answer of ``count`` numbers to the update that has this ``mask_label``."""
    # Invariant: answers that are decoded together carry the same label. Their masks are then made of the same m_k, and
    # sum_i a_i sum_j b_ij z_j = sum_j z_j = 0 for every decoding vector a.
    total = ring.zeros(count)
    ordered = [seeds[k] for k in mask_senders(code, i)]
    add_expanded(ring, total, mask_coefficients(code, i), ordered, label)
    return total

"""What cryptography costs on a microcontroller, as published, in the MACs that fleets are rated in.

One board, one library, one table: a NUCLEO-L4A6ZG (STM32L4A6, Cortex-M4 at 80 MHz) with wolfSSL 5.6.4, assembler for
Thumb-2, SHA-256 in the chip's hash unit (wolfSSL, IDE/STM32Cube/STM32_Benchmarks.md, section STM32L4A6Z). These are
whole library calls; ChaCha20's permutation alone has been brought down to 888 cycles for 64 bytes on such a core
(Hülsing, Rijneveld, Schwabe, ARMed SPHINCS, PKC 2016), half of what is charged here.

A MAC of a fleet is one of numbers of 48 bits. By ARM's table of instructions (Cortex-M4 Technical Reference Manual,
3.3) it takes six cycles at least there: a long multiply-add, two short ones, and two words loaded.
"""

from __future__ import annotations

from dataclasses import replace

from codedfl_lab.fleet.fleet import RATED_BITS, Fleet

CLOCK = 80e6  # cycles a second of the board
MIB = 2**20
CYCLES_PER_MAC = 6.0
MEASURED = {"ChaCha20": 2.894, "ChaCha20-Poly1305": 1.775, "HMAC-SHA256": 6.763}
"""MiB/s."""
MILLISECONDS = {"Ed25519 verify": 36.571, "Ed25519 sign": 16.047, "X25519": 31.625}
RING_MULTIPLE = 7.9
"""numpy's product modulo 2^64, which role keys take, over the compiled one modulo two primes: a fleet's MACs are its.

``make bench`` prints both. Charged in a column of its own: a microcontroller multiplies words of 32 bits at once.
"""


def macs_per_number(stream: str) -> float:
    """MACs for the six bytes of a number of 48 bits.

    >>> round(macs_per_number("ChaCha20"), 1)
    26.4
    """
    return CLOCK / (MEASURED[stream] * MIB) * RATED_BITS / 8 / CYCLES_PER_MAC


def macs_each(operation: str) -> float:
    """MACs for one public-key operation.

    >>> round(macs_each("X25519"))
    421667
    """
    return MILLISECONDS[operation] / 1000 * CLOCK / CYCLES_PER_MAC


def at_published_prices(fleet: Fleet) -> Fleet:
    """The fleet, charged for all cryptography as published for a microcontroller.

    >>> from codedfl_lab import Fleet
    >>> at_published_prices(Fleet.load("paper")).verification_macs > 4e5
    True
    """
    return replace(
        fleet,
        pad_macs_per_number=macs_per_number("ChaCha20"),
        seal_macs_per_number=macs_per_number("ChaCha20-Poly1305"),
        hash_macs_per_number=macs_per_number("HMAC-SHA256"),
        verification_macs=macs_each("Ed25519 verify"),
        signature_macs=macs_each("Ed25519 sign"),
        exchange_macs=macs_each("X25519"),
    )

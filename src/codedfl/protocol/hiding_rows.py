"""An owner's noise on X'X and X'Y, before its pads: what hides single rows in the total, from everybody and for good.

Drawn from a seed and the parameters that were agreed to, so that a repeated or restored upload has the very same noise,
in every run on the same terms: nobody can have it drawn again and average it away. Other parameters have other noise,
and another snapshot of the rows must have another seed: two totals with the same noise would differ by exact data.
"""

from __future__ import annotations

from codedfl.crypto.noise import cross_noise, gram_noise
from codedfl.crypto.sealed import digest_of
from codedfl.exact.fixed_point import FixedPoint
from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.typing import Planes


def noise_label(parameters: Parameters) -> str:
    """What tells the noise of one set of parameters from that of any other."""
    return digest_of([parameters.encode()]).hex()


def add_noise(format_: FixedPoint, gram: Planes, cross: Planes, seed: bytes, agreed: Agreement) -> None:
    """To one device's X'X (its triangle) and X'Y, in place."""
    ring, label = format_.ring, noise_label(agreed.parameters)
    one = [[1]] * len(ring.primes)
    ring.add_scaled(gram, one, [ring.from_integers(gram_noise(format_, seed, label))])
    ring.add_scaled(cross, one, [ring.from_integers(cross_noise(format_, cross.shape[-1], seed, label))])

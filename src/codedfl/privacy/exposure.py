"""What each party of a scheme sees, what follows from it, and what a collusion adds: computed, for ``codedfl privacy``.

What a set of parties can learn about single devices is linear algebra. All answers together are B (g + z) with the
masks z_j = m_j - m_(j+1); a combination of answers says something about the g exactly when the masks that the set does
not know drop out of it, and everything else is uniform whatever the data are. ``known_functionals`` computes what is
left; a device is exposed when its own g is among it. Small plaintexts add something only where masks are off (lattice
reduction). ``experiments/attacks`` carries out what is said here.

It does not count what the total itself says about a device: no scheme here adds noise.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from codedfl.code.gradient_code import Code, group_sizes, make_code
from codedfl.code.masks import mask_coefficients, mask_senders
from codedfl.errors import InvalidInput
from codedfl.exact.ring import Ring
from codedfl.privacy.row_reduction import Residues, left_null_space, multiplied, reduced
from codedfl.schemes import SCHEMES

ONE_DEVICE = "experiments.attacks.one_device"
CURIOUS_DEVICE = "experiments.attacks.curious_device"
COLLUSION = "experiments.attacks.collusion"
DISTINGUISHING = "experiments.attacks.distinguishing"
TWO_RUNS = "experiments.attacks.two_runs"


@dataclass(frozen=True)
class PrivacyRow:
    """One party or set of parties.

    exposed: how many single devices' sums (G^(1), with it X'Y) it learns beyond those of its own members.
    shown_by: the module whose attack or test carries it out.
    """

    party: str
    sees: str
    follows: str
    exposed: int
    shown_by: str


def known_functionals(code: Code, colluders: Collection[int] = (), masks: bool = True) -> Residues:
    """Reduced basis of all functionals of (g_1 .. g_D) that the server and the colluding devices know together.

    Modulo the first prime; a device that colludes brings the pads (or padded data) of its row of the code and the mask
    seeds it holds. The server alone is the empty set.
    """
    prime, n = code.primes[0], code.n_devices
    C = np.zeros((n, n), dtype=np.int64)
    if masks:
        for i in range(n):
            C[i, mask_senders(code, i)] = mask_coefficients(code, i)[0]
    known_masks = {k for i in colluders for k in mask_senders(code, i)}
    unknown = [k for k in range(n) if k not in known_masks]
    free = left_null_space(C[:, unknown], prime) if unknown else np.eye(n, dtype=np.int64)
    from_answers = multiplied(free, code.matrix()[0], prime)
    held = sorted({j for i in colluders for j in code.row_support(i)})
    return reduced(np.vstack([from_answers, np.eye(n, dtype=np.int64)[held]]), prime)[0]


def exposed_devices(code: Code, colluders: Collection[int] = (), masks: bool = True) -> set[int]:
    """Whose own g is among the known functionals: a unit row of the reduced basis."""
    functionals = known_functionals(code, colluders, masks)
    single = functionals[np.count_nonzero(functionals, axis=1) == 1]
    return {int(np.flatnonzero(row)[0]) for row in single}


def privacy_rows(
    scheme: str, n_devices: int, alpha: int = 1, *, groups: int = 1, masks: bool = True, delta: float = 0.1
) -> list[PrivacyRow]:
    """Per party what it sees and what follows; ``alpha``, ``groups`` and ``masks`` are for coded schemes."""
    if scheme not in SCHEMES:
        raise InvalidInput(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    if n_devices < 2:
        raise InvalidInput(f"the number of devices must be at least 2, got {n_devices}")
    if scheme == "coded-fedl":
        return _coded_fedl_rows(n_devices, delta)
    if scheme in ("coded-padded", "coded-keys", "one-shot"):
        return _coded_rows(scheme, n_devices, alpha, groups, masks)
    return _conventional_rows(n_devices)


def _conventional_rows(n_devices: int) -> list[PrivacyRow]:
    return [
        PrivacyRow(
            "server",
            "every device's gradient, every epoch it is in time",
            "each device's mean image per class from the first; single images of a device with few samples",
            n_devices,
            ONE_DEVICE,
        ),
        _curious_device("every model", n_devices),
        PrivacyRow("server and a device", "the same as the server", "nothing more", n_devices, ONE_DEVICE),
    ]


def _coded_fedl_rows(n_devices: int, delta: float) -> list[PrivacyRow]:
    return [
        PrivacyRow(
            "server",
            f"{delta:g} m parity rows of each device, and the gradients of those in time",
            "each device's mean image per class; single images of a device with few samples",
            n_devices,
            ONE_DEVICE,
        ),
        _curious_device("every model", n_devices),
        PrivacyRow("server and a device", "the same as the server", "nothing more", n_devices, ONE_DEVICE),
    ]


def _coded_rows(scheme: str, n_devices: int, alpha: int, groups: int, masks: bool) -> list[PrivacyRow]:
    sizes = group_sizes(n_devices, alpha, groups)
    code = make_code(n_devices, alpha, Ring.for_group_sizes(sizes).primes, groups)
    padded = scheme == "coded-padded"
    alone = known_functionals(code, (), masks)
    learns = (
        "the total of X'X and X'Y" if scheme == "one-shot" else "the total of G^(1) and of X'X e, for each e it sends"
    )
    if len(alone) > 1:
        learns += f", and {len(alone) - 1} more sums of a few devices: lattice reduction finds single ones"
    # The server's best partners. The code is cyclic within a group and device i is in group i modulo their number, so
    # the first partner may be any of its group, and one group of each size stands for all.
    firsts = [sizes.index(size) for size in sorted(set(sizes))]
    one = max((exposed_devices(code, [first], masks) for first in firsts), key=len)
    pairs = [[first, other] for first in firsts for other in range(n_devices) if other != first]
    two = max((exposed_devices(code, pair, masks) for pair in pairs), key=len)
    sees_updates = scheme != "one-shot"
    return [
        PrivacyRow(
            "server",
            ("ciphertext it relays, the pads it drew" if padded else "each device's padded upload")
            + (", masked answers" if masks else ", answers WITHOUT masks"),
            learns,
            len(exposed_devices(code, (), masks)),
            ONE_DEVICE,
        ),
        _curious_device(
            (f"padded data of {alpha - 1} others" if padded else f"32-byte pad seeds of {alpha - 1} others")
            + (", mask seeds, every e" if sees_updates else ", mask seeds, no e but zero"),
            n_devices,
            sees_updates,
        ),
        PrivacyRow(
            "all devices but one, without the server",
            "what each of them sees",
            (
                "the last one's sums: the total, from the updates, less their own, as in conventional FL; fewer learn "
                "the total of the others only; "
                if sees_updates
                else "nothing until the model is published; "
            )
            + ("padded data say nothing without the pads" if padded else "pads say nothing without the uploads"),
            1 if sees_updates else 0,
            DISTINGUISHING,
        ),
        PrivacyRow(
            "server, after two runs that differ by one device",
            "two totals",
            "that device's sums, by subtraction: totals are exact",
            1,
            TWO_RUNS,
        ),
        PrivacyRow(
            "server and one device",
            "the pads and the padded data of the devices that one answers for",
            _exposure(len(one), len(set(code.row_support(0))), n_devices),
            len(one) - 1,
            COLLUSION,
        ),
        PrivacyRow(
            "server and two devices (worst pair)",
            "the same for both, and the masks between them",
            _exposure(len(two), 2 * alpha, n_devices) if len(two) < n_devices else "all devices",
            max(0, len(two) - 2),
            COLLUSION,
        ),
    ]


def _curious_device(sees: str, n_devices: int, sees_updates: bool = True) -> PrivacyRow:
    """With two devices, the total less one's own is the other's."""
    if not sees_updates:
        return PrivacyRow("one device", sees, "nothing until the model is published", 0, CURIOUS_DEVICE)
    learns = "the total, from the updates, as in conventional FL; "
    alone = n_devices == 2
    learns += "less its own: the other device" if alone else "nothing of another device alone"
    return PrivacyRow("one device", sees, learns, int(alone), CURIOUS_DEVICE)


def _exposure(exposed: int, answered_for: int, n_devices: int) -> str:
    if exposed > answered_for:
        extra = exposed - answered_for
        return f"the {answered_for} devices answered for, and {extra} more by subtraction, of {n_devices}"
    return f"{exposed} of {n_devices} devices, those answered for, and the total of the others"

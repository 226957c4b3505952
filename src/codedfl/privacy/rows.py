"""What each party of a scheme sees, what follows from it, and what a collusion adds: the rows of ``codedfl privacy``.

How many are exposed is computed (``exposure``), what it means is said here. ``experiments/attacks`` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from codedfl.privacy.exposure import Exposure, coded_exposure

ONE_DEVICE = "experiments.attacks.one_device"
CURIOUS_DEVICE = "experiments.attacks.curious_device"
COLLUSION = "experiments.attacks.collusion"
DISTINGUISHING = "experiments.attacks.distinguishing"
TWO_RUNS = "experiments.attacks.two_runs"


@dataclass(frozen=True)
class PrivacyRow:
    """One party or set of parties.

    exposed: how many single devices' sums (G^(1), with it X'Y) it learns beyond those of its own members.
    shown_by: the module whose attack or test carries it out; empty where there is none.
    """

    party: str
    sees: str
    follows: str
    exposed: int
    shown_by: str = ""


def plain_rows(server_sees: str, exposure: Exposure, n_devices: int) -> list[PrivacyRow]:
    """For a scheme of which only this is known: what its server sees, and whom a collusion exposes."""

    def follows(exposed: int) -> str:
        return f"the data of {exposed} single devices" if exposed else "no single device's data"

    collusions = {"one device": exposure.one_colluder, "two devices (worst pair)": exposure.two_colluders}
    return [
        PrivacyRow("server", server_sees, follows(exposure.server_alone), exposure.server_alone),
        curious_device("every model", n_devices),
        *(
            PrivacyRow(f"server and {who}", "what each of them sees", follows(exposed), exposed)
            for who, exposed in collusions.items()
        ),
    ]


def baseline_rows(server_sees: str, server_learns: str, n_devices: int) -> list[PrivacyRow]:
    """The table of a scheme whose server sees every single device: no collusion adds anything."""
    alone, one, _ = (n_devices, n_devices - 1, n_devices - 2)
    return [
        PrivacyRow("server", server_sees, server_learns, alone, ONE_DEVICE),
        curious_device("every model", n_devices),
        PrivacyRow("server and a device", "the same as the server", "nothing more", one, ONE_DEVICE),
    ]


def coded_rows(n_devices: int, alpha: int, groups: int, *, padded: bool, one_shot: bool) -> list[PrivacyRow]:
    """Rows of a gradient-coded scheme: ``padded`` data or seeds are coded, and ``one_shot`` shows X'X, not X'X e."""
    exposure = coded_exposure(n_devices, alpha, groups)
    one, two = exposure.one_colluder + 1, exposure.two_colluders + 2
    return [
        PrivacyRow(
            "server",
            ("ciphertext it relays, the pads it drew" if padded else "each device's padded upload")
            + ", masked answers",
            "the total of X'X and X'Y" if one_shot else "the total of G^(1) and of X'X e, for each e it sends",
            exposure.server_alone,
            ONE_DEVICE,
        ),
        curious_device(
            (f"padded data of {alpha - 1} others" if padded else f"32-byte pad seeds of {alpha - 1} others")
            + (", mask seeds, no e but zero" if one_shot else ", mask seeds, every e"),
            n_devices,
            sees_updates=not one_shot,
        ),
        PrivacyRow(
            "all devices but one, without the server",
            "what each of them sees",
            (
                "nothing until the model is published; "
                if one_shot
                else "the last one's sums: the total, from the updates, less their own, as in conventional FL; fewer"
                " learn the total of the others only; "
            )
            + ("padded data say nothing without the pads" if padded else "pads say nothing without the uploads"),
            0 if one_shot else 1,
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
            _exposure(one, alpha, n_devices),
            exposure.one_colluder,
            COLLUSION,
        ),
        PrivacyRow(
            "server and two devices (worst pair)",
            "the same for both, and the masks between them",
            _exposure(two, 2 * alpha, n_devices) if two < n_devices else "all devices",
            exposure.two_colluders,
            COLLUSION,
        ),
    ]


def curious_device(sees: str, n_devices: int, sees_updates: bool = True) -> PrivacyRow:
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

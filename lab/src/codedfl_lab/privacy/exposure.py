"""Whom a collusion exposes, in numbers, for fleets of any size.

What a set of parties can learn is linear algebra on what it reads (``views``). For a gradient code with masks the
algebra has a short answer (``exposed_set``), which serves planners and large fleets; tests hold it to the algebra for
every collusion of one and two on small fleets.

It does not count what the total itself says about a device: noise is what hides rows in it (``calibration``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from codedfl_lab.code.gradient_code import group_sizes

_ALL_PAIRS = 60


@dataclass(frozen=True)
class Exposure:
    """How many honest devices' own sums (G^(1), with it X'Y) become known, those of the colluders not counted.

    server_alone: to the server by itself.
    one_colluder, two_colluders: to the server and the worst one or two devices.
    colluders: the number of devices that may collude with the server without exposing another; -1 if the server
        alone exposes one.
    """

    server_alone: int
    one_colluder: int
    two_colluders: int
    colluders: int

    @property
    def words(self) -> str:
        """One line for people."""
        if self.server_alone:
            return f"the server alone sees {_devices(self.server_alone)}"
        if not self.colluders:
            return f"one colluder exposes {_devices(self.one_colluder)} to the server"
        return f"no device is exposed by {'one colluder' if self.colluders == 1 else f'{self.colluders} colluders'}"

    @classmethod
    def of(cls, server_alone: int, one_colluder: int, two_colluders: int) -> Exposure:
        """From the three numbers; what more than two colluders learn is not asked."""
        exposed = [server_alone, one_colluder, two_colluders, 1]
        return cls(server_alone, one_colluder, two_colluders, next(i for i, n in enumerate(exposed) if n) - 1)

    @classmethod
    def everybody(cls, n_devices: int) -> Exposure:
        """The server sees every single device."""
        return cls.of(n_devices, n_devices - 1, max(0, n_devices - 2))

    @classmethod
    def beyond(cls, colluders: int, n_devices: int) -> Exposure:
        """Nobody is exposed up to ``colluders``, everybody from one more on; a last honest device always is."""
        two = n_devices - 2
        exposed = (
            0 if colluders >= 0 else n_devices,
            0 if colluders >= 1 and n_devices > 2 else n_devices - 1,
            0 if colluders >= 2 and n_devices > 3 else max(0, two),
        )
        return cls(*exposed, min(colluders, n_devices - 2))


def _devices(count: int) -> str:
    return "one device" if count == 1 else f"{count} devices"


def exposed_set(n_devices: int, alpha: int, groups: int, colluders: Collection[int]) -> set[int]:
    """The devices, colluders included, that ``coded_views`` exposes for a masked code: held, or alone between held.

    A colluder holds the pads and data of its row, and the mask seeds of those and of their successors. So a
    combination w of the answers is free of unknown masks exactly when w is constant along each run of devices that
    nobody holds (cyclic in the order of all devices). Within a group that has a colluder w may take any values there:
    the rows are an MDS code, and at most size - alpha places are not held. In a group without one it is a word of the
    code, of at least alpha non-zeros, so with alpha > 1 no single device can stand out.
    """
    held = {j for i in colluders for j in _row(n_devices, alpha, groups, i)}
    met = {i % groups for i in colluders}
    between = {
        j
        for j in {(i + 1) % n_devices for i in held} - held
        if (j + 1) % n_devices in held and (alpha == 1 or j % groups in met)
    }
    return held | between


def _row(n_devices: int, alpha: int, groups: int, i: int) -> list[int]:
    """``row_support`` without making the code."""
    group, place = i % groups, i // groups
    size = len(range(group, n_devices, groups))
    return [(place + s) % size * groups + group for s in range(alpha)]


@lru_cache(maxsize=1024)
def coded_exposure(n_devices: int, alpha: int, groups: int = 1) -> Exposure:
    """Exposure of a masked gradient code, over all pairs; above ``_ALL_PAIRS`` devices over one of each group size."""
    sizes = group_sizes(n_devices, alpha, groups)
    everyone = range(n_devices)
    firsts = everyone if n_devices <= _ALL_PAIRS else [sizes.index(size) for size in sorted(set(sizes))]
    one = max(len(exposed_set(n_devices, alpha, groups, [i])) for i in firsts)
    two = max(len(exposed_set(n_devices, alpha, groups, [i, j])) for i in firsts for j in everyone if j != i)
    return Exposure.of(0, one - 1, two - 2)

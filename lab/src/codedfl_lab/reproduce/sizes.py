"""Schemes on fleets of other sizes: ours against conventional FL, and other secure aggregation beside ours.

The fleet's mix is scaled, and each device has as many samples as before; epochs to the target are those at the size
that was trained, since exact models do not depend on who holds what.

The journal's CodedSecAgg and LightSecAgg cannot be run here; both are timed by the formulas of the authors' simulation
(``codedfl_lab.baselines``). One convention for all: the same fleet, setup, server, numbers of 48 bits, mean transfers,
and the epochs that each one's own models need. LightSecAgg adds up mini-batch gradients as conventional FL does; the
others have exact ones, and so every solver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl.typing import Seconds
from codedfl_lab.baselines.coded_secagg import CodedSecAgg
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.light_secagg import LightSecAgg
from codedfl_lab.comparing.comparison import Entry, Settings, Trained
from codedfl_lab.comparing.results import AtSize
from codedfl_lab.comparing.timed_scheme import TimedScheme, Workload
from codedfl_lab.costs.times import Conditions, Draws, epoch_end_times
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.role_keys import RoleKeys

CHUNK_BITS = 12_000  # a packet of 1 500 bytes, each with its own retransmissions
FLEET_SIZES = (25, 50, 120, 250, 500, 1000)
PEER_SIZES = (25, 120, 1000)
PEER_COLLUDERS = (1, 10)
GROUP_SIZE = 25
_BITS = 48  # the authors' code has 72 for CodedSecAgg alone
_DRAWS = 20


def at_size(size: int, trained: Trained, settings: Settings) -> tuple[Trained, Settings]:
    """The same race on the fleet's mix at another size, each device with as many samples."""
    shape = replace(trained.shape, samples=np.full(size, int(trained.shape.samples.max())))
    fleet = settings.at.fleet.scaled_to(size)
    return replace(trained, shape=shape), replace(settings, at=replace(settings.at, fleet=fleet))


def speedups_against_devices(dataset: str, trained: Trained, settings: Settings) -> list[AtSize]:
    """Seconds, and times faster than conventional FL, on the fleet's mix at other sizes.

    For every scheme and solver the fastest of a few alphas is taken, as the planner would; ``chosen`` marks the
    fastest of all. Sizes at which conventional FL never gets there have no rows.
    """
    rows: list[AtSize] = []
    for size in FLEET_SIZES:
        at = Conditions(settings.at.fleet.scaled_to(size), "multicast", settings.at.policy, CHUNK_BITS)
        best: dict[tuple[str, str], TimedScheme] = {}
        for timed in _timed(_at_any_size(size), trained, settings, at, stream=3):
            method = timed.scheme, timed.solver
            if method not in best or timed.seconds_mean < best[method].seconds_mean:
                best[method] = timed
        conventional = best.get((Conventional.name, "gd"))
        if conventional is None:
            continue
        # One-shot is the floor: it shows the server the whole total Gram matrix.
        fastest = min((one for one in best.values() if one.scheme != OneShot.name), key=lambda one: one.seconds_mean)
        rows += [
            AtSize(dataset, size, at.sharing, True, one, conventional.seconds_mean / one.seconds_mean, one is fastest)
            for one in best.values()
        ]
    return rows


def peers_at_sizes(dataset: str, trained: Trained, settings: Settings) -> list[AtSize]:
    """Other secure aggregation beside ours; a scheme that never gets there has no row."""
    return [
        AtSize(dataset, size, at.sharing, False, timed)
        for size in PEER_SIZES
        for at in (Conditions(settings.at.fleet.scaled_to(size), "authors", settings.at.policy),)
        for timed in _timed(_peers(size), trained, settings, at, stream=4)
    ]


def _timed(
    entries: Iterable[Entry], trained: Trained, settings: Settings, at: Conditions, stream: int
) -> Iterator[TimedScheme]:
    """Those that reach the last target, by the epochs of the trajectory that was trained."""
    size = at.fleet.n_devices
    work = Workload(at_size(size, trained, settings)[0].shape, at, _DRAWS)
    epochs = {one: trained.median_epochs(one, settings.targets[-1]) for one in entries}
    drawn: dict[Scheme, tuple[Seconds, Seconds]] = {}  # one set of latencies serves every solver of a scheme
    for entry, count in sorted(epochs.items(), key=lambda one: -(one[1] or 0)):
        if count is not None and entry.scheme not in drawn:
            draws = Draws(_DRAWS, np.random.default_rng([size, stream]))
            drawn[entry.scheme] = epoch_end_times(entry.scheme, work.shape, at, count, draws)
    for entry, count in epochs.items():
        if count is not None:
            start, ends = drawn[entry.scheme]
            yield TimedScheme.of(entry.scheme, entry.solver, work, start, ends[:, :count])


def _at_any_size(size: int) -> Iterator[Entry]:
    groups = 1 if size <= 2 * GROUP_SIZE else round(size / GROUP_SIZE)
    members = size // groups
    yield as_the_paper(Conventional())
    for solver in ("cg", BLOCK_KRYLOV):
        yield as_the_paper(ConventionalFullBatch(), solver)
    for solver in ("gd", BLOCK_KRYLOV):
        narrow = solver != "gd"  # descent is timed on the ring that it was trained on
        yield from (as_the_paper(replace(one, narrow=narrow), solver) for one in RoleKeys.tolerating(1, size))
    for alpha in sorted({max(1, round(part * members)) for part in (0.4, 0.64, 0.8, 0.92, 1.0)}):
        yield as_the_paper(CodedPadded(alpha, groups))
        for solver in ("gd", "cg", BLOCK_KRYLOV):
            yield as_the_paper(CodedKeys(alpha, groups), solver)
        yield as_the_paper(OneShot(alpha, groups))


def _peers(size: int) -> Iterator[Entry]:
    groups = max(1, size // GROUP_SIZE)
    while size % groups:
        groups += 1
    yield as_the_paper(Conventional())
    yield as_the_paper(ConventionalFullBatch(), BLOCK_KRYLOV)
    for z in PEER_COLLUDERS:
        yield as_the_paper(LightSecAgg(z))
    for solver in ("gd", BLOCK_KRYLOV):
        yield as_the_paper(CodedPadded(size // groups, groups), solver)
        for z in PEER_COLLUDERS:
            yield as_the_paper(CodedSecAgg(z, groups, _BITS), solver)
            yield from (as_the_paper(scheme, solver) for scheme in RoleKeys.tolerating(z, size))

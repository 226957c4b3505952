"""Other secure aggregation beside ours at three sizes: the journal's CodedSecAgg, and LightSecAgg.

Neither can be run here; both are timed by the formulas of the authors' simulation (``schemes.baselines``). One
convention for all: the same fleet, setup, server, numbers of 48 bits, mean transfers, and the epochs that each one's
own models need. LightSecAgg adds up mini-batch gradients as conventional FL does; the others have exact ones, and so
every solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Entry, Settings, Trained
from codedfl_lab.comparing.results import PeerRow
from codedfl_lab.costs import (
    CodedPadded,
    CodedSecAgg,
    Conditions,
    Conventional,
    ConventionalFullBatch,
    LightSecAgg,
    RoleKeys,
    Scheme,
)
from codedfl_lab.planning.planner import timed_plan

SIZES = (25, 120, 1000)
COLLUDERS = (1, 10)
GROUP_SIZE = 25
_BITS = 48  # the authors' code has 72 for CodedSecAgg alone
_DRAWS = 20


def peer_rows(dataset: str, target: float, trained: Trained, settings: Settings) -> list[PeerRow]:
    """Time to the target, and what a device sends and everybody bears; a scheme that never gets there has no row."""
    per_device = int(trained.shape.samples.max())
    rows = []
    for size in SIZES:
        at = Conditions(settings.fleet.scaled_to(size), "authors", settings.policy)
        shape = replace(trained.shape, samples=np.full(size, per_device))
        for scheme, solver in _schemes(size):
            epochs = trained.median_epochs(Entry(scheme, solver, paper.STEP), target)
            if epochs is None:
                continue
            made = timed_plan(scheme, solver, epochs, shape, at, _DRAWS, np.random.default_rng([size, 4]))
            rows.append(
                PeerRow(
                    dataset=dataset,
                    devices=size,
                    scheme=scheme.name,
                    solver=solver,
                    label=scheme.label,
                    epochs=epochs,
                    seconds=made.seconds_mean,
                    sharing_seconds=made.sharing_seconds,
                    device_bytes=made.upload_bytes + made.download_bytes,
                    stragglers=made.stragglers,
                    colluders=made.colluders,
                    server_sees=made.server_sees,
                )
            )
    return rows


def _schemes(size: int) -> Iterator[tuple[Scheme, str]]:
    groups = max(1, size // GROUP_SIZE)
    while size % groups:
        groups += 1
    yield Conventional(), "gd"
    yield ConventionalFullBatch(), BLOCK_KRYLOV
    for z in COLLUDERS:
        yield LightSecAgg(z), "gd"
    for solver in ("gd", BLOCK_KRYLOV):
        yield CodedPadded(size // groups, groups), solver
        for z in COLLUDERS:
            yield CodedSecAgg(z, groups, _BITS), solver
            yield from ((scheme, solver) for scheme in RoleKeys.tolerating(z, size))

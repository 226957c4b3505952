"""Two worlds that differ in who holds which data: can another party tell them apart from its view?

Devices 0 and 1 swap their local data; the total, which the server may learn, is the same in both worlds. Each world is
run many times with fresh secrets, and every number in the views of the server and of device 2, and random combinations
of them modulo p (for what no single number shows), are compared between the worlds: by Kolmogorov and Smirnov's test,
and by a chi-square test on bins. Bonferroni's correction makes ``LEVEL`` the probability that worlds that are the same
are called different.

The test has teeth: with the pads used again in every run (the run's name and the secrets of the server and device 0
repeated on purpose), or with masks off, the same test tells the worlds apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from codedfl.fixed_point import Bounds
from codedfl.in_process import run_in_process
from codedfl.protocol import Parameters
from codedfl.schemes import CodedScheme
from codedfl.solvers import ClosedForm, GradientDescent
from codedfl.views import Recording, View, recorded
from experiments.attacks.coded_run import coded_sums

Floats = NDArray[np.float64]
Fault = Literal["none", "pads reused", "masks off"]

LEVEL = 0.001
DEVICES, FEATURES, OUTPUTS, ROWS = 3, 2, 1, 2
OBSERVER = "device-2"
_BINS = 16
_COMBINATIONS = 8
_EPOCHS = 2


@dataclass(frozen=True)
class Comparison:
    """The smallest p-value over all tests on one party's view, corrected for their number."""

    scheme: str
    alpha: int
    party: str
    fault: Fault
    runs_per_world: int
    tests: int
    p_value: float

    @property
    def distinguishable(self) -> bool:
        return self.p_value < LEVEL


def compare_worlds(scheme: CodedScheme, runs: int, seed: int, fault: Fault = "none") -> list[Comparison]:
    """The views of the server and of device 2 in ``runs`` runs of each world."""
    rng = np.random.default_rng(seed)
    data = [(rng.uniform(-1, 1, (ROWS, FEATURES)), rng.uniform(-1, 1, (ROWS, OUTPUTS))) for _ in range(DEVICES)]
    swapped = [data[1], data[0], *data[2:]]
    seen: dict[str, list[Floats]] = {"server": [], OBSERVER: []}
    for world, held in enumerate((data, swapped)):
        views: dict[str, list[Floats]] = {party: [] for party in seen}
        for run in range(runs):
            recording = _run(scheme, held, random.Random(f"{seed} {world} {run}").randbytes, fault)
            views["server"].append(_server_numbers(recording.server))
            views[OBSERVER].append(_device_numbers(recording.device(OBSERVER)))
        for party, rows in views.items():
            seen[party].append(np.array(rows))
    return [
        Comparison(scheme.name, scheme.alpha, party, fault, runs, *_smallest_p(worlds, rng))
        for party, worlds in seen.items()
        if worlds[0].shape[1]
    ]


def _run(
    scheme: CodedScheme, data: list[tuple[Floats, Floats]], fresh: Callable[[int], bytes], fault: Fault
) -> Recording:
    recording = Recording(["", OBSERVER])
    watched = recorded(scheme, recording)
    names = [f"device-{i}" for i in range(DEVICES)]
    samples = DEVICES * ROWS
    parameters = Parameters(
        scheme.name,
        scheme.alpha,
        FEATURES,
        OUTPUTS,
        Bounds(1.0, 1.0, samples, ROWS),
        samples=samples,
        masks=fault != "masks off",
        reveals_gram=scheme.reveals_gram,
    )

    def source(party: int) -> Callable[[int], bytes]:
        """Fresh secrets; for the fault, the server (party -1) and device 0 draw the same in every run."""
        return random.Random(party).randbytes if fault == "pads reused" and party <= 0 else fresh

    solver = ClosedForm() if scheme.reveals_gram else GradientDescent(_EPOCHS)
    server = watched.server_type(parameters, names, solver, random_bytes=source(-1))
    devices = [
        watched.device_type(name, X, Y, random_bytes=source(i), allow_unmasked=fault == "masks off")
        for i, (name, (X, Y)) in enumerate(zip(names, data, strict=True))
    ]
    run_in_process(server, devices)
    return recording


def _server_numbers(view: View) -> Floats:
    """Residues of the first prime in [0, 1): uploads, answers of all epochs, and the coded sums without their pads."""
    planes = [coded_sums(view)]
    planes += [part for upload in view.uploads().values() for part in (upload.gram, upload.constant)]
    epochs = range(1, 2 if view.agreed.parameters.reveals_gram else _EPOCHS + 1)
    planes += [answer for epoch in epochs for _, answer in sorted(view.answers(epoch).items())]
    return _fractions(view, planes)


def _device_numbers(view: View) -> Floats:
    """The padded data it was given; in coded-keys it is given none, only seeds that depend on no data."""
    planes = [part for held in view.padded_data().values() for part in (held.gram, held.constant)]
    if not planes:
        seeds = [secrets.pad for secrets in view.shares().values() if secrets.pad]
        return np.array([int.from_bytes(seed[:8], "little") / 2**64 for seed in seeds])
    return _fractions(view, planes)


def _fractions(view: View, planes: list[NDArray[np.float32]]) -> Floats:
    prime = view.agreed.fixed_point.ring.primes[0]
    return np.concatenate([plane[0].reshape(-1).astype(np.float64) % prime / prime for plane in planes])


def _smallest_p(worlds: list[Floats], rng: np.random.Generator) -> tuple[int, float]:
    """(number of tests, smallest p-value times that number), over all numbers and some random combinations."""
    count = worlds[0].shape[1]
    # Small whole coefficients: sums of residues divided by p, modulo 1, are residues again.
    mixing = rng.integers(-3, 4, (count, _COMBINATIONS))
    both = [np.hstack([world, world @ mixing % 1.0]) for world in worlds]
    p_values: list[float] = []
    for one, other in zip(both[0].T, both[1].T, strict=True):
        p_values.append(float(stats.ks_2samp(one, other).pvalue))
        table = np.stack([np.histogram(values, _BINS, (0.0, 1.0))[0] for values in (one, other)])
        # Where both worlds never fall, there is nothing to compare.
        p_values.append(float(stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue))
    return len(p_values), min(1.0, min(p_values) * len(p_values))

"""Two worlds that differ in who holds which data: can another party tell them apart from its view?

Devices 0 and 1 swap their local data; the total, which the server may learn, is the same in both worlds. Each world is
run many times with fresh secrets, and the numbers in the views of the server and of device 2 are compared between the
worlds, by Kolmogorov and Smirnov's test and by a chi-square test on bins:

* every number by itself, also every coded sum of every epoch with the pads taken off (``coded_run.coded_sums``): under
  fresh pads an answer is uniform whatever the masks do, so only what is left without them says something of the masks;
* sums and differences of two numbers at the same place, of two devices or of two epochs: a mask used twice drops out;
* random combinations of all numbers modulo p, for what no pair shows.

Bonferroni's correction makes ``LEVEL`` the probability that worlds that are the same are called different.

The test has teeth: the same test tells the worlds apart under each of the faults in ``Fault``. "pads reused" has the
run's name and the secrets of the server and of device 0 repeated in every run.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.device_sharing import CodedDeviceSharing
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl.typing import Planes
from experiments.attacks.coded_run import EPOCHS, coded_sums, epochs_of
from experiments.attacks.roles import uploads_less_answers
from experiments.views import Recording, View, recorded

Floats = NDArray[np.float64]
Fault = Literal["none", "pads reused", "masks off", "masks off after epoch 1", "same masks every epoch"]

LEVEL = 0.001
FEATURES, OUTPUTS, ROWS = 2, 1, 2
OBSERVER = "device-2"
_BINS = 16
_COMBINATIONS = 8


@dataclass(frozen=True)
class Comparison:
    """The smallest p-value over all tests on one party's view, corrected for their number."""

    scheme: str
    alpha: int
    groups: int
    party: str
    fault: Fault
    runs_per_world: int
    tests: int
    p_value: float

    @property
    def distinguishable(self) -> bool:
        return self.p_value < LEVEL


def faults_for(scheme: CodedScheme) -> list[Fault]:
    """What can be broken on purpose; one-shot has no later epoch for two of them, role keys have no masks."""
    if isinstance(scheme, RoleKeys):
        return ["pads reused"]
    late = ("masks off after epoch 1", "same masks every epoch")
    return [fault for fault in get_args(Fault)[1:] if not (scheme.reveals_gram and fault in late)]


def compare_worlds(scheme: CodedScheme, runs: int, seed: int, fault: Fault = "none") -> list[Comparison]:
    """The views of the server and of device 2 in ``runs`` runs of each world.

    A party that is given no number that could depend on data (device 2 in one-shot: only seeds) is left out.
    """
    rng = np.random.default_rng(seed)
    alpha, groups = scheme.agreed["alpha"], scheme.agreed.get("groups", 1)
    devices = max(3, 2 * groups)  # with groups, the two that swap are in different ones
    data = [(rng.uniform(-1, 1, (ROWS, FEATURES)), rng.uniform(-1, 1, (ROWS, OUTPUTS))) for _ in range(devices)]
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
        Comparison(scheme.name, alpha, groups, party, fault, runs, *_smallest_p(worlds, rng))
        for party, worlds in seen.items()
        if worlds[0].shape[1]
    ]


def _run(
    scheme: CodedScheme, data: list[tuple[Floats, Floats]], fresh: Callable[[int], bytes], fault: Fault
) -> Recording:
    recording = Recording(["", OBSERVER])
    names = [f"device-{i}" for i in range(len(data))]
    samples = len(data) * ROWS
    parameters = Parameters(
        scheme.name,
        n_features=FEATURES,
        n_outputs=OUTPUTS,
        bounds=Bounds(1.0, 1.0, samples, ROWS),
        samples=None if isinstance(scheme, RoleKeys) else samples,
        masks=fault != "masks off",
        **scheme.agreed,
        reveals_gram=scheme.reveals_gram,
    )

    def source(party: int) -> Callable[[int], bytes]:
        """Fresh secrets; for the fault, the server (party -1) and device 0 draw the same in every run.

        The run's id and the run keys are the same in all, so that devices sit at the same places of the code.
        """
        draw = random.Random(party).randbytes if fault == "pads reused" and party <= 0 else fresh
        if party < 0:
            return lambda count: bytes(count) if count == RUN_ID_BYTES else draw(count)
        run_key = iter([random.Random(f"key {party}").randbytes(KEY_BYTES)])  # a device draws it first
        return lambda count: next(run_key, b"") or draw(count)

    solver = ClosedForm(9e-6) if scheme.reveals_gram else GradientDescent(EPOCHS, 9e-6, STEP_PAPER)
    plan = RunPlan(_broken(scheme.sharing_scheme, fault), parameters, tuple(names))
    with recorded(recording):
        server = Server(plan, solver, random_bytes=source(-1))
        devices = [
            Device(plan, name, Rows(X, Y), identity=Identity(bytes([i]) * 32), random_bytes=source(i))
            for i, (name, (X, Y)) in enumerate(zip(names, data, strict=True))
        ]
        run_in_process(server, devices)
    return recording


def _broken(scheme: SharingScheme, fault: Fault) -> SharingScheme:
    """A scheme whose devices' masks go wrong from the second epoch on, if that is the fault."""
    masked: Any = scheme.device
    if not issubclass(masked, CodedDeviceSharing):
        return scheme

    def unmasked(self: Any, digest: bytes, count: int) -> Planes:
        self.masked = getattr(self, "masked", 0) + 1
        mask: Planes = masked.mask(self, digest, count) if self.masked == 1 else self._session.agreed.ring.zeros(count)
        return mask

    def repeated(self: Any, digest: bytes, count: int) -> Planes:
        del digest
        mask: Planes = masked.mask(self, bytes(32), count)
        return mask

    methods = {"masks off after epoch 1": unmasked, "same masks every epoch": repeated}
    if fault not in methods:
        return scheme
    return replace(scheme, device=type(masked.__name__, (masked,), {"mask": methods[fault]}))


def _server_numbers(view: View) -> Floats:
    """Coded sums without their pads (of role keys uploads less the sums of pads), answers as they came, uploads."""
    sums = uploads_less_answers if view.agreed.roles else coded_sums
    uploads, epochs = view.uploads(), epochs_of(view)
    answers = [np.stack([answer for _, answer in sorted(view.answers(epoch).items())], axis=1) for epoch in epochs]
    kinds = [[sums(view, epoch) for epoch in epochs], answers]
    if uploads:
        kinds += [[np.stack([getattr(one, part) for one in uploads.values()], axis=1)] for part in ("gram", "constant")]
    return _with_pairs(view, kinds)


def _device_numbers(view: View) -> Floats:
    """The padded data it was given (none in coded-keys and one-shot), and every e."""
    held = list(view.padded_data().values())
    kinds = [[np.stack([getattr(one, part) for one in held], axis=1)] for part in ("gram", "constant") if held]
    # The first e is 0 and says nothing.
    updates = [view.update_on_ring(epoch) for epoch in epochs_of(view) if epoch > 1]
    return _with_pairs(view, [*kinds, *([update.reshape(len(update), 1, -1)] for update in updates)])


def _with_pairs(view: View, kinds: list[list[Planes]]) -> Floats:
    """All numbers in [0, 1), and sums and differences modulo 1 of two at the same place of devices or epochs.

    A kind is a list over epochs of (P, devices, numbers); its first prime is taken.
    """
    prime = view.agreed.fixed_point.ring.primes[0]
    found: list[NDArray[np.int64]] = []
    for planes in kinds:
        epochs = [plane[0].astype(np.int64) for plane in planes]
        pairs = [pair for numbers in epochs for pair in itertools.combinations(numbers, 2)]
        shortest = min(numbers.shape[1] for numbers in epochs)  # where rows are counted, the first epoch has one more
        pairs += list(itertools.combinations([numbers[:, :shortest] for numbers in epochs], 2))
        found += epochs
        found += [one + sign * other for one, other in pairs for sign in (1, -1)]
    return np.concatenate([np.zeros(0), *(numbers.reshape(-1) % prime / prime for numbers in found)])


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

"""A device goes after another's data, from the shares or seeds it holds and all updates it sees.

* shares (coded-padded): the padded data of the devices it answers for, taken as they are, and the difference of two of
  them (a pad used twice would drop out);
* seeds (coded-keys, one-shot): the pads they expand to; data of others never come near it;
* updates (every scheme): the first step from Theta = 0 is the total, scaled; also less its own data.

The updates bring it to the yardstick, as in conventional FL, and nothing brings it further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto import pads
from codedfl.protocol.prepared_pad import CONSTANT
from codedfl.protocol.schemes.descriptor import CodedScheme, Scheme
from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, Descent, Training
from codedfl_lab.costs.times import models as models_of
from experiments.attacks.coded_run import class_sum, column, run_recorded
from experiments.attacks.one_device import Attempt, Case
from experiments.attacks.setting import Setting, Target
from experiments.views import View

Floats = NDArray[np.float64]

ATTACKER = 0
_REGULARISATION = 9e-6


def attempts_on(case: Case, setting: Setting, totals: CentralTotals, rng: np.random.Generator) -> Iterator[Attempt]:
    """Against every class of every other device."""
    targets = [target for target in setting.targets() if target.device != ATTACKER]
    if isinstance(case.scheme, CodedScheme):
        name = setting.problem.device_names[ATTACKER]
        view = run_recorded(case.scheme, setting.problem, only=[name]).device(name)
        yield from _from_shares(view, setting.problem.device_names, targets)
        # The first epoch has e = 0; the second brings the first step. One-shot has no second.
        step = view.updates().get(2)
    else:
        step = _first_step(case.scheme, setting, totals, rng)
    if step is not None:
        yield Attempt("updates", {target: step[:, target.label] for target in targets}, {})
        own = setting.problem.rows_of(ATTACKER)
        mine = setting.problem.X[own].T.astype(np.float64) @ setting.problem.Y[own]
        others = step * (setting.problem.n_samples / STEP_PAPER(1)) - mine
        yield Attempt("updates less own data", {target: others[:, target.label] for target in targets}, {})


def _first_step(scheme: Scheme, setting: Setting, totals: CentralTotals, rng: np.random.Generator) -> Floats:
    """Theta after the first epoch of a baseline, which every device is sent."""
    descent, at = Descent(STEP_PAPER, _REGULARISATION), Conditions(setting.fleet)
    solver = GradientDescent(1, _REGULARISATION, STEP_PAPER)
    return next(iter(models_of(scheme, Training(totals, solver, descent, at, rng))))


def _from_shares(view: View, device_names: Sequence[str], targets: list[Target]) -> Iterator[Attempt]:
    agreed = view.agreed
    ring, length = agreed.fixed_point.ring, agreed.parameters.constant_length
    shared = {name: held.constant for name, held in view.padded_data().items()}
    expanded = {
        name: pads.expand(ring, secrets.pad, CONSTANT, length) for name, secrets in view.shares().items() if secrets.pad
    }
    for what, held in (("shares", shared), ("seeds", expanded)):
        # Of a device it holds nothing of, it finds nothing.
        aimed = {target: held.get(device_names[target.device]) for target in targets}
        if not held:
            continue
        yield Attempt(
            what,
            {
                target: None if planes is None else class_sum(view, column(view, planes, target.label))
                for target, planes in aimed.items()
            },
            {},
        )
    if len(shared) > 1:
        found: dict[Target, Floats | None] = {}
        names = list(shared)
        for target in targets:
            name = device_names[target.device]
            found[target] = None
            if name in shared:
                other = names[names.index(name) - 1]
                difference = ring.add(shared[name], shared[other], sign=-1)
                found[target] = class_sum(view, column(view, difference, target.label))
        yield Attempt("difference of two shares", found, {})

"""What it takes to begin with the first whole groups: role keys' costs, other waiting, and a model of fewer rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from codedfl.typing import Floats, Seconds
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.coded import Clock, coded_costs, coded_load, role_sharing, role_uploads, uploads_there
from codedfl_lab.costs.times import (
    TrainingTimes,
    WorkShape,
    device_costs,
    epoch_load,
    is_narrow,
    models,
    models_key,
    order_of_devices,
    sharing,
)
from codedfl_lab.schemes.groups_first import GroupsFirst

epoch_load.register(GroupsFirst, coded_load)
sharing.register(GroupsFirst, role_sharing)
device_costs.register(GroupsFirst, coded_costs)


@uploads_there.register(GroupsFirst)
def first_groups_there(scheme: GroupsFirst, uploaded: Seconds) -> Seconds:
    """When enough groups are complete."""
    return scheme.begins(uploaded)


@models_key.register(GroupsFirst)
def key_without_late_groups(scheme: GroupsFirst) -> Hashable:
    """The share of rows that is missing says what the model is like, whatever the size of the fleet."""
    return "without late groups", round(scheme.part_left_out, 6), is_narrow(scheme)


@models.register(GroupsFirst)
def models_without_late_groups(scheme: GroupsFirst, by: TrainingTimes) -> Iterator[Floats]:
    """The centralised models of the rows that were there first; who was late is drawn once for a training."""
    problem, at = by.totals.problem, by.at
    shape = WorkShape.of(problem, by.totals.precision)
    order = order_of_devices(scheme, shape, at, by.rng)
    ordered = at.in_order(order)
    uploaded = role_uploads(scheme, shape, ordered, Clock(ordered, 1, by.rng))[0]
    late = [problem.device_names[order[position]] for position in scheme.late_positions(uploaded)]
    assert by.solver is not None
    kept = problem.without(late) if late else problem
    return CentralTotals(kept, precision=by.totals.precision).train(by.solver, narrow=is_narrow(scheme))

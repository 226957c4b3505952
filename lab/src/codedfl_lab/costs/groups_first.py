"""What it takes to begin with the first whole groups: role keys' costs, other waiting, and a model of fewer rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from codedfl.typing import Floats, Seconds
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.coded import coded_costs, coded_load, coded_sharing, uploads_there
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
from codedfl_lab.fleet.fleet import SIGNING
from codedfl_lab.fleet.latency import Bulk, seal_macs, upload_times
from codedfl_lab.schemes.groups_first import GroupsFirst

epoch_load.register(GroupsFirst, coded_load)
sharing.register(GroupsFirst, coded_sharing)
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
    shape = shape.on_ring_of(scheme)
    signing = SIGNING * seal_macs(at.fleet, shape.bulk_bits)
    bulk = Bulk(shape.bulk_bits, at.sharing, macs_to_send=signing, chunk_bits=at.chunk_bits)
    uploaded = upload_times(at.in_order(order).times, bulk, 1, by.rng)[0]
    late = [problem.device_names[order[position]] for position in scheme.late_positions(uploaded)]
    assert by.solver is not None
    kept = problem.without(late) if late else problem
    return CentralTotals(kept, precision=by.totals.precision).train(by.solver, narrow=is_narrow(scheme))

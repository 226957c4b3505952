"""What a scheme costs, how long it takes and what models it makes: functions about its descriptor."""

from __future__ import annotations

from codedfl_lab.costs import coded as _coded  # what the coded schemes add to the functions of ``times``
from codedfl_lab.costs.times import (
    Conditions,
    Descent,
    DeviceCosts,
    Draws,
    EpochLoad,
    Sharing,
    WorkShape,
    device_costs,
    end_times,
    epoch_end_times,
    epoch_load,
    failures_survived,
    models,
    models_key,
    order_of_devices,
    sharing,
    stragglers,
)

__all__ = [
    "Conditions",
    "Descent",
    "DeviceCosts",
    "Draws",
    "EpochLoad",
    "Sharing",
    "WorkShape",
    "device_costs",
    "end_times",
    "epoch_end_times",
    "epoch_load",
    "failures_survived",
    "models",
    "models_key",
    "order_of_devices",
    "sharing",
    "stragglers",
]
del _coded

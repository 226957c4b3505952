"""How much memory a device and a whole phase 1 take at the paper's size (d = 2000, D = 25, alpha = 23).

Runs phase 1 of role keys and of both coded schemes in one process on made-up features and reports

* what one device holds when phase 1 is over, and the most it held on the way (allocations traced while it handles
  messages, its own raw data not counted: they are the user's; the pads that it made before the call are); with role
  keys it is an owner and a key holder, and pads are added up as seeds arrive,
* the process's peak resident size after phase 1.

    python -m experiments.memory [--d 2000] [--devices 25] [--alpha 23] [--json FILE]

The exit status is 1 when a goal is missed: 100 MB for a device, 40 MB where rows are dealt out in five blocks, and 4 GB
for the process.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.events import Turn
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads
from codedfl.protocol.schemes.coded_keys import CodedKeys
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from codedfl.run.parties import plan_of
from codedfl.solve.descent import GradientDescent

SAMPLES = 2400
CLASSES = 10
DEVICE_GOAL = 100e6
DEALT_GOAL = 40e6  # with rows dealt out
PROCESS_GOAL = 4e9


@dataclass(frozen=True)
class Measured:
    scheme: str
    device_holds: float
    device_peak: float
    process_peak: float


class _Traced:
    """Wraps one device: traces what it allocates while it prepares its pads, and while it handles a message."""

    def __init__(self, device: Device, pads: PreparedPads, layout: PadLayout) -> None:
        self._device, self._pads = device, pads
        tracemalloc.start()
        pads.prepare(layout)
        self.holds, self.peak = map(float, tracemalloc.get_traced_memory())
        tracemalloc.stop()

    def receive(self, data: bytes, bulk: bytes = b"") -> Turn:
        tracemalloc.start()
        self._pads._pad = copy.deepcopy(self._pads._pad)  # what is traced is seen when it goes, too
        held = _held(self._device)
        turn = type(self._device).receive(self._device, data, bulk)
        self.peak = max(self.peak, held + tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        self.holds = max(self.holds, _held(self._device))
        return turn


def _held(device: Device) -> float:
    """Bytes of the arrays a device keeps, its raw data aside."""
    arrays = [value for value in vars(device.sharing).values() if isinstance(value, np.ndarray)]
    return float(sum(array.nbytes for array in arrays))


def measure(scheme: CodedScheme, d: int, n_devices: int, seed: int = 0) -> Measured:
    """Phase 1, and the first epoch to end it; device 0 is traced."""
    rng = np.random.default_rng(seed)
    bound = float(np.sqrt(2 / d))
    names = [f"device-{i}" for i in range(n_devices)]
    bounds = Bounds(bound, 1.0, SAMPLES * n_devices, SAMPLES)
    parameters = Parameters(scheme.name, n_features=d, n_outputs=CLASSES, bounds=bounds, **scheme.agreed)
    plan = plan_of(scheme, parameters, names)
    server = Server(plan, GradientDescent(1))
    labels = np.eye(CLASSES)
    pads = PreparedPads()
    devices: list[Device] = []
    for name in names:
        X = rng.uniform(-bound, bound, (SAMPLES, d))
        rows = Rows(X, labels[rng.integers(0, CLASSES, SAMPLES)])
        devices.append(Device(plan, name, rows, pads=None if devices else pads))
    traced = _Traced(devices[0], pads, PadLayout.expected(plan))
    devices[0].receive = traced.receive  # type: ignore[method-assign]
    run_in_process(server, devices)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    return Measured(scheme.label, traced.holds, traced.peak, peak)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.memory", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--d", type=int, default=2000)
    parser.add_argument("--devices", type=int, default=25)
    parser.add_argument("--alpha", type=int, default=23)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args(arguments)
    results: list[dict[str, Any]] = []
    table = Table(title=f"Memory of phase 1: D = {options.devices}, d = {options.d}")
    for heading in ("scheme", "a device holds", "its peak", "goal", "process peak (so far)", "goal"):
        table.add_column(heading, justify="left" if heading == "scheme" else "right")
    met = True
    schemes = (RoleKeys(1), RoleKeys(1, blocks=5), CodedKeys(options.alpha), CodedPadded(options.alpha))
    for scheme in schemes:
        found = measure(scheme, options.d, options.devices)
        results.append(asdict(found))
        goal = DEALT_GOAL if scheme.blocks > 1 else DEVICE_GOAL
        device_met, process_met = found.device_peak <= goal, found.process_peak <= PROCESS_GOAL
        met = met and device_met and process_met
        table.add_row(
            scheme.label,
            f"{found.device_holds / 1e6:.1f} MB",
            f"{found.device_peak / 1e6:.1f} MB",
            f"<= {goal / 1e6:.0f} MB: {'met' if device_met else 'missed'}",
            f"{found.process_peak / 1e9:.2f} GB",
            f"<= {PROCESS_GOAL / 1e9:.0f} GB: {'met' if process_met else 'missed'}",
        )
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())

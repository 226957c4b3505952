"""How many devices one server and one broker carry: light ones, several per process, each with its own connection.

``python -m experiments.mqtt_load`` prints a table at 10, 100 and 1000 devices: seconds before the first epoch and an
epoch, and the broker's memory and CPU. Role keys, d = 50 (``--features``), TLS. The devices' states lie in memory where
there is such a file system: on real machines each has a disk of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.data.model import TrainedModel
from codedfl.data.tables import RawTable, as_raw_table
from experiments.light_devices import POLLED
from experiments.light_fleet import LightFleet
from experiments.local_fleet import memory_and_cpu
from experiments.local_study import agree

COUNTS = (10, 100, 1000)
EPOCHS, COLUMNS, ROWS, POD = 6, 8, 3, 10
MOST_PER_PROCESS = 250


def study(devices: int, features: int) -> dict[str, Any]:
    """With many devices rows are few: only a pod of ten has as many as a total needs."""
    rows = {"max_rows": devices * ROWS, "max_rows_per_device": ROWS}
    return {
        "name": "load",
        "matrix": {"columns": COLUMNS, "range": [0, 1]},
        "target": {"name": "label", "classes": [0, 1]},
        "features": {"kind": "rbf", "count": features},
        "protection": {**rows, "least_participants": 3, "smallest_cell": 1},
        "training": {"solver": "cg", "epochs": EPOCHS},
        "result": {"held_out": 0.0},
    }


def table(index: int) -> RawTable:
    rng = np.random.default_rng(index)
    X = rng.uniform(size=(ROWS, COLUMNS))
    label = (X.sum(axis=1) > COLUMNS / 2).astype(int)
    return as_raw_table({**{f"x{j}": X[:, j] for j in range(COLUMNS)}, "label": label})


def measure(devices: int, features: int, program: str) -> dict[str, Any]:
    shared = Path("/dev/shm")
    where = str(shared) if shared.is_dir() and os.access(shared, os.W_OK) else None
    width = len(str(devices - 1))
    tables = {f"device-{i:0{width}d}": table(i) for i in range(devices)}
    patience = {"join-seconds": 300.0, "gone-seconds": 300.0}
    with tempfile.TemporaryDirectory(dir=where) as temporary:
        made = agree(Path(temporary) / "fleet", study(devices, features), tables, pods=devices // POD)
        with LightFleet(made, program, MOST_PER_PROCESS, patience) as fleet:
            fleet.start_server()
            began = time.time()
            fleet.start_devices(POLLED, fleet.broker.port)
            peak = 0
            while fleet.ended("server") is None:
                memory, cpu = memory_and_cpu(fleet.programs.pid("broker"))
                _, server_cpu = memory_and_cpu(fleet.programs.pid("server"))
                peak = max(peak, memory)
                time.sleep(0.1)
            if fleet.ended("server") != 0:
                raise RuntimeError(fleet.log_of("server")[-2000:])
            events = fleet.events()
        products = [event.get("stage") for event in events].index("products")
        sharing = next(event["time"] for event in events[products:] if event.get("phase") == "sharing")
        counted = events[products]["time"]
        ended = [event["time"] for event in events if event["event"] == "epoch"]
        last = [event for event in events if event["event"] == "epoch"][-1]
        model = TrainedModel.load(fleet.output / "model.safetensors")
        expected = made.rehearsed().findings.model.theta
    return {
        "devices": devices,
        "counting": counted - began,
        "sharing": ended[0] - sharing,
        "epoch": float(np.median(np.diff(ended))),
        "memory": peak,
        "cpu": cpu,
        "server_cpu": server_cpu,
        "bytes": (last["received"] + last["sent"]) / len(ended),
        "same": bool(np.array_equal(model.theta, expected)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--features", type=int, default=50, help="2000 makes uploads of 12 MB per device")
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    options = parser.parse_args()
    columns = (
        "devices",
        "joining, counting",
        "sharing",
        "per epoch",
        "per device and epoch",
        "broker memory",
        "broker CPU",
    )
    print("| " + " | ".join((*columns, "server CPU", "model")) + " |")
    print("|---" * (len(columns) + 2) + "|")
    wrong = False
    for devices in options.devices:
        found = measure(devices, options.features, options.program)
        wrong = wrong or not found["same"]
        print(
            f"| {devices} | {found['counting']:.1f} s | {found['sharing']:.1f} s | {1000 * found['epoch']:.0f} ms"
            f" | {1000 * found['epoch'] / devices:.2f} ms | {found['memory'] / 1e6:.0f} MB | {found['cpu']:.1f} s"
            f" | {found['server_cpu']:.1f} s | {'as in process' if found['same'] else 'WRONG'} |",
            flush=True,
        )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())

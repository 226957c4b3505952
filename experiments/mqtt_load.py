"""How many devices one server and one broker carry: light ones, several a process, each with its own connection.

``python -m experiments.mqtt_load`` prints a table at 10, 100 and 1000 devices: seconds before the first epoch and an
epoch, and the broker's memory and CPU. Coded keys, alpha = 5, d = 50 (``--features``), TLS. The devices' states lie in
memory where there is such a file system: on real machines each has a disk of its own.
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
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.study_config import load_run_file
from experiments.light_devices import POLLED
from experiments.light_fleet import LightFleet
from experiments.local_fleet import memory_and_cpu

COUNTS = (10, 100, 1000)
EPOCHS, ALPHA, COLUMNS, ROWS = 6, 5, 8, 3
MOST_A_PROCESS = 250


def study(devices: int, features: int) -> dict[str, Any]:
    return {
        "study": "load", "devices": devices, "scheme": "coded-keys", "alpha": ALPHA, "epochs": EPOCHS, "solver": "cg",
        "columns": COLUMNS, "x-low": 0.0, "x-high": 1.0, "classes": "0,1", "features": "rbf", "n-features": features,
        "max-samples": devices * ROWS, "max-samples-per-device": ROWS, "join-seconds": 300.0, "gone-seconds": 300.0,
    }  # fmt: skip


def rows(index: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(index)
    X = rng.uniform(size=(ROWS, COLUMNS))
    return X, (X.sum(axis=1) > COLUMNS / 2).astype(int)


def measure(devices: int, features: int, program: str) -> dict[str, Any]:
    shared = Path("/dev/shm")
    where = str(shared) if shared.is_dir() and os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryDirectory(dir=where) as states:
        folder = Path(temporary)
        parts = [rows(index) for index in range(devices)]
        with LightFleet(
            folder / "fleet", study(devices, features), parts, program, Path(states), MOST_A_PROCESS
        ) as fleet:
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
        ended = [event["time"] for event in events if event["event"] == "epoch"]
        sharing = next(event["time"] for event in events if event.get("phase") == "sharing")
        last = [event for event in events if event["event"] == "epoch"][-1]
        model = TrainedModel.load(fleet.output / "model.safetensors")
        config = load_run_file(fleet.study).run_config(folder / "none")
        names = sorted(range(devices), key=lambda i: f"device-{i}")
        expected = rehearse(config, [rows(i) for i in names])
    return {
        "devices": devices,
        "connecting": sharing - began,
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
    parser.add_argument("--features", type=int, default=50, help="2000 makes uploads of 12 MB a device")
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    options = parser.parse_args()
    columns = ("devices", "joining", "sharing", "an epoch", "a device and epoch", "broker memory", "broker CPU")
    print("| " + " | ".join((*columns, "server CPU", "model")) + " |")
    print("|---" * (len(columns) + 2) + "|")
    wrong = False
    for devices in options.devices:
        found = measure(devices, options.features, options.program)
        wrong = wrong or not found["same"]
        print(
            f"| {devices} | {found['connecting']:.1f} s | {found['sharing']:.1f} s | {1000 * found['epoch']:.0f} ms"
            f" | {1000 * found['epoch'] / devices:.2f} ms | {found['memory'] / 1e6:.0f} MB | {found['cpu']:.1f} s"
            f" | {found['server_cpu']:.1f} s | {'as in process' if found['same'] else 'WRONG'} |",
            flush=True,
        )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())

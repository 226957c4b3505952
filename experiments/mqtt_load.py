"""How many devices one server and one broker carry: light ones, several per process, each with its own connection.

``python -m experiments.mqtt_load`` prints a table at 10, 100 and 1000 devices: seconds from "all are here" to the
counts, of the upload and of an epoch, bytes, and memory and CPU of server and broker. d = 50 (``--features``), TLS. The
devices' states lie in memory where there is such a file system: on real machines each has a disk of its own. With
``--devices 200 --features 2000`` uploads of 12 MB each are pulled by pieces, and it is the server's memory that counts.
Ends with 1 where a goal is missed, or a model is not the rehearsal's.
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
MOST_PER_PROCESS, PROCESSES = 250, 4
EPOCH_GOAL = {1000: 1.2}  # devices -> seconds at most
SERVER_GOAL = 500e6  # bytes of the server's memory at most
LARGE = 1000  # features: states are too large for memory then, and a rehearsal would take as long as the run


def study(devices: int, features: int) -> dict[str, Any]:
    """With many devices rows are few: only a pod of ten has as many as a total needs."""
    rows = {"max_rows": devices * ROWS, "max_rows_per_device": ROWS}
    return {
        "name": "load",
        "matrix": {"columns": COLUMNS, "range": [0, 1], "step": 0.01},
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
    where = str(shared) if features < LARGE and shared.is_dir() and os.access(shared, os.W_OK) else None
    width = len(str(devices - 1))
    tables = {f"device-{i:0{width}d}": table(i) for i in range(devices)}
    # One thread works for hundreds of devices in turn: each of them is silent for as long as all of them work.
    patience = {"join": 3600.0, "retry": 600.0, "hedge": 60.0}
    with tempfile.TemporaryDirectory(dir=where) as temporary:
        made = agree(Path(temporary) / "fleet", study(devices, features), tables, pods=devices // POD)
        with LightFleet(made, program, min(MOST_PER_PROCESS, -(-devices // PROCESSES)), patience) as fleet:
            fleet.start_server()
            began = time.time()
            fleet.start_devices(POLLED, fleet.broker.port)
            peak = server_peak = 0
            while fleet.ended("server") is None:
                memory, cpu = memory_and_cpu(fleet.programs.pid("broker"))
                server_memory, server_cpu = memory_and_cpu(fleet.programs.pid("server"))
                peak, server_peak = max(peak, memory), max(server_peak, server_memory)
                time.sleep(0.1)
            if fleet.ended("server") != 0:
                raise RuntimeError(fleet.log_of("server")[-100_000:])
            events = fleet.events()
        here = {event["device"]: event["time"] for event in events if event["event"] == "connected"}
        stages = {event["stage"]: event["time"] for event in events if event.get("stage")}
        ended = [event["time"] for event in events if event["event"] == "epoch"]
        last = [event for event in events if event["event"] == "epoch"][-1]
        model = TrainedModel.load(fleet.output / "model.safetensors")
        same = features >= LARGE or np.array_equal(model.theta, made.rehearsed().findings.model.theta)
        uploaded = sum(event["bytes"] for event in events if event["event"] == "uploaded")
    return {
        "joining": max(here.values()) - began,
        "counting": stages["products"] - max(max(here.values()), stages["cells"]),
        "upload": ended[0] - stages["products"],
        "epoch": float(np.median(np.diff(ended))),
        "memory": peak,
        "cpu": cpu,
        "server_cpu": server_cpu,
        "bytes": (last["received"] + last["sent"]) / len(ended),
        "same": bool(same),
        "server_memory": server_peak,
        "uploaded": uploaded,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--features", type=int, default=50, help="2000 makes uploads of 12 MB per device")
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    options = parser.parse_args()
    columns = ["devices", "joining", "counting", "upload", "per epoch", "uploads", "server memory", "server CPU"]
    columns += ["broker memory", "broker CPU", "model"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    missed = []
    for devices in options.devices:
        found = measure(devices, options.features, options.program)
        compared = "not compared" if options.features >= LARGE else "as in process"
        said_of_model = compared if found["same"] else "WRONG"
        print(
            f"| {devices} | {found['joining']:.1f} s | {found['counting']:.1f} s | {found['upload']:.1f} s"
            f" | {1000 * found['epoch']:.0f} ms | {found['uploaded'] / 1e6:.0f} MB"
            f" | {found['server_memory'] / 1e6:.0f} MB | {found['server_cpu']:.1f} s"
            f" | {found['memory'] / 1e6:.0f} MB | {found['cpu']:.1f} s | {said_of_model} |",
            flush=True,
        )
        missed += [f"{devices} devices: {goal}" for goal, holds in goals(devices, found).items() if not holds]
    print("goals: " + ("; ".join(missed) + ": MISSED" if missed else "reached"))
    return int(bool(missed))


def goals(devices: int, found: dict[str, Any]) -> dict[str, bool]:
    """What must hold, in words, and whether it does."""
    said = {
        "the rehearsal's model": bool(found["same"]),
        f"{SERVER_GOAL / 1e6:g} MB of memory at the server": found["server_memory"] <= SERVER_GOAL,
    }
    if devices in EPOCH_GOAL:
        said[f"an epoch in {EPOCH_GOAL[devices]:g} s"] = found["epoch"] <= EPOCH_GOAL[devices]
    return said


if __name__ == "__main__":
    sys.exit(main())

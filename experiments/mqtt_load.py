"""How many devices one server and one broker carry: light ones, several per process, each with its own connection.

``python -m experiments.mqtt_load`` prints a table at 10, 100 and 1000 devices: seconds before the first epoch and an
epoch, what each member adds to the agreement and to the list of owners, and the broker's memory and CPU. Role keys,
d = 50 (``--features``), TLS. The devices' states lie in memory where there is such a file system: on real machines each
has a disk of its own. With ``--devices 200 --features 2000`` uploads of 12 MB each wait on the server's disk, and it
is the server's memory that counts. Ends with 1 where a goal is missed, or a model is not the rehearsal's.
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
from codedfl.analyses.study_plan import StudyRun

from codedfl.crypto.key_files import load_identity
from codedfl.crypto.sealed import KEY_BYTES, SIGNATURE_BYTES
from codedfl.data.model import TrainedModel
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.protocol.agreement import Member
from codedfl.protocol.owner_list import Certificate, ListedOwner, OwnerList, signatures_needed
from codedfl.protocol.server import Server
from codedfl.statistics.statistic import Ask
from experiments.light_devices import POLLED
from experiments.light_fleet import LightFleet
from experiments.local_fleet import memory_and_cpu
from experiments.local_study import LocalStudy, agree

COUNTS = (10, 100, 1000)
EPOCHS, COLUMNS, ROWS, POD = 6, 8, 3, 10
MOST_PER_PROCESS, PROCESSES = 250, 4
EPOCH_GOAL = {1000: 1.2}  # devices -> seconds at most
SERVER_GOAL = 500e6  # bytes of the server's memory at most, where uploads are of 12 MB
LARGE = 1000  # features: states are too large for memory then, and a rehearsal would take as long as the run
MEMBER_GOAL = 150  # bytes of the agreement, and of the list, per member at most


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


def member_bytes(made: LocalStudy) -> tuple[float, float]:
    """Bytes of the agreement, and of the list of owners with its certificate, per member: all have a fixed length."""
    run = StudyRun(made.study, made.roster, Ask("products"))
    server = Server(run.plan(), run.solver(), identity=load_identity(made.server_key))
    members = [Member(name, bytes(KEY_BYTES), bytes(KEY_BYTES), bytes(SIGNATURE_BYTES)) for name in made.names]
    agreed = server.sharing.agree(members, None)
    owners = OwnerList(tuple(ListedOwner(name, bytes(32), bytes(32)) for name in made.names))
    signers = made.names[: signatures_needed(len(members), agreed.parameters.colluders)]
    certificate = Certificate(dict.fromkeys(signers, bytes(SIGNATURE_BYTES))).encode()
    return len(agreed.encoded) / len(members), (len(owners.encoded) + len(certificate)) / len(members)


def measure(devices: int, features: int, program: str) -> dict[str, Any]:
    shared = Path("/dev/shm")
    where = str(shared) if features < LARGE and shared.is_dir() and os.access(shared, os.W_OK) else None
    width = len(str(devices - 1))
    tables = {f"device-{i:0{width}d}": table(i) for i in range(devices)}
    # One thread works for hundreds of devices in turn: each of them is silent for as long as all of them work.
    patience = dict.fromkeys(("join-seconds", "gone-seconds", "call-seconds"), 3600.0)
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
        products = [event.get("stage") for event in events].index("products")
        sharing = next(event["time"] for event in events[products:] if event.get("phase") == "sharing")
        counted = events[products]["time"]
        ended = [event["time"] for event in events if event["event"] == "epoch"]
        last = [event for event in events if event["event"] == "epoch"][-1]
        model = TrainedModel.load(fleet.output / "model.safetensors")
        same = features >= LARGE or np.array_equal(model.theta, made.rehearsed().findings.model.theta)
        uploaded = sum(event["bytes"] for event in events if event["event"] == "uploaded")
        agreement, owners = member_bytes(made)
    return {
        "agreement": agreement,
        "list": owners,
        "devices": devices,
        "counting": counted - began,
        "sharing": ended[0] - sharing,
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
    columns = ["devices", "joining, counting", "sharing", "per epoch", "agreement per member", "list per member"]
    columns += ["uploads", "server memory", "server CPU", "broker memory", "broker CPU", "model"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    missed = []
    for devices in options.devices:
        found = measure(devices, options.features, options.program)
        compared = "not compared" if options.features >= LARGE else "as in process"
        said_of_model = compared if found["same"] else "WRONG"
        print(
            f"| {devices} | {found['counting']:.1f} s | {found['sharing']:.1f} s | {1000 * found['epoch']:.0f} ms"
            f" | {found['agreement']:.0f} B | {found['list']:.0f} B | {found['uploaded'] / 1e6:.0f} MB"
            f" | {found['server_memory'] / 1e6:.0f} MB | {found['server_cpu']:.1f} s"
            f" | {found['memory'] / 1e6:.0f} MB | {found['cpu']:.1f} s | {said_of_model} |",
            flush=True,
        )
        missed += [
            f"{devices} devices: {goal}" for goal, holds in goals(devices, options.features, found).items() if not holds
        ]
    print("goals: " + ("; ".join(missed) + ": MISSED" if missed else "reached"))
    return int(bool(missed))


def goals(devices: int, features: int, found: dict[str, Any]) -> dict[str, bool]:
    """What must hold, in words, and whether it does. What every agreement has is little at many members only."""
    said = {"the rehearsal's model": bool(found["same"])}
    if features >= LARGE:
        said[f"{SERVER_GOAL / 1e6:g} MB of memory at the server"] = found["server_memory"] <= SERVER_GOAL
    if devices in EPOCH_GOAL:
        said[f"an epoch in {EPOCH_GOAL[devices]:g} s"] = found["epoch"] <= EPOCH_GOAL[devices]
        said[f"agreement and list in {MEMBER_GOAL} B per member each"] = (
            max(found["agreement"], found["list"]) <= MEMBER_GOAL
        )
    return said


if __name__ == "__main__":
    sys.exit(main())

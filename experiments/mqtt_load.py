"""How many devices one server and one broker carry: light ones, several a process, each with its own connection.

``python -m experiments.mqtt_load`` prints a table at 10, 100 and 1000 devices: seconds before the first epoch and an
epoch, and the broker's memory and CPU. Coded keys, alpha = 5, d = 50, TLS. The devices' states lie in memory where
there is such a file system: on real machines each has a disk of its own.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.data.model import TrainedModel
from codedfl.engine.keys import load_identity
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.study_config import load_study
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.link import BrokerLink
from experiments.local_fleet import HOST, LocalFleet, memory_and_cpu

COUNTS = (10, 100, 1000)
EPOCHS, ALPHA, FEATURES, COLUMNS, ROWS = 6, 5, 50, 8, 3
MOST_A_PROCESS = 250
LIGHT = "light-fleet"  # the certificate of light devices: one for all


def study(devices: int) -> dict[str, Any]:
    return {
        "study": "load", "devices": devices, "alpha": ALPHA, "epochs": EPOCHS, "solver": "cg",
        "columns": COLUMNS, "x-low": 0.0, "x-high": 1.0, "classes": "0,1", "features": "rbf", "n-features": FEATURES,
        "max-samples": devices * ROWS, "max-samples-per-device": ROWS, "join-seconds": 300.0, "gone-seconds": 300.0,
    }  # fmt: skip


def rows(index: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(index)
    X = rng.uniform(size=(ROWS, COLUMNS))
    return X, (X.sum(axis=1) > COLUMNS / 2).astype(int)


def light_devices(folder: Path, port: int, first: int, count: int, states: Path) -> None:
    """So many devices in this process, each with its own connection and state, until their run is over."""
    found = load_study(folder / "study.toml")
    learning = found.learning
    party = BrokerFolder(folder / "broker").party(LIGHT)
    address = BrokerAddress(HOST, port, True, party.authority, party.certificate, party.key)
    logging.getLogger("codedfl").setLevel(logging.ERROR)

    def one(index: int) -> None:
        name = f"device-{index}"
        home = states / name
        prepared = learning.rows(*rows(index))
        host = ResidentHost(name, load_identity(home / "device.key"), home / "runs", lambda: prepared)
        link = BrokerLink(address, name, DeviceDaemon.will(found.name, name))
        link.open()
        DeviceDaemon(link, host, found.name, found.digest).run(lambda: host.runs_ended > 0)
        link.flush(5.0)
        link.close()

    threading.stack_size(512 << 10)
    threads = [threading.Thread(target=one, args=(index,)) for index in range(first, first + count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class LightFleet(LocalFleet):
    """A ``LocalFleet`` whose devices share few processes and one certificate that may publish for all of them."""

    def __init__(self, folder: Path, devices: int, program: str, states: Path) -> None:
        super().__init__(folder, study(devices), [], program=program)
        self._devices = devices
        self._states = states
        self.broker.add(LIGHT)
        acl = self.broker.path / "acl"
        acl.write_text(acl.read_text() + f"\nuser {LIGHT}\ntopic readwrite codedfl/#\n")

    def start_devices(self) -> None:
        for first in range(0, self._devices, MOST_A_PROCESS):
            count = min(MOST_A_PROCESS, self._devices - first)
            arguments = [str(self.folder), str(self.broker.port), str(first), str(count), str(self._states)]
            self._start(f"light-{first}", [sys.executable, "-m", "experiments.mqtt_load", "--light", *arguments])


def measure(devices: int, program: str) -> dict[str, Any]:
    shared = Path("/dev/shm")
    where = str(shared) if shared.is_dir() and os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryDirectory(dir=where) as states:
        folder = Path(temporary)
        with LightFleet(folder / "fleet", devices, program, Path(states)) as fleet:
            fleet.start_server()
            began = time.time()
            fleet.start_devices()
            peak = 0
            while fleet.ended("server") is None:
                memory, cpu = memory_and_cpu(fleet.pid("broker"))
                _, server_cpu = memory_and_cpu(fleet.pid("server"))
                peak = max(peak, memory)
                time.sleep(0.1)
            if fleet.ended("server") != 0:
                raise RuntimeError(fleet.log_of("server")[-2000:])
            events = fleet.events()
        ended = [event["time"] for event in events if event["event"] == "epoch"]
        sharing = next(event["time"] for event in events if event.get("phase") == "sharing")
        last = [event for event in events if event["event"] == "epoch"][-1]
        model = TrainedModel.load(fleet.output / "model.safetensors")
        config = load_study(fleet.study).run_config(folder / "none")
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
    if sys.argv[1:2] == ["--light"]:
        folder, port, first, count, states = sys.argv[2:]
        light_devices(Path(folder), int(port), int(first), int(count), Path(states))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    options = parser.parse_args()
    columns = ("devices", "joining", "sharing", "an epoch", "a device and epoch", "broker memory", "broker CPU")
    print("| " + " | ".join((*columns, "server CPU", "model")) + " |")
    print("|---" * (len(columns) + 2) + "|")
    wrong = False
    for devices in options.devices:
        found = measure(devices, options.program)
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

"""How many nodes one server app carries: the simulation engine with more and more of them, on this machine.

For each number of nodes: seconds of wall-clock time in all, seconds per epoch, milliseconds per node and call, and the
largest memory of all processes together. The model is small (d = 50): what is measured is the app and Flower. Virtual
nodes have no configuration of their own; ``flower_simulated`` gives each that of the device with its number.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.federation import server_config
from experiments.local_federation import LocalFederation
from experiments.local_study import agree
from experiments.mqtt_load import POD, study, table

APP = Path(__file__).resolve().parent / "flower_simulated"


class MemoryWatch(threading.Thread):
    """The largest memory of a federation while the thread runs."""

    def __init__(self, federation: LocalFederation) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._federation = federation
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(1.0):
            self.most = max(self.most, self._federation.memory())

    def stop(self) -> int:
        self._over.set()
        self.join()
        return self.most


def measure(devices: int) -> tuple[float, float, int, int] | None:
    """Seconds of the run, of an epoch, bytes of memory, and calls per node; None if the run failed."""
    with tempfile.TemporaryDirectory(prefix="codedfl-load-") as temporary:
        folder = Path(temporary)
        tables = {f"device-{i}": table(i) for i in range(devices)}
        made = agree(folder / "study", study(devices, 50), tables, pods=devices // POD)
        config = server_config(made, folder / "server", join_seconds=3600.0, farewell_seconds=600.0)
        engine = {"num-supernodes": devices, "client-resources-num-cpus": 1, "init-args-num-cpus": os.cpu_count() or 1}
        os.environ["CODEDFL_STUDY_FOLDER"] = str(made.folder)
        with LocalFederation(folder / "federation", []) as federation:
            watch = MemoryWatch(federation)
            watch.start()
            began = time.monotonic()
            run = federation.flwr.start_run(APP, config, engine)
            lines = list(federation.flwr.follow(run))
            seconds = time.monotonic() - began
            memory = watch.stop()
            if federation.flwr.status(run) != "finished:completed":
                print("\n".join(lines[-20:]), federation.log_of("superlink")[-3000:])
                return None
        events = [json.loads(line) for line in (folder / "server" / "events.jsonl").read_text().splitlines()]
        ended = [event["time"] for event in events if event["event"] == "epoch"]
        calls = sum(len(list(made.state(name).glob("calls-*"))) for name in made.names) // devices
    return seconds, (ended[-1] - ended[0]) / (len(ended) - 1), memory, calls


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 200, 400, 800])
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shown = Table(title=f"role keys, d = 50, {os.cpu_count()} cores")
    for column in (
        "nodes",
        "seconds in all",
        "seconds per epoch",
        "ms per node and call",
        "MB of memory",
        "MB per node",
    ):
        shown.add_column(column, justify="right")
    for devices in options.nodes:
        found = measure(devices)
        if found is None:
            shown.add_row(str(devices), "failed")
            break
        seconds, epoch, memory, calls = found
        row = f"{seconds:.0f}", f"{epoch:.1f}", f"{1000 * seconds / devices / calls:.0f}", f"{memory / 1e6:.0f}"
        shown.add_row(str(devices), *row, f"{memory / 1e6 / devices:.1f}")
        print(devices, *row, flush=True)
    Console(width=120).print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How many nodes one server app carries: the simulation engine with more and more of them, on this machine.

For each number of nodes: seconds of wall-clock time in all, seconds an epoch, milliseconds per node and call, and the
largest memory of all processes together. The model is small (d = 50): what is measured is the app and Flower.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.federation import APP, app_config
from experiments.local_federation import LocalFederation

EPOCHS = 3
CALLS = 4 + EPOCHS + 1  # introduction, invitation, agreement, shares; the end
_EPOCH = re.compile(r"epoch (\d+) after ([\d.]+) s")


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


def measure(devices: int, scheme: str) -> tuple[float, float, int] | None:
    """Seconds of the run, of an epoch, and bytes of memory; None if the run failed."""
    with tempfile.TemporaryDirectory(prefix="codedfl-load-") as temporary:
        folder = Path(temporary)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        config = app_config(
            devices=devices,
            scheme=scheme,
            alpha=5,
            epochs=EPOCHS,
            n_features=50,
            join_seconds=3600.0,
            farewell_seconds=600.0,
            output_dir=str(folder / "server"),
        )
        changes = {key: value for key, value in config.items() if app_config()[key] != value}
        engine = {"num-supernodes": devices, "client-resources-num-cpus": 1, "init-args-num-cpus": os.cpu_count() or 1}
        with LocalFederation(folder / "federation", []) as federation:
            watch = MemoryWatch(federation)
            watch.start()
            began = time.monotonic()
            run = federation.flwr.start_run(APP, changes, engine)
            ends = [float(found[2]) for line in federation.flwr.follow(run) if (found := _EPOCH.search(line))]
            seconds = time.monotonic() - began
            memory = watch.stop()
            if federation.flwr.status(run) != "finished:completed":
                print(federation.log_of("superlink")[-3000:])
                return None
    return seconds, (ends[-1] - ends[0]) / (EPOCHS - 1), memory


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 200, 400, 800])
    parser.add_argument("--scheme", default="coded-keys")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    table = Table(title=f"{options.scheme}, alpha = 5, d = 50, {EPOCHS} epochs, {os.cpu_count()} cores")
    for column in (
        "nodes",
        "seconds in all",
        "seconds an epoch",
        "ms per node and call",
        "MB of memory",
        "MB per node",
    ):
        table.add_column(column, justify="right")
    for devices in options.nodes:
        found = measure(devices, options.scheme)
        if found is None:
            table.add_row(str(devices), "failed")
            break
        seconds, epoch, memory = found
        row = f"{seconds:.0f}", f"{epoch:.1f}", f"{1000 * seconds / devices / CALLS:.0f}", f"{memory / 1e6:.0f}"
        table.add_row(str(devices), *row, f"{memory / 1e6 / devices:.1f}")
        print(devices, *row, flush=True)
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Our app against Flower's own FedAvg and SecAgg+, in wall-clock time: same machine, data, model and delays.

Five SuperNodes on this machine, behind TLS and authentication; each class of digits is on three of them. Delays are
drawn from the paper's distribution on its mix of devices, scaled so that a fast device takes a quarter of a second; the
same seeds for all. Clocks start when the server app does and stop at the first epoch whose model reaches the target.
Ours is a study with role keys, whose epochs are as many as reach it. Nothing is subtracted: every call starts a process
on its node, in every row, and what that costs is measured and said. Bytes are those the SuperLink counted.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from codedfl_lab.fleet.fleet import Fleet
from experiments.federation import APP, node_configs, server_config
from experiments.local_federation import LocalFederation
from experiments.local_study import agree, digits_study, digits_tables
from experiments.plain_rows import PlainRows

BASELINES = Path(__file__).resolve().parent / "flower_baselines"
FAST_SECONDS = 0.25
_EPOCH = re.compile(r"epoch (\d+) after ([\d.]+) s, score ([\d.]+)")


@dataclass(frozen=True)
class Row:
    """One training: epochs (rounds) and seconds to the target, seconds of it before the first epoch, bytes in all."""

    name: str
    epochs: int
    seconds: float
    before_first: float
    megabytes: float


def node_delays(devices: int) -> list[dict[str, float]]:
    """The paper's compute times, rho/tau (1 + Exp(1)/2), with rho such that a fast device takes FAST_SECONDS."""
    fleet = Fleet.load("paper").scaled_to(devices)
    fixed = FAST_SECONDS * fleet.mac_rate.max() / fleet.mac_rate
    return [
        {"delay-seconds": float(one), "delay-mean": float(one * setup)}
        for one, setup in zip(fixed, fleet.setup_factor, strict=True)
    ]


def run_ours(federation: LocalFederation, config: dict[str, Any]) -> Row:
    run = federation.flwr.start_run(APP, config)
    for line in federation.flwr.follow(run):
        print(f"  ours: {line}", flush=True)
    events = [json.loads(line) for line in (Path(config["output-dir"]) / "events.jsonl").read_text().splitlines()]
    ended = [event["time"] - events[0]["time"] for event in events if event["event"] == "epoch"]
    if events[-1].get("outcome") != "complete":
        raise SystemExit(f"ours did not come to its end: {federation.log_of('superlink')[-2000:]}")
    return Row("ours, role keys", len(ended), ended[-1], ended[0], federation.flwr.traffic(run) / 1e6)


def run_once(federation: LocalFederation, app: Path, changes: dict[str, Any], name: str, target: float) -> Row:
    run = federation.flwr.start_run(app, changes)
    epochs: list[tuple[int, float, float]] = []
    for line in federation.flwr.follow(run):
        if found := _EPOCH.search(line):
            epochs.append((int(found[1]), float(found[2]), float(found[3])))
            print(f"  {name}: epoch {found[1]} after {found[2]} s, score {found[3]}", flush=True)
    reached = next(((number, seconds) for number, seconds, score in epochs if number and score >= target), None)
    if reached is None:
        raise SystemExit(f"{name} did not reach {target}: {federation.log_of('superlink')[-2000:]}")
    first = next(seconds for number, seconds, _ in epochs if number == 1)
    return Row(name, *reached, first, federation.flwr.traffic(run) / 1e6)


def start_cost() -> float:
    """Seconds that the process of a call takes to start, on this machine with nothing else to do."""
    taken = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import codedfl.flower.client"], check=True)
        taken.append(time.monotonic() - began)
    return float(np.median(taken))


def show(rows: list[Row], target: float, call: float, devices: int) -> None:
    ours = rows[0]
    table = Table(title=f"time to {100 * target:g} % on digits, {devices} nodes, the paper's delays (fast: 0.25 s)")
    for column in ("", "epochs", "seconds", "ratio", "before epoch 1", "MB on the wire", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        table.add_row(
            row.name,
            str(row.epochs),
            f"{row.seconds:.0f}",
            f"{row.seconds / ours.seconds:.1f}",
            f"{row.before_first:.0f} s",
            f"{row.megabytes:.2f}",
            f"{row.megabytes / ours.megabytes:.1f}",
        )
    Console(width=120).print(table)
    print(f"Starting the process of a call takes {call:.1f} s here with nothing else to do. It is in every row.")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--without-secagg", action="store_true", help="leave out the row that takes longest")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    devices, target = options.nodes, options.target
    began, call = time.monotonic(), start_cost()
    with tempfile.TemporaryDirectory(prefix="codedfl-speedup-") as temporary:
        folder = Path(temporary)
        tables = digits_tables(devices, alike=False)
        longest = agree(folder / "longest", digits_study(2048, epochs=20), tables)
        epochs = PlainRows(longest).epochs_to(target)
        made = agree(folder / "study", digits_study(2048, epochs=epochs), tables)
        plain = PlainRows(made)
        config = server_config(made, folder / "server", farewell_seconds=30.0)
        nodes = [
            one | delays | {"delay-seed": i}
            for i, (one, delays) in enumerate(zip(node_configs(made), node_delays(devices), strict=True))
        ]
        with LocalFederation(folder / "federation", nodes) as federation:
            rows = [run_ours(federation, config)]
            plans = [("FedAvg, 1 local step", "fedavg", 1, 12.0), ("FedAvg, 5 local steps", "fedavg", 5, 8.0)]
            if not options.without_secagg:
                plans.append(("SecAgg+, 5 local steps", "secagg", 5, 8.0))
            for name, strategy, steps, size in plans:
                rounds = plain.rounds_to(target, steps, size)
                if not rounds:
                    raise SystemExit(f"{name} of size {size} never reaches {target}")
                changes = {
                    "strategy": strategy,
                    "rounds": rounds + (2 if strategy == "secagg" else 0),
                    "local-steps": steps,
                    "step": size,
                    "devices": devices,
                    "study-folder": str(made.folder),
                    "merged": json.dumps(plain.merged),
                }
                rows.append(run_once(federation, BASELINES, changes, name, target))
    show(rows, target, call, devices)
    print(f"measured in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

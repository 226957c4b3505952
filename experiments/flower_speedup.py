"""Our app against Flower's own FedAvg and SecAgg+, in wall-clock time: same machine, data, model and delays.

Five SuperNodes on this machine, behind TLS and authentication. Delays are drawn from the paper's distribution on its
mix of devices, scaled so that a fast device takes a quarter of a second; the same seeds for all. Clocks start when the
server app does and stop at the first epoch whose model reaches the target. Nothing is subtracted: every call starts a
process on its node, in every row, and what that costs is measured and said. Bytes are those the SuperLink counted.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from codedfl.data import datasets
from codedfl.engine.run_config import RunConfig
from codedfl.fleet.fleet import Fleet
from experiments.federation import APP, app_config, local_parts
from experiments.local_federation import LocalFederation

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


def rounds_to(target: float, config: dict[str, Any], devices: int, steps: int, size: float) -> int:
    """How many rounds FedAvg needs, found in this process: it waits for everybody, so its models are the same."""
    learning = RunConfig.from_config(config).learning
    parts = [learning.rows(*part) for part in local_parts(config, devices)]
    data = datasets.load(config["data"], use_network=False)
    total = sum(len(X) for X, _ in parts)
    theta = np.zeros((learning.recipe.n_features, learning.recipe.n_outputs))
    for number in range(1, 1000):
        mean = np.zeros_like(theta)
        for X, Y in parts:
            local = theta
            for _ in range(steps):
                local = local - size * (X.T @ (X @ local - Y) / len(X) + config["regularisation"] * local)
            mean += local * len(X) / total
        theta = mean
        if learning.model(theta).score(data.X_test, data.y_test) >= target:
            return number
    raise SystemExit(f"FedAvg with {steps} local steps of size {size} never reaches {target}")


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


def start_cost(federation: LocalFederation, devices: int) -> float:
    """Seconds that a call takes that does nothing, to one node, on this machine with nothing else to do."""
    changes = {
        "mode": "probe",
        "devices": devices,
        "probe-calls": 1,
        "probe-features": 10,
        "probe-megabytes": 0.001,
        "fleet-file": str(federation.folder / "fleet.toml"),
    }
    run = federation.flwr.start_run(APP, changes)
    found = [re.search(r"a call takes ([\d.]+) s", line) for line in federation.flwr.follow(run)]
    return float(np.median([float(one[1]) for one in found if one]))


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
    print(f"A call that does nothing takes {call:.1f} s here: the start of a process on the node. It is in every row.")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--alpha", type=int, default=3)
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--without-secagg", action="store_true", help="leave out the row that takes longest")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    devices, target = options.nodes, options.target
    config = app_config(
        devices=devices, scheme="coded-keys", alpha=options.alpha, epochs=20, target=target, farewell_seconds=30.0
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="codedfl-speedup-") as temporary:
        folder = Path(temporary)
        config["output-dir"] = str(folder / "server")
        nodes = [
            {"partition-id": i, "num-partitions": devices, "state-dir": str(folder / f"state-{i}"), "delay-seed": i}
            | delays
            for i, delays in enumerate(node_delays(devices))
        ]
        with LocalFederation(folder / "federation", nodes) as federation:
            call = start_cost(federation, devices)
            changed = {key: value for key, value in config.items() if app_config()[key] != value}
            rows = [run_once(federation, APP, changed, f"codedfl, coded-keys, alpha {options.alpha}", target)]
            plans = [("FedAvg, 1 local step", "fedavg", 1, 12.0), ("FedAvg, 5 local steps", "fedavg", 5, 8.0)]
            if not options.without_secagg:
                plans.append(("SecAgg+, 5 local steps", "secagg", 5, 8.0))
            for name, strategy, steps, size in plans:
                rounds = rounds_to(target, config, devices, steps, size) + (2 if strategy == "secagg" else 0)
                changes = {"strategy": strategy, "rounds": rounds, "local-steps": steps, "step": size}
                rows.append(run_once(federation, BASELINES, changes | {"devices": devices}, name, target))
    show(rows, target, call, devices)
    print(f"measured in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

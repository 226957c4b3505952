"""Our scheme against FedAvg on the same transport, in wall-clock time: one broker, TLS, the paper's delays.

Digits, the paper's mix of devices, delays scaled so that a fast device takes a twentieth of a second; the same seeds
for all rows. FedAvg waits for everybody, with 1 and with 5 local steps, each with the step size that needs fewest
rounds; its local work is given the same delay whatever its steps, and its models travel as float32. Clocks start when
all devices are there and stop at the first model that reaches the target; sharing is in it. Then an epoch without
delays, over the broker and over plain gRPC, and what an epoch's time is made of. Ratios within one run count, not
seconds.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from codedfl.data import datasets
from codedfl.data.model import TrainedModel
from codedfl.engine.directory import Contact
from codedfl.engine.learning import Learning
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_config import load_run_file
from codedfl.engine.training import Score, train
from codedfl.fleet.fleet import Fleet
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import SERVER_NAME, Party
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.post import MqttPost
from codedfl.protocol import Server
from codedfl.typing import Floats
from experiments import fedavg_on_mqtt, flower_speedup
from experiments.federation import app_config, local_parts
from experiments.grpc_floor import GrpcServerLink
from experiments.light_devices import CODED, FEDAVG, GRPC
from experiments.light_fleet import LightFleet
from experiments.local_fleet import HOST

FAST_SECONDS = 0.05
SIZES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0)
A_PROCESS = 5
MOST_ROUNDS = 400
IDLE_FEATURES, IDLE_EPOCHS, IDLE_TURNS = 500, 40, 2


@dataclass(frozen=True)
class Row:
    """One training to the target: rounds, seconds, of them before the first epoch, bytes at the server."""

    name: str
    rounds: int
    seconds: float
    first: float
    megabytes: float


def paper_delays(devices: int) -> list[dict[str, Any]]:
    """The paper's compute times, rho/tau (1 + Exp(1)/2), with rho such that a fast device takes FAST_SECONDS."""
    fleet = Fleet.load("paper").scaled_to(devices)
    fixed = FAST_SECONDS * fleet.mac_rate.max() / fleet.mac_rate
    pairs = zip(fixed, fleet.setup_factor, strict=True)
    return [
        {"delay": float(one), "mean": float(one * setup), "seed": index} for index, (one, setup) in enumerate(pairs)
    ]


def best_fedavg(learning: Learning, parts: list[tuple[Any, Any]], target: float, steps: int) -> tuple[float, int]:
    """The step size with which FedAvg needs fewest rounds, and how many; found in this process."""
    rows = [learning.rows(*part) for part in parts]
    data = datasets.load("digits", use_network=False)
    total = sum(len(X) for X, _ in rows)
    best = (0.0, MOST_ROUNDS)
    for size in SIZES:
        theta = np.zeros((rows[0][0].shape[1], rows[0][1].shape[1]))
        for number in range(1, best[1]):
            mean = np.zeros_like(theta)
            for X, Y in rows:
                local = theta
                for _ in range(steps):
                    local = local - size * (X.T @ (X @ local - Y) / len(X) + 9e-6 * local)
                mean += local * len(X) / total
            theta = mean
            if not np.isfinite(theta).all() or np.abs(theta).max() > 1e6:
                break
            if learning.model(theta).score(data.X_test, data.y_test) >= target:
                best = (size, number)
                break
    if not best[0]:
        raise SystemExit(f"FedAvg with {steps} local steps never reaches {target}")
    return best


class _Times(RunWatch):
    """When the devices were there, and when each epoch ended with which score."""

    def __init__(self) -> None:
        super().__init__()
        self.began = 0.0
        self.times: list[tuple[float, float | None]] = []

    def look(self, server: Server | None, contacts: Mapping[str, Contact]) -> None:
        if server is not None and not self.began:
            self.began = time.time()
        super().look(server, contacts)

    def ended(self, epoch: int, score: float | None) -> None:
        super().ended(epoch, score)
        self.times.append((time.time(), score))


def run_coded(
    fleet: LightFleet, config: RunConfig, way: str, delays: list[dict[str, Any]], score: Score | None
) -> tuple[_Times, TrainedModel, int]:
    """One run of ours; returns when things happened, the model, and the bytes at the server."""
    study, watch = load_run_file(fleet.study), _Times()
    link: GrpcServerLink | BrokerLink
    if way == GRPC:
        folder = fleet.broker.path
        link = GrpcServerLink(Party(folder / "ca.pem", folder / "broker.pem", folder / "broker.key"), len(fleet.names))
        port = link.port
    else:
        link, port = fleet.link("codedfl-server-speed"), fleet.broker.port
    fleet.start_devices(way, port, delays)
    try:
        path = train(MqttPost(link, study.name, study.digest()), config, score, watch)
    finally:
        link.close()
    fleet.wait_for_devices()
    return watch, TrainedModel.load(path), link.bytes_in + link.bytes_out


class SpeedFleet(LightFleet):
    """A ``LightFleet`` whose server is this process."""

    def link(self, identity: str) -> BrokerLink:
        party = self.broker.party(SERVER_NAME)
        address = BrokerAddress(HOST, self.broker.port, True, party.authority, party.certificate, party.key)
        link = BrokerLink(address, identity, MqttPost.will("speed"))
        link.open()
        return link


def in_folder(config: dict[str, Any], folder: Path, output: str) -> dict[str, Any]:
    return config | {"output-dir": str(folder / output), "server-key-file": str(folder / "key" / "server.key")}


def race(devices: int, alpha: int, target: float, program: str) -> list[Row]:
    """Ours and FedAvg to the target, with the paper's delays."""
    config = app_config(
        devices=devices, scheme="coded-keys", alpha=alpha, epochs=20, target=target, solver="cg", study="speed"
    )
    parts, data = local_parts(config, devices), datasets.load("digits", use_network=False)
    learning = Learning.from_config(config)

    def score(model: TrainedModel) -> float:
        return model.score(data.X_test, data.y_test)

    def reached(theta: Floats) -> bool:
        return score(learning.model(theta)) >= target

    delays, rows = paper_delays(devices), []
    with tempfile.TemporaryDirectory(prefix="codedfl-speed-") as temporary:
        folder = Path(temporary)
        with SpeedFleet(folder / "fleet", config, parts, program, folder / "states", A_PROCESS) as fleet:
            run = RunConfig.from_config(in_folder(config, folder, "ours"))
            watch, model, traffic = run_coded(fleet, run, CODED, delays, score)
            expected = rehearse(run, parts)
            seconds = [moment - watch.began for moment, _ in watch.times]
            name = f"coded-keys, alpha {alpha}"
            rows.append(Row(name, len(seconds), seconds[-1], seconds[0], traffic / 1e6))
            if score(model) < target or not np.isfinite(expected).all():
                raise SystemExit(f"ours did not reach {target}")
            for steps in (1, 5):
                size, _ = best_fedavg(learning, parts, target, steps)
                link = fleet.link("codedfl-server-fedavg")
                fleet.start_devices(FEDAVG, fleet.broker.port, delays, steps, size)
                shape = (run.learning.recipe.n_features, run.learning.recipe.n_outputs)
                ended = fedavg_on_mqtt.train(link, fleet.names, shape, reached, MOST_ROUNDS)
                link.close()
                fleet.wait_for_devices()
                name = f"FedAvg, {steps} local step{'s' if steps > 1 else ''} of {size:g}"
                rows.append(Row(name, len(ended), ended[-1], ended[0], (link.bytes_in + link.bytes_out) / 1e6))
    return rows


@dataclass(frozen=True)
class Idle:
    """Milliseconds of an epoch without delays: over the broker, over gRPC, and all parties in one process.

    The best of a few turns each, of medians over a run.
    """

    mqtt: float
    grpc: float
    in_process: float


def idle_epochs(devices: int, alpha: int, program: str) -> Idle:
    changes = {"n_features": IDLE_FEATURES, "solver": "gd", "epochs": IDLE_EPOCHS, "study": "speed"}
    changes["farewell_seconds"] = 3.0
    config = app_config(devices=devices, scheme="coded-keys", alpha=alpha, **changes)
    parts = local_parts(config, devices)
    found: dict[str, list[float]] = {CODED: [], GRPC: []}
    a_process = 1 if devices <= 5 else A_PROCESS
    with tempfile.TemporaryDirectory(prefix="codedfl-idle-") as temporary:
        folder = Path(temporary)
        for turn, way in enumerate((CODED, GRPC) * IDLE_TURNS):  # in turns: whatever else the machine does hits both
            place = folder / f"{way}-{turn}"
            with SpeedFleet(place, config, parts, program, folder / f"states-{turn}", a_process) as fleet:
                run = RunConfig.from_config(in_folder(config, folder, f"out-{turn}"))
                watch, model, _ = run_coded(fleet, run, way, [], None)
            if not np.array_equal(model.theta, rehearse(run, parts)):
                raise SystemExit(f"the model over {way} must be that of the in-process run: it is not")
            found[way].append(1000 * float(np.median(np.diff([moment for moment, _ in watch.times])[2:])))
        began = time.perf_counter()
        moments: list[float] = []
        rehearse(run, parts, lambda _: moments.append(time.perf_counter() - began))
    return Idle(min(found[CODED]), min(found[GRPC]), 1000 * float(np.median(np.diff(moments))))


def show(devices: int, rows: list[Row], target: float) -> None:
    ours = rows[0]
    title = f"time to {100 * target:g} % on digits, {devices} devices over MQTT, the paper's delays"
    table = Table(title=title)
    for column in ("", "rounds", "seconds", "ratio", "before round 1", "a round", "MB", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        pace = (row.seconds - row.first) / max(1, row.rounds - 1)
        table.add_row(
            *(row.name, str(row.rounds), f"{row.seconds:.2f}", f"{row.seconds / ours.seconds:.1f}"),
            *(f"{row.first:.2f} s", f"{pace:.2f} s", f"{row.megabytes:.2f}", f"{row.megabytes / ours.megabytes:.1f}"),
        )
    Console(width=120).print(table)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--alpha", type=int, nargs="+", default=[3, 13])
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    parser.add_argument("--flower", action="store_true", help="then FedAvg and SecAgg+ on Flower: mostly transport")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.getLogger("codedfl").setLevel(logging.ERROR)
    too_slow = False
    for devices, alpha in zip(options.devices, options.alpha, strict=True):
        rows = race(devices, alpha, options.target, options.program)
        show(devices, rows, options.target)
        idle = idle_epochs(devices, alpha, options.program)
        ours = rows[0]
        epoch = 1000 * (ours.seconds - ours.first) / max(1, ours.rounds - 1)
        print(
            f"an epoch without delays, d = {IDLE_FEATURES}, {devices} devices on this machine: MQTT {idle.mqtt:.0f} ms,"
            f" gRPC {idle.grpc:.0f} ms (ratio {idle.mqtt / idle.grpc:.2f}), all in one process {idle.in_process:.1f} ms"
        )
        inside, moved = min(idle.in_process, epoch), max(0.0, idle.mqtt - idle.in_process)
        print(
            f"of an epoch of {epoch:.0f} ms with delays: protocol {100 * inside / epoch:.1f} %,"
            f" transport and saving {100 * moved / epoch:.1f} %, waiting for devices"
            f" {100 * max(0.0, epoch - idle.mqtt) / epoch:.1f} %",
            flush=True,
        )
        too_slow = too_slow or (devices == 5 and idle.mqtt > 2 * idle.grpc)
    if options.flower:
        print("on Flower, where a round is mostly transport:", flush=True)
        flower_speedup.main(["--nodes", "5"])
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main())

"""Our scheme against FedAvg on the same transport, in wall-clock time: one broker, TLS, the paper's delays.

Digits, each class on three devices only; the paper's mix of devices, delays scaled so that a fast device takes a
twentieth of a second for one gradient; the same seeds for all rows. Ours is a study with role keys and block Krylov,
whose epochs are as many as reach the target; the median of a few runs. FedAvg waits for everybody, with the number of
local steps and the step size that take least, found in this process; its models travel as float32. A device takes k
times as long for k local steps as for one, as the paper's model of latency has it; an epoch of ours is one product, and
none where only the constant part is asked for. Where another number of steps would be best if further steps took no
time at all, that is raced too, and shown without a goal. Clocks start when all devices are
there and stop with the first model that reaches the target; ours counts before it trains, and shares: both are in it.
Then an epoch without delays, over the broker and over plain gRPC, and what an epoch's time is made of. Ratios within
one run count, not seconds. Ends with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import logging
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

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.names import SERVER_NAME
from codedfl.crypto.key_files import load_identity
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.report.run_watch import RunWatch
from codedfl.run.rehearsal import Rehearsed, rehearse
from codedfl.run.serving import Serving, serve_study
from codedfl.sum.events import Event, SumBegun
from codedfl.typing import Floats
from codedfl_lab.fleet.fleet import Fleet
from experiments import fedavg_on_mqtt, flower_speedup
from experiments.grpc_floor import GrpcServerLink
from experiments.light_devices import FEDAVG, GRPC, OURS
from experiments.light_fleet import LightFleet
from experiments.local_fleet import HOST
from experiments.local_study import LocalStudy, agree, digits_study, digits_tables
from experiments.plain_rows import MOST_ROUNDS, PlainRows

FAST_SECONDS = 0.05
LOCAL_STEPS = (1, 2, 5, 10, 20, 50)
SIZES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0)
GOALS = {5: 8.0, 25: 12.0}  # devices -> how many times as long as ours FedAvg takes at least
PER_PROCESS = 5
MOST_EPOCHS, SOLVER = 20, "block-krylov"
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


@dataclass(frozen=True)
class FedAvgPlan:
    """How FedAvg descends on each device, and how many rounds it needs to the target."""

    steps: int
    size: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.steps} local step{'s' if self.steps > 1 else ''} of {self.size:g}"


def fedavg_plans(rows: PlainRows, target: float) -> list[FedAvgPlan]:
    """By local steps, the step size that needs fewest rounds; found in this process.

    Only those that need fewer rounds than all with fewer steps: others are best at no price of a step.
    """
    found: list[FedAvgPlan] = []
    most = MOST_ROUNDS
    for steps in LOCAL_STEPS:
        best: FedAvgPlan | None = None
        for size in SIZES:
            if rounds := rows.rounds_to(target, steps, size, most=most):
                best, most = FedAvgPlan(steps, size, rounds), rounds
        found += [best] if best else []
    if not found:
        raise SystemExit(f"FedAvg never reaches {target}")
    return found


class _Times(RunWatch):
    """When the devices were there, and when each epoch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.began = 0.0
        self.times: list[float] = []

    def take(self, event: Event) -> None:
        if isinstance(event, SumBegun) and not self.began:
            self.began = time.time()
        super().take(event)

    def ended(self, epoch: int, score: float | None) -> None:
        super().ended(epoch, score)
        if self.view.stage == "products":
            self.times.append(time.time())


def run_ours(fleet: SpeedFleet, way: str, delays: list[dict[str, Any]]) -> tuple[_Times, StudyFindings, int]:
    """One run of ours; returns when things happened, what was found, and the bytes at the server."""
    made, study, watch = fleet.made, fleet.made.study, _Times()
    link: GrpcServerLink | BrokerLink
    if way == GRPC:
        link = GrpcServerLink(_own(fleet.broker.path), len(fleet.names))
        port = link.port
    else:
        link, port = fleet.link("codedfl-server-speed"), fleet.broker.port
    fleet.start_devices(way, port, delays)
    serving = Serving(fleet.output, load_identity(made.server_key), made.roster)
    engine = MqttEngine(link, study.digest(), fleet.names)
    while len(engine.here()) < len(fleet.names):
        engine.replies(60.0)
    try:
        found = serve_study(engine, study, serving, watch)
        engine.leave(over=True)
        link.flush(5.0)
    finally:
        link.close()
    fleet.wait_for_devices()
    return watch, found, link.bytes_in + link.bytes_out


def _own(folder: Path) -> BrokerAddress:
    """The certificate of the broker itself, for a server that listens."""
    return BrokerAddress(HOST, 0, True, folder / "ca.pem", folder / "broker.pem", folder / "broker.key")


class SpeedFleet(LightFleet):
    """A ``LightFleet`` whose server is this process."""

    def link(self, identity: str) -> BrokerLink:
        link = BrokerLink(self.address(SERVER_NAME), identity, MqttEngine.will(self.made.study.digest()))
        link.open()
        return link


def race(devices: int, target: float, program: str, turns: int) -> list[Row]:
    """Ours and FedAvg to the target, with the paper's delays; of FedAvg first the plan that the goal is about."""
    delays, ours = paper_delays(devices), list[Row]()
    with tempfile.TemporaryDirectory(prefix="codedfl-speed-") as temporary:
        folder = Path(temporary)
        tables = digits_tables(devices, alike=False)
        longest = agree(folder / "longest", digits_study(2048, epochs=MOST_EPOCHS, solver=SOLVER), tables, pods=1)
        content = digits_study(2048, name="speed", epochs=PlainRows(longest).epochs_to(target), solver=SOLVER)
        for turn in range(turns):
            made = agree(folder / f"fleet-{turn}", content, tables, pods=1)
            with SpeedFleet(made, program, PER_PROCESS) as fleet:
                ours.append(race_ours(fleet, delays, target))
        made = agree(folder / "rival", content, tables, pods=1)
        plain = PlainRows(made)
        plans = fedavg_plans(plain, target)
        charged = min(plans, key=lambda plan: plan.steps * plan.rounds)
        free = min(plans, key=lambda plan: plan.rounds)
        slower = [{**one, "delay": one["delay"] * charged.steps, "mean": one["mean"] * charged.steps} for one in delays]
        with SpeedFleet(made, program, PER_PROCESS) as fleet:
            rows = [race_fedavg(fleet, slower, target, plain, charged, f"FedAvg, {charged}")]
            if free != charged:
                rows.append(race_fedavg(fleet, delays, target, plain, free, f"FedAvg, {free}, as if one"))
    return [sorted(ours, key=lambda row: row.seconds)[turns // 2], *rows]


def race_ours(fleet: SpeedFleet, delays: list[dict[str, Any]], target: float) -> Row:
    watch, found, traffic = run_ours(fleet, OURS, delays)
    seconds, theta = [moment - watch.began for moment in watch.times], found.model.theta
    same = np.array_equal(theta, fleet.made.rehearsed().findings.model.theta)
    if not same or PlainRows(fleet.made).score(theta) < target:
        raise SystemExit(f"ours must reach {target} with the rehearsal's model: it does not")
    return Row("ours, role keys", len(seconds), seconds[-1], seconds[0], traffic / 1e6)


def race_fedavg(
    fleet: SpeedFleet, delays: list[dict[str, Any]], target: float, plain: PlainRows, plan: FedAvgPlan, name: str
) -> Row:
    link = fleet.link("codedfl-server-fedavg")
    fleet.start_devices(FEDAVG, fleet.broker.port, delays, plan.steps, plan.size, plain.merged)
    shape = (plain.parts[0][0].shape[1], plain.parts[0][1].shape[1])
    ended = fedavg_on_mqtt.train(link, fleet.names, shape, lambda theta: plain.score(theta) >= target, MOST_ROUNDS)
    link.close()
    fleet.wait_for_devices()
    return Row(name, len(ended), ended[-1], ended[0], (link.bytes_in + link.bytes_out) / 1e6)


@dataclass(frozen=True)
class Idle:
    """Milliseconds of an epoch without delays: over the broker, over gRPC, and all parties in one process.

    The best of a few turns each, of medians over a run.
    """

    mqtt: float
    grpc: float
    in_process: float


def idle_epochs(devices: int, program: str, epochs: int, turns: int) -> Idle:
    found: dict[str, list[float]] = {OURS: [], GRPC: []}
    content = digits_study(2048, name="speed", features=IDLE_FEATURES, solver="gd", epochs=epochs)
    tables, per_process = digits_tables(devices), 1 if devices <= 5 else PER_PROCESS
    with tempfile.TemporaryDirectory(prefix="codedfl-idle-") as temporary:
        for turn, way in enumerate((OURS, GRPC) * turns):  # in turns: whatever else the machine does hits both
            made = agree(Path(temporary) / f"{way}-{turn}", content, tables, pods=1)
            with SpeedFleet(made, program, per_process) as fleet:
                watch, findings, _ = run_ours(fleet, way, [])
            in_process, theta = rehearsed_epochs(made)
            if not np.array_equal(findings.model.theta, theta):
                raise SystemExit(f"the model over {way} must be that of the rehearsal: it is not")
            found[way].append(1000 * float(np.median(np.diff(watch.times)[2:])))
    return Idle(min(found[OURS]), min(found[GRPC]), in_process)


def rehearsed_epochs(made: LocalStudy) -> tuple[float, Floats]:
    """Milliseconds per epoch with all parties in this process, and Theta."""
    moments: list[float] = []
    done = rehearse(
        Rehearsed(made.study, made.roster, made.snapshots()),
        np.random.default_rng(0),
        on_epoch=lambda _epoch, _seconds: moments.append(time.perf_counter()),
    )
    return 1000 * float(np.median(np.diff(moments[1:]))), done.findings.model.theta


def show(devices: int, rows: list[Row], target: float) -> None:
    ours = rows[0]
    title = f"time to {100 * target:g} % on digits, {devices} devices over MQTT, the paper's delays"
    table = Table(title=title)
    for column in ("", "rounds", "seconds", "ratio", "before round 1", "per round", "MB", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        pace = (row.seconds - row.first) / max(1, row.rounds - 1)
        table.add_row(
            *(row.name, str(row.rounds), f"{row.seconds:.2f}", f"{row.seconds / ours.seconds:.1f}"),
            *(f"{row.first:.2f} s", f"{pace:.2f} s", f"{row.megabytes:.2f}", f"{row.megabytes / ours.megabytes:.1f}"),
        )
    Console(width=120).print(table)


def verdict(devices: int, rows: list[Row]) -> bool:
    """Whether FedAvg takes as long as it is to; where there is a goal, it is told."""
    ratio, goal = rows[1].seconds / rows[0].seconds, GOALS.get(devices, 0.0)
    if goal:
        said = "reached" if ratio >= goal else "MISSED"
        print(f"FedAvg takes {ratio:.1f} times as long as ours at {devices} devices, goal {goal:g}: {said}", flush=True)
    return ratio >= goal


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    parser.add_argument("--turns", type=int, default=3, help="how often ours is raced; the median counts")
    parser.add_argument("--idle-epochs", type=int, default=IDLE_EPOCHS, help="epochs without delays")
    parser.add_argument("--idle-turns", type=int, default=IDLE_TURNS, help="how often each transport is measured")
    parser.add_argument("--flower", action="store_true", help="then FedAvg and SecAgg+ on Flower: mostly transport")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.getLogger("codedfl").setLevel(logging.ERROR)
    missed = False
    for devices in options.devices:
        rows = race(devices, options.target, options.program, options.turns)
        show(devices, rows, options.target)
        missed = not verdict(devices, rows) or missed
        idle = idle_epochs(devices, options.program, options.idle_epochs, options.idle_turns)
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
        if devices == 5 and idle.mqtt > 2 * idle.grpc:
            print("an epoch over MQTT takes at most twice one over gRPC at 5 devices: MISSED")
            missed = True
    if options.flower:
        print("on Flower, where a round is mostly transport:", flush=True)
        flower_speedup.main(["--nodes", "5"])
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

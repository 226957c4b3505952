"""Our scheme against FedAvg on the same transport, in wall-clock time: one broker, TLS, the paper's delays.

Digits, each class on three devices only; the paper's mix of devices, delays scaled so that a fast device takes a
twentieth of a second; the same seeds for all rows. Ours is a study with role keys, whose epochs are as many as reach
the target. FedAvg waits for everybody, with 1 and with 5 local steps, each with the step size that needs fewest rounds;
its local work is given the same delay whatever its steps, and its models travel as float32. Clocks start when all
devices are there and stop with the first model that reaches the target; ours counts before it trains, and shares: both
are in it. Then an epoch without delays, over the broker and over plain gRPC, and what an epoch's time is made of.
Ratios within one run count, not seconds.
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
from codedfl.engine.conductor import Patience
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_run import Serving, serve_study
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import SERVER_NAME, Party
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.post import MqttPost
from codedfl.protocol import Event
from codedfl.protocol.events import PhaseBegun
from codedfl.run.rehearsal import Rehearsed, rehearse
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
SIZES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0)
PER_PROCESS = 5
MOST_EPOCHS = 20
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


def best_fedavg(rows: PlainRows, target: float, steps: int) -> float:
    """The step size with which FedAvg needs fewest rounds; found in this process."""
    best = (0.0, MOST_ROUNDS)
    for size in SIZES:
        found = rows.rounds_to(target, steps, size, most=best[1])
        best = (size, found) if found else best
    if not best[0]:
        raise SystemExit(f"FedAvg with {steps} local steps never reaches {target}")
    return best[0]


class _Times(RunWatch):
    """When the devices were there, and when each epoch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.began = 0.0
        self.times: list[float] = []

    def take(self, event: Event) -> None:
        if isinstance(event, PhaseBegun) and not self.began:
            self.began = time.time()
        super().take(event)

    def ended(self, epoch: int, score: float | None) -> None:
        super().ended(epoch, score)
        self.times.append(time.time())


def run_ours(fleet: SpeedFleet, way: str, delays: list[dict[str, Any]]) -> tuple[_Times, StudyFindings, int]:
    """One run of ours; returns when things happened, what was found, and the bytes at the server."""
    made, study, watch = fleet.made, fleet.made.study, _Times()
    link: GrpcServerLink | BrokerLink
    if way == GRPC:
        folder = fleet.broker.path
        link = GrpcServerLink(Party(folder / "ca.pem", folder / "broker.pem", folder / "broker.key"), len(fleet.names))
        port = link.port
    else:
        link, port = fleet.link("codedfl-server-speed"), fleet.broker.port
    fleet.start_devices(way, port, delays)
    serving = Serving(fleet.output, made.server_key, made.roster, Patience(farewell_seconds=10.0))
    post = MqttPost(link, study.name, study.digest())
    try:
        found = serve_study(post, study, serving, watch)
        post.leave(over=True)
        link.flush(5.0)
    finally:
        link.close()
    fleet.wait_for_devices()
    return watch, found, link.bytes_in + link.bytes_out


class SpeedFleet(LightFleet):
    """A ``LightFleet`` whose server is this process."""

    def link(self, identity: str) -> BrokerLink:
        party = self.broker.party(SERVER_NAME)
        address = BrokerAddress(HOST, self.broker.port, True, party.authority, party.certificate, party.key)
        link = BrokerLink(address, identity, MqttPost.will("speed"))
        link.open()
        return link


def race(devices: int, target: float, program: str) -> list[Row]:
    """Ours and FedAvg to the target, with the paper's delays."""
    delays, rows = paper_delays(devices), []
    with tempfile.TemporaryDirectory(prefix="codedfl-speed-") as temporary:
        folder = Path(temporary)
        tables = digits_tables(devices, alike=False)
        longest = agree(folder / "longest", digits_study(2048, epochs=MOST_EPOCHS, solver="cg"), tables, pods=1)
        epochs = PlainRows(longest).epochs_to(target)
        made = agree(folder / "fleet", digits_study(2048, name="speed", epochs=epochs, solver="cg"), tables, pods=1)
        plain = PlainRows(made)
        with SpeedFleet(made, program, PER_PROCESS) as fleet:
            watch, found, traffic = run_ours(fleet, OURS, delays)
            seconds = [moment - watch.began for moment in watch.times]
            rows.append(Row("ours, role keys", len(seconds), seconds[-1], seconds[0], traffic / 1e6))
            theta = found.model.theta
            if plain.score(theta) < target or not np.array_equal(theta, made.rehearsed().findings.model.theta):
                raise SystemExit(f"ours must reach {target} with the rehearsal's model: it does not")
            for steps in (1, 5):
                size = best_fedavg(plain, target, steps)
                link = fleet.link("codedfl-server-fedavg")
                fleet.start_devices(FEDAVG, fleet.broker.port, delays, steps, size, plain.merged)
                shape = (plain.parts[0][0].shape[1], plain.parts[0][1].shape[1])

                def reached(theta: Floats) -> bool:
                    return plain.score(theta) >= target

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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--program", default="", help="mosquitto or small; mosquitto if installed")
    parser.add_argument("--idle-epochs", type=int, default=IDLE_EPOCHS, help="epochs without delays")
    parser.add_argument("--idle-turns", type=int, default=IDLE_TURNS, help="how often each transport is measured")
    parser.add_argument("--flower", action="store_true", help="then FedAvg and SecAgg+ on Flower: mostly transport")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.getLogger("codedfl").setLevel(logging.ERROR)
    too_slow = False
    for devices in options.devices:
        rows = race(devices, options.target, options.program)
        show(devices, rows, options.target)
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
        too_slow = too_slow or (devices == 5 and idle.mqtt > 2 * idle.grpc)
    if options.flower:
        print("on Flower, where a round is mostly transport:", flush=True)
        flower_speedup.main(["--nodes", "5"])
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main())

"""Several devices in one process, each with a connection, a key and a state of its own: for measurements.

``python -m experiments.light_devices JOB.json``. A job says where the study and its devices' states are, which devices,
how slow each is, and by which way: our protocol over a broker, with a thread each or all in one; FedAvg over the same
broker; or ours over plain gRPC.
"""

from __future__ import annotations

import json
import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from codedfl.analyses.study_plan import StudyRun
from codedfl.engine.calls import Step
from codedfl.engine.resident_host import ResidentHost
from codedfl.mqtt.daemon import DeviceDaemon

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.study import Study
from codedfl.device.membership import Membership
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.protocol.messages import Kind, Message, Update
from codedfl.statistics.statistic import Ask
from experiments.fedavg_on_mqtt import FedAvgDevice
from experiments.grpc_floor import GrpcDeviceLink
from experiments.local_study import LocalStudy
from experiments.plain_rows import rows_of
from experiments.polled_link import PolledLink

OURS, POLLED, FEDAVG, GRPC = "ours", "polled", "fedavg", "grpc"
_ALIVE_SECONDS = 5.0
_QUIET_SECONDS = 1.0  # without mail for anybody: look after all connections


@dataclass(frozen=True)
class LightDevice:
    """delay, mean: seconds before every answer, and the mean of an exponential time on top (paper III-B)."""

    name: str
    certificate: str
    key: str
    delay: float = 0.0
    mean: float = 0.0
    seed: int = 0

    def delays(self) -> Callable[[], None]:
        rng = np.random.default_rng(self.seed)

        def wait() -> None:
            if self.delay or self.mean:
                time.sleep(self.delay + self.mean * rng.standard_exponential())

        return wait


@dataclass(frozen=True)
class Job:
    """What one process is to do.

    folder: of the ``LocalStudy`` that the devices have agreed to.
    steps, size, merged: of FedAvg's local descent, and what its columns leave out.
    """

    way: str
    folder: str
    port: int
    authority: str
    devices: tuple[LightDevice, ...]
    steps: int = 1
    size: float = 1.0
    merged: tuple[tuple[int, ...], ...] = ()

    @property
    def made(self) -> LocalStudy:
        return LocalStudy(Path(self.folder), tuple(device.name for device in self.devices))

    def save(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def load(cls, path: Path) -> Job:
        found: dict[str, Any] = json.loads(path.read_text())
        merged = tuple(map(tuple, found["merged"]))
        return cls(**found | {"devices": tuple(LightDevice(**one) for one in found["devices"]), "merged": merged})

    def address(self, device: LightDevice) -> BrokerAddress:
        files = (Path(self.authority), Path(device.certificate), Path(device.key))
        return BrokerAddress("127.0.0.1", self.port, True, *files)


def host_of(job: Job, study: Study, device: LightDevice) -> ResidentHost:
    return Membership(device.name, job.made.state(device.name), job.made.roster_file).host(study, ResidentHost)


def serve_one(job: Job, study: Study, device: LightDevice) -> None:
    wait = device.delays()
    if job.way == FEDAVG:
        plain = BrokerLink(job.address(device), device.name, DeviceDaemon.will("fedavg", device.name))
        plain.open()
        snapshot = DeviceFolder.of(job.made.state(device.name), device.name).frozen(study.digest())
        rows = rows_of(StudyRun(study, job.made.roster, Ask("products", job.merged)), snapshot)
        FedAvgDevice(plain, device.name, *rows, job.steps, job.size, wait, float(study.regularisation)).run()
        plain.close()
        return

    def before_step(call: Step) -> None:
        """A delay stands for a product; who asks for the constant part asks for none."""
        newest = Message.decode(call.parcel.newest) if call.parcel.newest else None
        if newest is not None and newest.kind is Kind.UPDATE and Update.decode(newest.body).packed:
            wait()

    host = host_of(job, study, device)
    will = DeviceDaemon.will(study.name, device.name)
    link: GrpcDeviceLink | BrokerLink
    if job.way == GRPC:
        link = GrpcDeviceLink(job.address(device), will)
    else:
        link = BrokerLink(job.address(device), device.name, will)
    link.open()
    daemon = DeviceDaemon(link, host, study.name, study.digest(), before_step=before_step)
    daemon.run(lambda: daemon.study_over)
    link.flush(5.0)
    link.close()


def serve_each_in_a_thread(job: Job, study: Study) -> None:
    threading.stack_size(512 << 10)
    threads = [threading.Thread(target=serve_one, args=(job, study, device)) for device in job.devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Seat(NamedTuple):
    """One of many devices in one thread."""

    link: PolledLink
    daemon: DeviceDaemon

    @classmethod
    def taken(cls, job: Job, study: Study, device: LightDevice) -> Seat:
        link = PolledLink(job.address(device), device.name, DeviceDaemon.will(study.name, device.name))
        link.open()
        return cls(link, DeviceDaemon(link, host_of(job, study, device), study.name, study.digest()))

    def turn(self) -> bool:
        """Do what there is to do; returns whether it stays."""
        if self.link.fileno() < 0:
            self.link.open()
        self.link.pump()
        self.daemon.turn(0.0)
        if not self.daemon.study_over:
            return True
        self.daemon.run(lambda: True)  # says that it leaves
        self.link.flush(5.0)
        self.link.close()
        return False


def serve_all_in_turn(job: Job, study: Study) -> None:
    """All in one thread, without delays: whoever has mail works, the others wait for it."""
    here = [Seat.taken(job, study, device) for device in job.devices]
    ready, alive = list(here), time.monotonic()
    with selectors.DefaultSelector() as selector:
        while here:
            pumped = False
            for seat in ready:
                if time.monotonic() - alive > _ALIVE_SECONDS:  # while one works, the others must not be lost
                    for other in here:
                        other.link.pump()
                    alive, pumped = time.monotonic(), True
                with suppress(KeyError, ValueError):  # not yet, or its connection was lost
                    selector.unregister(seat.link)
                if not seat.turn():
                    here.remove(seat)
                elif seat.link.fileno() >= 0:
                    selector.register(seat.link, seat.link.interest, seat)
            mail = [] if pumped else [key.data for key, _ in selector.select(_QUIET_SECONDS)]
            ready = mail or list(here)


def main(arguments: Sequence[str]) -> None:
    job = Job.load(Path(arguments[0]))
    study = job.made.study
    logging.getLogger("codedfl").setLevel(logging.ERROR)
    (serve_all_in_turn if job.way == POLLED else serve_each_in_a_thread)(job, study)


if __name__ == "__main__":
    main(sys.argv[1:])

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

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.study import Study
from codedfl.device.membership import Membership
from codedfl.engines.mqtt_device import MqttDevice
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink, Link, Will
from codedfl.sum.wire import asks_for_product
from experiments import fedavg_on_mqtt
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


def device_at(link: Link, job: Job, study: Study, device: LightDevice) -> MqttDevice:
    """A delay stands for a product; who asks for a sum asks for none."""
    membership = Membership(device.name, job.made.state(device.name), (job.made.roster,))
    wait, reply = device.delays(), membership.device(study).reply

    def answer(request: bytes) -> bytes:
        if asks_for_product(request):
            wait()
        return reply(request)

    return MqttDevice(link, device.name, {study.digest(): answer})


def serve_one(job: Job, study: Study, device: LightDevice) -> None:
    if job.way == FEDAVG:
        serve_plainly(job, study, device)
        return
    will = MqttDevice.will(device.name)
    link: GrpcDeviceLink | BrokerLink
    if job.way == GRPC:
        link = GrpcDeviceLink(job.address(device), will)
    else:
        link = BrokerLink(job.address(device), device.name, will)
    link.open()
    here = device_at(link, job, study, device)
    while not here.all_over:
        here.turn(_QUIET_SECONDS)
    here.leave()
    link.flush(5.0)
    link.close()


def serve_plainly(job: Job, study: Study, device: LightDevice) -> None:
    link = BrokerLink(job.address(device), device.name, Will(topics.presence(fedavg_on_mqtt.STUDY, device.name)))
    link.open()
    snapshot = DeviceFolder.of(job.made.state(device.name), device.name).frozen(study.digest())
    rows = rows_of(study, job.made.roster, job.merged, snapshot)
    wait, regularisation = device.delays(), float(study.regularisation)
    fedavg_on_mqtt.FedAvgDevice(link, device.name, *rows, job.steps, job.size, wait, regularisation).run()
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
    device: MqttDevice

    @classmethod
    def taken(cls, job: Job, study: Study, device: LightDevice) -> Seat:
        link = PolledLink(job.address(device), device.name, MqttDevice.will(device.name))
        link.open()
        return cls(link, device_at(link, job, study, device))

    def turn(self) -> bool:
        """Do what there is to do; returns whether it stays."""
        if self.link.fileno() < 0:
            self.link.open()
        self.link.pump()
        self.device.turn(0.0)
        if not self.device.all_over:
            return True
        self.device.leave()
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

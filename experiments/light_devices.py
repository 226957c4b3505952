"""Several devices in one process, each with a connection, a key and a state of its own: for measurements.

``python -m experiments.light_devices JOB.json``. A job says where the study and the rows are, which devices, how slow
each is, and by which way: coded over a broker, FedAvg over the same broker, or coded over plain gRPC.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.engine.calls import Call, Reply, Step
from codedfl.engine.keys import load_identity
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.study_config import RunFile, load_run_file
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.link import BrokerLink
from codedfl.protocol import Policy
from codedfl.protocol.local_data import LocalRows
from codedfl.protocol.messages import Kind, Message
from experiments.fedavg_on_mqtt import FedAvgDevice
from experiments.grpc_floor import GrpcDeviceLink

CODED, FEDAVG, GRPC = "coded", "fedavg", "grpc"


@dataclass(frozen=True)
class LightDevice:
    """delay, mean: seconds before every answer, and the mean of an exponential time on top (paper III-B)."""

    name: str
    rows: str  # an .npz with X and label
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
    """What one process is to do. steps, size: of FedAvg's local descent."""

    way: str
    study: str
    states: str
    port: int
    authority: str
    devices: tuple[LightDevice, ...]
    steps: int = 1
    size: float = 1.0

    def save(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)))
        return path

    @classmethod
    def load(cls, path: Path) -> Job:
        found: dict[str, Any] = json.loads(path.read_text())
        return cls(**found | {"devices": tuple(LightDevice(**one) for one in found["devices"])})

    def address(self, device: LightDevice) -> BrokerAddress:
        files = (Path(self.authority), Path(device.certificate), Path(device.key))
        return BrokerAddress("127.0.0.1", self.port, True, *files)


_TURN = threading.Lock()


class TakesTurns(ResidentHost):
    """Devices of one process work one after the other: they have one processor, and read the agreement once for all."""

    def handle(self, call: Call) -> Reply:
        with _TURN:
            return super().handle(call)


def serve_one(job: Job, study: RunFile, device: LightDevice) -> None:
    with np.load(device.rows) as found:
        prepared = study.learning.rows(found["X"], found["label"])
    wait = device.delays()
    if job.way == FEDAVG:
        plain = BrokerLink(job.address(device), device.name, DeviceDaemon.will("fedavg", device.name))
        plain.open()
        FedAvgDevice(plain, device.name, *prepared, job.steps, job.size, wait).run()
        plain.close()
        return

    def before_step(call: Step) -> None:
        if call.parcel.newest and Message.decode(call.parcel.newest).kind is Kind.UPDATE:
            wait()

    home = Path(job.states) / device.name
    identity, policy = load_identity(home / "device.key"), Policy(allow_gram=True)  # small models, many epochs
    recipe = study.learning.recipe.digest
    host = TakesTurns(device.name, identity, home / "runs", lambda: LocalRows(*prepared), policy, recipe)
    will = DeviceDaemon.will(study.name, device.name)
    link: GrpcDeviceLink | BrokerLink
    if job.way == GRPC:
        link = GrpcDeviceLink(job.address(device), will)
    else:
        link = BrokerLink(job.address(device), device.name, will)
    link.open()
    daemon = DeviceDaemon(link, host, study.name, study.digest(), before_step=before_step)
    daemon.run(lambda: host.runs_ended > 0)
    link.flush(5.0)
    link.close()


def main(arguments: Sequence[str]) -> None:
    job = Job.load(Path(arguments[0]))
    study = load_run_file(Path(job.study))
    logging.getLogger("codedfl").setLevel(logging.ERROR)
    threading.stack_size(512 << 10)
    threads = [threading.Thread(target=serve_one, args=(job, study, device)) for device in job.devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])

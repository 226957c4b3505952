"""A scheme of the laboratory on this machine: a broker with TLS, a server and six devices, each a process of its own.

``make fleet SCHEME=coded-padded`` runs it (coded-keys, role-keys). One device replies late, and as many as the scheme
can do without are killed for good in the third epoch. The model is compared bit for bit with the one of one process,
and with the centralised fit. Everything it starts, it stops.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from codedfl.data.problem import Problem, make_problem
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import SERVER_NAME, BrokerFolder
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.solver import Solver
from codedfl_lab import CodedKeys, CodedPadded, CodedScheme, RoleKeys, Simulated, datasets
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.parties.making import Parties, Roster
from codedfl_lab.training.at_broker import join, serve
from codedfl_lab.training.in_process import SERVER, simulated_identity, statistic_of
from experiments.local_programs import HOST, LocalPrograms, free_port

DEVICES, FEATURES, EPOCHS = 6, 60, 8
SLOW, SLOW_SECONDS = "device-0", 0.4
SCHEMES: dict[str, CodedScheme] = {"coded-padded": CodedPadded(3), "coded-keys": CodedKeys(3), "role-keys": RoleKeys(1)}
_ROOT = Path(__file__).resolve().parent.parent
_MODEL = "model.npy"


@cache
def digits() -> Problem:
    """The digits, sorted by class and dealt out; a device takes its own rows of them and no others."""
    return make_problem(datasets.load("digits", use_network=False), n_devices=DEVICES, n_features=FEATURES)


def solver() -> Solver:
    return BlockKrylov(EPOCHS, 1e-4)


def parties_of(scheme: CodedScheme) -> Parties:
    keys = {name: simulated_identity(name).public for name in digits().device_names}
    return scheme.parties(statistic_of(scheme, digits()), Roster(simulated_identity(SERVER).public, keys))


def as_party(scheme: CodedScheme, party: str, folder: Path, url: str) -> None:
    """One process: the server, or a device by its name."""
    files = BrokerFolder(folder / "broker").party(SERVER_NAME if party == SERVER else party)
    address = BrokerAddress.parse(url, files.authority, files.certificate, files.key)
    parties, identity = parties_of(scheme), simulated_identity(party)
    if party != SERVER:
        rows = digits().rows_of(digits().device_names.index(party))
        delay = SLOW_SECONDS if party == SLOW else 0.0
        join(parties, party, identity, lambda: (digits().X[rows], digits().Y[rows]), address, delay)
        return
    statistic = statistic_of(scheme, digits())
    model = serve(parties, statistic, solver(), identity, address, lambda epoch, _: print(f"epoch {epoch}", flush=True))
    np.save(folder / _MODEL, model)


def trained(name: str, say=print) -> np.ndarray:
    """The model of real processes, of which some are killed on the way."""
    scheme, names = SCHEMES[name], list(digits().device_names)
    with tempfile.TemporaryDirectory(prefix="codedfl-fleet-") as temporary:
        folder = Path(temporary)
        broker = BrokerFolder.create(folder / "broker", [HOST, "localhost"], names, free_port(), HOST)
        programs = LocalPrograms(folder, _ROOT)
        try:
            programs.start("broker", [sys.executable, "-m", "codedfl", "broker", "start", str(broker.path)])
            programs.wait_for_port("broker", broker.port)
            for party in (*names, SERVER):
                programs.start(party, _command(name, party, folder, f"mqtts://{HOST}:{broker.port}"))
            _wait_for(programs, "epoch 3")
            killed = names[-scheme.quorum(DEVICES).failures_survived :]
            for one in killed:
                programs.kill(one)
            say(f"{SLOW} replies {SLOW_SECONDS:g} s late; epoch 3: killed {', '.join(killed)} for good")
            programs.wait_for(SERVER, 60.0)
            return np.load(folder / _MODEL)
        finally:
            programs.stop()


def _command(scheme: str, party: str, folder: Path, url: str) -> list[str]:
    options = ["--scheme", scheme, "--party", party, "--folder", str(folder), "--url", url]
    return [sys.executable, "-m", "experiments.coded_fleet", *options]


def _wait_for(programs: LocalPrograms, line: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while line not in programs.log_of(SERVER):
        if time.monotonic() > deadline or programs.ended(SERVER) is not None:
            raise SystemExit(f"{line} must come, got {programs.log_of(SERVER)[-800:]}")
        time.sleep(0.05)


def centralised(scheme: CodedScheme) -> np.ndarray:
    """The same solver on the totals of one place."""
    *_, model = CentralTotals(digits()).train(solver(), narrow=scheme.narrow)
    return model


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scheme", choices=SCHEMES, default="coded-padded")
    parser.add_argument("--party", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    scheme = SCHEMES[options.scheme]
    if options.party:
        as_party(scheme, options.party, options.folder, options.url)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is stopped on the way out
    began = time.monotonic()
    model = trained(options.scheme)
    one_process = Simulated.of(scheme, digits()).train(solver())
    print(f"{scheme.label}: accuracy {digits().score(model):.4f}, {time.monotonic() - began:.1f} s")
    same = np.array_equal(model, one_process), np.array_equal(model, centralised(scheme))
    print(f"bit for bit that of one process: {same[0]}; the centralised fit: {same[1]}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())

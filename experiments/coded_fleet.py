"""A scheme of the laboratory on this machine: a broker with TLS, a server and six devices, each a process of its own.

``make fleet SCHEME=coded-padded`` runs it (coded-keys, role-keys). One device replies late, and as many as the scheme
can do without (alpha - 1) are killed for good in the fourth epoch. Nobody waits for the late one before that; then it
is one of the D - alpha + 1 that are left. The model is compared bit for bit with the one of one process, and with the
centralised fit; the command ends with 1 where one of these fails. Everything it starts, it stops.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from itertools import pairwise

import numpy as np

from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.solver import Solver
from codedfl_lab import CodedKeys, CodedPadded, CodedScheme, RoleKeys, Simulated, datasets
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.training.processes import Troubles, train_in_processes

DEVICES, FEATURES, EPOCHS, KILLED_IN = 6, 60, 8, 4
SLOW, SLOW_SECONDS = "device-0", 1.0
SCHEMES: dict[str, CodedScheme] = {"coded-padded": CodedPadded(3), "coded-keys": CodedKeys(3), "role-keys": RoleKeys(1)}


def solver() -> Solver:
    return BlockKrylov(EPOCHS, 1e-4)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scheme", choices=SCHEMES, default="coded-padded")
    scheme = SCHEMES[parser.parse_args(arguments).scheme]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all is stopped on the way out
    digits = make_problem(datasets.load("digits", use_network=False), n_devices=DEVICES, n_features=FEATURES)
    killed = digits.device_names[-scheme.quorum(DEVICES).failures_survived :]
    print(f"{SLOW} replies {SLOW_SECONDS:g} s late; epoch {KILLED_IN}: killed {', '.join(killed)} for good")
    began = time.monotonic()
    done = train_in_processes(scheme, digits, solver(), Troubles({SLOW: SLOW_SECONDS}, killed, KILLED_IN))
    print(f"{scheme.label}: accuracy {digits.score(done.model):.4f}, {time.monotonic() - began:.1f} s")
    before = min(later - earlier for earlier, later in pairwise(done.seconds[:KILLED_IN]))
    print(f"fastest epoch before that: {before:.3f} s, so nobody waited for {SLOW}: {before < SLOW_SECONDS}")
    *_, centralised = CentralTotals(digits).train(solver(), narrow=scheme.narrow)
    one_process = Simulated.of(scheme, digits).train(solver())
    same = np.array_equal(done.model, one_process), np.array_equal(done.model, centralised)
    print(f"bit for bit that of one process: {same[0]}; the centralised fit: {same[1]}")
    return 0 if all(same) and before < SLOW_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())

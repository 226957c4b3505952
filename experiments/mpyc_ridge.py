"""Ridge regression by MPyC, a general program for computing on secret shares: a peer that really runs.

Three parties, each a process, share every institution's X'X and X'y among them (Shamir, any one of them learns
nothing), add the shares up and solve the system in secure fixed point. Only the coefficients are opened. Institutions
are dealt out to the parties, which stand for them: an institution that is not a party sends half as much again.

It is no test of MPyC's limits, and knows no institution that is lost: all three parties must stay to the end. MPyC,
and gmpy2 for its arithmetic, are installed for ``experiments.hospitals`` only (``make hospitals``).
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.typing import Floats
from experiments.local_programs import HOST, LocalPrograms, free_port

PARTIES = 3
_BITS, _FRACTION_BITS = 80, 48  # of a secure number; enough for a pivot of 1e-4 to keep ten digits
_SECONDS = 600


@dataclass(frozen=True, eq=False)
class PeerRidge:
    """What the parties found and what it took.

    seconds: from the first share to the opened coefficients, of the slowest party; without starting Python.
    busy_seconds: of processors over the same time, all parties together.
    shared_bytes: the largest upload of one institution: its shares for the other two parties.
    sent_bytes: of all parties in all.
    """

    theta: Floats
    seconds: float
    busy_seconds: float
    shared_bytes: float
    sent_bytes: int


def mpyc_ridge(systems: Sequence[Floats], scale: float, ridge: float) -> PeerRidge:
    """Solve (sum of X'X / scale + ridge) Theta = sum of X'y / scale.

    Parameters
    ----------
    systems : sequence of arrays
        Of each institution, d x (d + 1): X'X and, as the last column, X'y.
    scale : float
        Public, about the number of rows, so that the mean products fit the fixed point.
    ridge : float
        Public; 0 is least squares.
    """
    if importlib.util.find_spec("mpyc") is None:
        raise SystemExit("mpyc must be installed for this experiment: make hospitals")
    width = systems[0].shape[0]
    upper = np.triu_indices(width, m=width + 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for party in range(PARTIES):
            np.save(folder / f"in-{party}.npy", np.array([one[upper] / scale for one in systems[party::PARTIES]]))
        counts = [len(systems[party::PARTIES]) for party in range(PARTIES)]
        (folder / "public.json").write_text(json.dumps({"width": width, "ridge": ridge, "counts": counts}))
        _run_parties(folder)
        found = [json.loads((folder / f"out-{party}.json").read_text()) for party in range(PARTIES)]
    return PeerRidge(
        np.array(found[0]["theta"]),
        max(one["seconds"] for one in found),
        sum(one["busy_seconds"] for one in found),
        max(one["input_bytes"] / count for one, count in zip(found, counts, strict=True)),
        sum(one["sent_bytes"] for one in found),
    )


def _run_parties(folder: Path) -> None:
    addresses = [word for _ in range(PARTIES) for word in ("-P", f"{HOST}:{free_port()}")]
    command = [sys.executable, "-m", "experiments.mpyc_ridge", str(folder), *addresses]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    programs = LocalPrograms(folder, Path.cwd(), environment)
    names = [f"party-{party}" for party in range(PARTIES)]
    try:
        for party, name in enumerate(names):
            programs.start(name, [*command, "-I", str(party)])
        _wait_for(programs, names)
    finally:
        programs.stop()


def _wait_for(programs: LocalPrograms, names: list[str]) -> None:
    """Until all have ended well. When one fails, the others would wait for it for ever."""
    deadline = time.monotonic() + _SECONDS
    while any(programs.ended(name) != 0 for name in names):
        failed = [name for name in names if programs.ended(name)]
        if failed or time.monotonic() > deadline:
            name = (failed or names)[0]
            raise SystemExit(f"{name} of MPyC must open the coefficients, got {programs.log_of(name)[-1000:]}")
        time.sleep(0.05)


# -- one party


async def _take_part(mpc: Any, folder: Path) -> None:
    public = json.loads((folder / "public.json").read_text())
    own = np.load(folder / f"in-{mpc.pid}.npy")
    number = mpc.SecFxp(_BITS, _FRACTION_BITS)
    listen_on_loopback()
    await mpc.start()
    began, busy, sent = time.perf_counter(), time.process_time(), _sent(mpc)
    total = 0
    for sender, count in enumerate(public["counts"]):
        # Everybody but the sender gives a form to fill: shares of zeros that nobody sends.
        values = own if sender == mpc.pid else np.zeros((count, own.shape[1]))
        total = total + mpc.np_sum(mpc.input(number.array(values), senders=sender), axis=0)
    await mpc.gather(total)
    input_bytes = _sent(mpc) - sent
    theta = await _solve(mpc, total, public["width"], public["ridge"])
    found = {
        "theta": [float(one) for one in theta],
        "seconds": time.perf_counter() - began,
        "busy_seconds": time.process_time() - busy,
        "input_bytes": input_bytes,
        "sent_bytes": _sent(mpc) - sent,
    }
    (folder / f"out-{mpc.pid}.json").write_text(json.dumps(found))
    await mpc.shutdown()


def listen_on_loopback() -> None:
    """Give the running loop's servers this machine's own address.

    MPyC names its servers' port and no host, which is every interface of the machine, and has no option for it.
    """
    loop: Any = asyncio.get_running_loop()
    loop.create_server = functools.partial(loop.create_server, host=HOST)


def _sent(mpc: Any) -> int:
    return sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)


async def _solve(mpc: Any, upper: Any, width: int, ridge: float) -> Any:
    """Elimination without pivots, which a positive definite matrix does not need, and backward substitution."""
    place = np.zeros((width, width + 1), dtype=np.int64)
    place[np.triu_indices(width, m=width + 1)] = np.arange(upper.size)
    square = place[:, :width]
    place[:, :width] = np.where(np.tri(width, k=-1, dtype=bool), square.T, square)
    rest = upper[place.ravel()].reshape(width, width + 1) + np.eye(width, width + 1) * ridge
    rows = []
    for _ in range(width):
        row = rest[0, 1:] * (1 / rest[0, 0])
        rows.append(row)
        rest = rest[1:, 1:] - mpc.np_outer(rest[1:, 0], row) if len(rows) < width else rest
    theta: list[Any] = []
    for row in reversed(rows):
        numbers = mpc.np_tolist(row)
        theta.insert(0, numbers[-1] - (mpc.in_prod(numbers[:-1], theta) if theta else 0))
    return await mpc.output(theta)


if __name__ == "__main__":
    from mpyc.runtime import mpc as runtime  # reads its options, -P and -I, from the command line

    runtime.run(_take_part(runtime, Path(sys.argv[1])))

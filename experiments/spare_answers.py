"""What it costs to check answers with spare ones (``Server(spare=...)``): the server's computing, and the waiting.

1. Computing at the paper's size (d = 2000, c = 10, D = 25): the check of n answers against all the server does in an
   epoch, measured inside a real server (open and unpack n answers, check, decode, unpad with one product, back to
   reals, step, round and sign the next update). Processor time of one thread, medians; the goal is 10 % at most.
2. Waiting, in virtual time on the paper's fleet: how much longer an epoch of ``coded-keys`` is with K spare answers, by
   alpha. Answers that come late are checked without any waiting, so K = 0 costs nothing and finds lies after the fact.

    python -m experiments.spare_answers [--json FILE]

The exit status is 1 when the goal is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets as system_random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from codedfl.code.answer_check import Verdict
from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Agreement, Member, Parameters
from codedfl.protocol.epoch import Epoch
from codedfl.protocol.messages import SERVER, Answer, Kind, Message, Update
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, CodedKeys
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl.typing import Planes
from codedfl_lab.costs.times import Conditions, Draws, WorkShape, epoch_end_times
from codedfl_lab.fleet.fleet import Fleet

DEVICES, FEATURES, CLASSES, SAMPLES = 25, 2000, 10, 60_000
GOAL = 0.10
COMPUTING = ((23, 2), (23, 4), (18, 2), (13, 2), (8, 2), (3, 2))  # alpha, spare
ALPHAS = (3, 5, 8, 13, 18, 23)
SPARES = (1, 2, 4)


@dataclass(frozen=True)
class Computing:
    alpha: int
    spare: int
    answers: int
    check_ms: float
    epoch_ms: float

    @property
    def share(self) -> float:
        return self.check_ms / self.epoch_ms


@dataclass(frozen=True)
class Waiting:
    alpha: int
    spare: int
    seconds_per_epoch: float
    seconds_without: float


class _Bench:
    """A real server in the middle of a training, and answers made up for it: X'X is the unit matrix in all.

    The devices' coded answers are B g for random g whose sum is what the server must decode: pads less data.
    """

    def __init__(self, alpha: int, spare: int) -> None:
        rng = np.random.default_rng(alpha)
        bounds = Bounds((2 / FEATURES) ** 0.5, 1.0, SAMPLES, SAMPLES // DEVICES)
        parameters = Parameters("coded-keys", alpha, FEATURES, CLASSES, bounds, samples=SAMPLES)
        names = [f"device-{i}" for i in range(DEVICES)]
        plan = RunPlan(CODED_KEYS, parameters, tuple(names), spare)
        self.server = Server(plan, GradientDescent(1000, 9e-6, STEP_PAPER))
        self.keys = {name: RunKey.generate() for name in names}
        members = [self._joined(name) for name in names]
        self.agreed = Agreement.freeze(self.server.invitation, members)
        self.ring = self.agreed.fixed_point.ring
        linear = self.ring.from_integers(rng.integers(-(2**40), 2**40, (FEATURES, FEATURES)))
        session, sharing = self.server._session, self.server.sharing
        session.agreement, session.phase = self.agreed, Phase.SHARING
        sharing.shared = set(range(DEVICES))
        sharing.offset_matrix, sharing.offset_constant = linear, self._random(rng)
        sharing.can_start = lambda: True  # type: ignore[method-assign]  # the uploads are made up
        self.rng = rng
        self.update = b""
        self.parts = [self._random(rng) for _ in range(DEVICES - 1)]
        for name in names:
            header = Message(Kind.READY, self.server.run, self.agreed.hash, name, SERVER)
            sent = self.server.receive(header.with_body(self._sealed(name, header, b"")).encode()).outgoing
            self.update = sent[0].data if sent else self.update

    def _random(self, rng: np.random.Generator) -> Planes:
        return self.ring.from_integers(rng.integers(-(2**40), 2**40, FEATURES * CLASSES))

    def _joined(self, name: str) -> Member:
        identity, key = Identity.generate(), self.keys[name].public
        statement = self.server.invitation.join_statement(name, key)
        return Member(name, identity.public, key, identity.sign(statement))

    def _sealed(self, name: str, header: Message, plaintext: bytes) -> bytes:
        public = self.server.invitation.server_key
        return sealed.seal(self.keys[name], public, header.context(), plaintext, system_random.token_bytes)

    def answers(self) -> list[bytes]:
        """As many as the server waits for, to its current update."""
        ring, code, server = self.ring, self.agreed.code, self.server
        body = Message.decode(self.update).body
        update = Update.decode(body)
        assert server.sharing.offset_matrix is not None and server.sharing.offset_constant is not None
        one = [[1]] * len(ring.primes)
        total = ring.zeros(FEATURES * CLASSES)
        if update.epoch == 1:  # the pads of G^(1), less a G^(1) of some size
            data = self.rng.integers(-(2**20), 2**20, FEATURES * CLASSES)
            ring.add_scaled(total, one, [ring.add(server.sharing.offset_constant, ring.from_integers(data), -1)])
        if update.packed:  # the pads of X'X e, less e itself
            e = ring.unpack(update.packed, FEATURES, CLASSES)
            scale = [[-(2**self.agreed.fixed_point.gram_bits)]] * len(ring.primes)
            ring.add_scaled(total, one, [ring.product(server.sharing.offset_matrix, e).reshape(total.shape)])
            ring.add_scaled(total, scale, [e.reshape(total.shape)])
        ring.add_scaled(total, [[-1] * len(self.parts)] * len(ring.primes), self.parts)
        matrix, digest, wire = code.matrix(), hashlib.sha256(body).digest(), []
        for i in self.rng.permutation(DEVICES)[: code.answers_needed + server.epochs.spare]:
            answer = ring.zeros(FEATURES * CLASSES)
            ring.add_scaled(answer, matrix[:, i].tolist(), [*self.parts, total])
            name = self.agreed.names[i]
            header = Message(Kind.ANSWER, server.run, self.agreed.hash, name, SERVER)
            plaintext = Answer(update.epoch, digest, ring.pack(answer)).encode()
            wire.append(header.with_body(self._sealed(name, header, plaintext)).encode())
        return wire


def computing(alpha: int, spare: int, rounds: int) -> Computing:
    bench = _Bench(alpha, spare)
    checking: list[float] = []
    honest_check = Epoch.check

    def timed_check(*arguments: Any) -> Verdict:
        begin = time.process_time()
        verdict = honest_check(*arguments)
        checking.append(time.process_time() - begin)
        return verdict

    Epoch.check = timed_check  # type: ignore[assignment, method-assign]
    epochs = []
    for _ in range(rounds + 1):
        wire = bench.answers()
        begin = time.process_time()
        for message in wire:
            sent = bench.server.receive(message).outgoing
        epochs.append(time.process_time() - begin)
        bench.update = sent[0].data
    Epoch.check = honest_check  # type: ignore[method-assign]
    # The first epoch may compile.
    return Computing(alpha, spare, len(wire), 1e3 * median(checking[1:]), 1e3 * median(epochs[1:]))


def waiting(alpha: int, spare: int, epochs: int = 20, draws: int = 400) -> Waiting:
    at = Conditions(Fleet.load("paper"))
    shape = WorkShape(FEATURES, CLASSES, np.full(DEVICES, SAMPLES // DEVICES))

    def per_epoch(scheme: CodedKeys) -> float:
        start, ends = epoch_end_times(scheme, shape, at, epochs, Draws(draws, np.random.default_rng(0)))
        return float((ends[:, -1] - start).mean() / epochs)

    return Waiting(alpha, spare, per_epoch(CodedKeys(alpha, spare=spare)), per_epoch(CodedKeys(alpha)))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the numbers here, too")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        computed = [computing(alpha, spare, options.rounds) for alpha, spare in COMPUTING]
    waited = [waiting(alpha, spare) for alpha in ALPHAS for spare in SPARES if spare < alpha]
    console = Console()
    lines = [
        (str(c.alpha), str(c.spare), str(c.answers), f"{c.check_ms:.2f}", f"{c.epoch_ms:.2f}", f"{100 * c.share:.1f} %")
        for c in computed
    ]
    heads = ("alpha", "spare", "answers", "check, ms", "whole epoch, ms", "share")
    console.print(_table(f"The server's computing, d = {FEATURES}; goal: at most {GOAL:.0%}", heads, lines))
    waits = [
        (
            str(w.alpha),
            str(w.spare),
            f"{w.seconds_without:.2f}",
            f"{w.seconds_per_epoch:.2f}",
            f"+{100 * (w.seconds_per_epoch / w.seconds_without - 1):.0f} %",
        )
        for w in waited
    ]
    console.print(
        _table("An epoch on the paper's fleet, seconds", ("alpha", "spare", "without", "with", "more"), waits)
    )
    if options.json is not None:
        found = {
            "computing": [asdict(c) | {"share": c.share} for c in computed],
            "waiting": [asdict(w) for w in waited],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(c.share > GOAL for c in computed))


if __name__ == "__main__":
    sys.exit(main())

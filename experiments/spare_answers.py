"""What it costs to check answers with spare ones (``Server(spare=...)``): the server's computing, and the waiting.

1. Computing at the paper's size (d = 2000, c = 10, D = 25): the check of n answers against all the server does in an
   epoch with the same n answers (open, unpack, decode, unpad with one product, back to reals). Processor time of one
   thread, medians; the goal is 10 % at most.
2. Waiting, in virtual time on the paper's fleet: how much longer an epoch of ``coded-keys`` is with K spare answers, by
   alpha. Answers that come late are checked without any waiting, so K = 0 costs nothing and finds lies after the fact.

    python -m experiments.spare_answers [--json FILE]

The exit status is 1 when the goal is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

from codedfl import sealed
from codedfl.fixed_point import Bounds, FixedPoint
from codedfl.fleet import Fleet
from codedfl.gradient_code import GradientCode
from codedfl.protocol.answers import AnswerBook
from codedfl.protocol.epoch_total import unpad
from codedfl.protocol.messages import Answer
from codedfl.ring import Planes
from codedfl.schemes import CodedKeys, Conditions, WorkShape, epoch_end_times
from codedfl.sealed import Identity
from experiments.bench import take_turns

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
    all_ms: float

    @property
    def share(self) -> float:
        """Of the server's work per epoch, the check included."""
        return self.check_ms / (self.check_ms + self.all_ms)


@dataclass(frozen=True)
class Waiting:
    alpha: int
    spare: int
    seconds_per_epoch: float
    seconds_without: float


def computing(alpha: int, spare: int, rounds: int) -> Computing:
    format_ = FixedPoint.derive(Bounds((2 / FEATURES) ** 0.5, 1.0, SAMPLES, 2400), FEATURES, DEVICES)
    ring = format_.ring
    code = GradientCode(DEVICES, alpha, ring.primes)
    rng = np.random.default_rng(alpha)
    integers = rng.integers(-(2**20), 2**20, (FEATURES, CLASSES)).astype(np.float64)
    parts = [ring.from_integers(rng.integers(-(2**40), 2**40, FEATURES * CLASSES)) for _ in range(DEVICES)]
    matrix = code.matrix()
    n_answers = code.answers_needed + spare
    answers: dict[int, Planes] = {}
    for i in random.Random(alpha).sample(range(DEVICES), n_answers):
        answers[i] = ring.zeros(FEATURES * CLASSES)
        ring.add_scaled(answers[i], matrix[:, i].tolist(), parts)
    linear = ring.from_integers(rng.integers(-(2**40), 2**40, (FEATURES, FEATURES)))
    server, device = (Identity.generate(random.Random(name).randbytes) for name in ("server", "device"))
    digest, draw = hashlib.sha256(b"update").digest(), random.Random(1).randbytes
    wire = [
        sealed.seal(device, server.public, b"context", Answer(2, digest, ring.pack(answer)).encode(), draw)
        for answer in answers.values()
    ]

    def epoch() -> None:
        book = AnswerBook()
        for i, message in zip(answers, wire, strict=True):
            packed = Answer.decode(sealed.open_sealed(server, device.public, b"context", message)).packed
            book.answers[i] = ring.unpack(packed, FEATURES * CLASSES)
        total = unpad(ring, book.decode(ring, code), None, linear, integers, 1)
        ring.to_integers(total)

    def check() -> None:
        book = AnswerBook(spare)
        book.answers = answers
        if book.check(ring, code, bytes(16), bytes(32)).liars:
            raise AssertionError("all answers of this bench are right")

    times = take_turns({"epoch": epoch, "check": check}, rounds)
    return Computing(alpha, spare, n_answers, 1e3 * times["check"], 1e3 * times["epoch"])


def waiting(alpha: int, spare: int, epochs: int = 20, draws: int = 400) -> Waiting:
    at = Conditions(Fleet.load("paper"))
    shape = WorkShape(FEATURES, CLASSES, np.full(DEVICES, SAMPLES // DEVICES))

    def per_epoch(scheme: CodedKeys) -> float:
        start, ends = epoch_end_times(scheme, shape, at, epochs, draws, np.random.default_rng(0))
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
        (str(c.alpha), str(c.spare), str(c.answers), f"{c.check_ms:.2f}", f"{c.all_ms:.2f}", f"{100 * c.share:.1f} %")
        for c in computed
    ]
    heads = ("alpha", "spare", "answers", "check, ms", "rest of the epoch, ms", "share")
    console.print(_table(f"The server's computing, d = {FEATURES}; goal: at most {GOAL:.0%}", heads, lines))
    lines = [
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
        _table("An epoch on the paper's fleet, seconds", ("alpha", "spare", "without", "with", "more"), lines)
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

"""The cases that are counted: one device, coded answers, the decoded total; each against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl.typing import Planes
from experiments.paper_arithmetic import Integers
from experiments.wraparound.answers import PaperAnswer, Triangle
from experiments.wraparound.sharing import (
    Setting,
    Shared,
    draw_key,
    share,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """One product X'X e, retrieved from padded data, against the truth.

    wrong_entries: of the retrieved matrix, before e; expected_wrong: what |x| / 2^(k-f) predicts (None on the ring,
        where no wrap does any harm).
    spoilt_rows: rows of the product with an error above ``tolerance``; the errors are in units of the gradient.
    """

    case: str
    arithmetic: str
    wrong_entries: int
    expected_wrong: float | None
    spoilt_rows: tuple[int, ...]
    largest_error: float
    largest_error_elsewhere: float
    tolerance: float


@dataclass(frozen=True)
class Report:
    """Everything measured in one run.

    spoilt_sets: of the ``survivor_sets`` choices of answers, those whose decoded total the paper's arithmetic spoils.
    row_errors: of the total decoded from the worst of them, the largest error in each row.
    median_gradient: of the rows of the true total, each represented by its largest entry.
    """

    images: str
    setting: Setting
    samples: int
    wrong_entries_per_pad: tuple[int, ...]
    expected_per_pad: float
    largest_update: float
    median_gradient: float
    survivor_sets: int
    spoilt_sets: int
    outcomes: tuple[Outcome, ...]
    row_errors: Floats


def descend(gram: Floats, cross: Floats, samples: int, epochs: int) -> Floats:
    """e after ``epochs`` of the paper's descent from Theta^(1) = 0 (eq. 5 and 10), in floats."""
    solver = GradientDescent(epochs, 9e-6, STEP_PAPER)
    solver.start(np.zeros_like(cross), -cross, samples)
    while (request := solver.request()) is not None:
        solver.receive(request, gram @ request)
    assert solver.model is not None
    return solver.model


def compare(
    case: str, arithmetic: str, wrong: int, expected: float | None, row_errors: Floats, tolerance: float
) -> Outcome:
    spoilt = row_errors > tolerance
    return Outcome(
        case=case,
        arithmetic=arithmetic,
        wrong_entries=wrong,
        expected_wrong=expected,
        spoilt_rows=tuple(np.flatnonzero(spoilt).tolist()),
        largest_error=float(row_errors.max()),
        largest_error_elsewhere=float(row_errors[~spoilt].max(initial=0.0)),
        tolerance=tolerance,
    )


def compare_answer(case: str, answer: PaperAnswer, retrieved: Integers, update: Floats) -> Outcome:
    """One device's answer without its keys. float64 is a good enough truth: it errs far less than truncation may."""
    truth = answer.triangle.square(np.ldexp(answer.plain, -answer.datatype.f)) @ update
    errors = np.abs(answer.datatype.to_reals(retrieved) - truth).max(axis=1)
    expected = answer.expected_wrong()
    return compare(case, "paper", answer.wrong_entries(), expected, errors, answer.tolerance(update))


def try_pads(secret: Integers, triangle: Triangle, setting: Setting) -> tuple[tuple[int, ...], PaperAnswer]:
    """Case 1: wrong entries under each of ``n_pads`` pads, and device 0's matrix under the worst (alpha = 1, b = 1)."""
    q = setting.datatype
    counts = []
    for pad in track(range(setting.n_pads), description="pads", transient=True):
        key = draw_key(q, len(triangle), setting.seed, setting.devices + pad)
        counts.append(int(triangle.total(q.add(secret, key) - key != secret)))
    key = draw_key(q, len(triangle), setting.seed, setting.devices + int(np.argmax(counts)))
    answer = PaperAnswer(q, triangle)
    answer.add(1.0, q.add(secret, key), key, secret)
    return tuple(counts), answer


def survivor_sets(shared: Shared) -> list[tuple[int, ...]]:
    """Every choice of as many answers as the code needs."""
    return list(combinations(shared.answers, shared.ring_answers.code.answers_needed))


def decode_paper(
    shared: Shared,
    survivors: Sequence[int],
    retrieved: dict[int, Integers],
    update: Floats,
    truth: Floats,
    largest_parts: float,
) -> tuple[Outcome, Floats]:
    """Case 3: the total of eq. 11 in Q<k,f> and the error of each row.

    largest_parts: the largest entry of sum_i |X_i'X_i e|, or a bound on it.
    """
    answers = [shared.answers[i] for i in survivors]
    q, triangle = answers[0].datatype, shared.triangle
    weights = q.from_reals(shared.real_code.decoding_vector(survivors))
    decoded: Integers = np.zeros_like(retrieved[survivors[0]])
    for weight, i in zip(weights, survivors, strict=True):
        decoded = q.add(decoded, q.multiply(retrieved[i], weight))
    errors = np.abs(q.to_reals(decoded) - truth).max(axis=1)

    # The answers' own tolerances, a unit for each product with a weight, and what A B != 1 makes of the true parts.
    a = q.to_reals(weights)
    tolerance = sum(abs(w) * answer.tolerance(update) for w, answer in zip(a, answers, strict=True))
    code_error = np.abs(a @ shared.real_code.B[list(survivors)] - 1.0).max()
    tolerance += len(a) * 2.0**-q.f + code_error * largest_parts
    wrong = np.logical_or.reduce([answer.is_wrong() for answer in answers])
    # A padded matrix that wrapped is the same one in all answers.
    expected = triangle.total(shared.total_magnitude) / 2.0**q.k + sum(answer.expected_of_sum() for answer in answers)
    return compare("decoded total", "paper", int(triangle.total(wrong)), expected, errors, float(tolerance)), errors


def badness(outcome: Outcome) -> tuple[int, float]:
    return len(outcome.spoilt_rows), outcome.largest_error


class RingRetrieval:
    """Case 4: takes ``pad`` away from a padded matrix and from its product with e, and compares with ``secret``.

    The truth is int64: by the M/8 rule of ``FixedPoint`` all sums are far below 2^63.
    """

    def __init__(self, shared: Shared, update: Floats, pad: Planes, secret: Integers) -> None:
        self.ring, self.triangle = shared.fixed_point.ring, shared.triangle
        integers, bits = shared.fixed_point.round_update(update)
        self.bits = shared.fixed_point.gram_bits + bits
        self.update = self.ring.from_integers(integers)
        self.pad, self.pad_product = pad, self.product(pad)
        self.secret, self.truth = secret, self.triangle.square(secret) @ integers.astype(np.int64)

    def product(self, matrix: Planes) -> Planes:
        """A symmetric matrix, given as its triangle, times e."""
        return self.ring.product(self.ring.symmetric(matrix, self.triangle.size), self.update)

    def compare(self, case: str, matrix: Planes, product: Planes) -> Outcome:
        retrieved_matrix = self.ring.to_integers(self.ring.add(matrix, self.pad, sign=-1))
        retrieved = self.ring.to_integers(self.ring.add(product, self.pad_product, sign=-1))
        wrong = int(self.triangle.total(retrieved_matrix != self.secret))
        errors = np.ldexp(np.abs(retrieved - self.truth).max(axis=1).astype(np.float64), -self.bits)
        return compare(case, "exact ring", wrong, None, errors, 0.0)


def ring_outcomes(shared: Shared, update: Floats) -> list[Outcome]:
    """Device 0 alone, and the worst of all survivor sets."""
    alone = RingRetrieval(shared, update, shared.first_ring_pad, shared.first.ring)
    answers = shared.ring_answers
    total = RingRetrieval(shared, update, answers.pads, shared.total.ring)
    products = {i: total.product(coded) for i, coded in answers.coded.items()}
    totals = [
        total.compare("decoded total", answers.decode(answers.coded, survivors), answers.decode(products, survivors))
        for survivors in survivor_sets(shared)
    ]
    padded = shared.first_ring_padded
    return [alone.compare("device 0", padded, alone.product(padded)), max(totals, key=badness)]


def run(name: str, images: NDArray[Any], labels: NDArray[Any], setting: Setting) -> Report:
    """All cases on one fleet."""
    q = setting.datatype
    shared = share(images, labels, setting)
    gram = shared.triangle.square(q.to_reals(shared.total.paper))
    update_integers = q.from_reals(descend(gram, shared.cross, shared.samples, setting.epochs))
    update = q.to_reals(update_integers)
    truth = gram @ update
    counts, alone = try_pads(shared.first.paper, shared.triangle, setting)
    retrieved = {i: answer.retrieve(update_integers) for i, answer in shared.answers.items()}
    magnitude = shared.triangle.square(q.to_reals(shared.total_magnitude)) @ np.abs(update)
    totals = [
        decode_paper(shared, survivors, retrieved, update, truth, float(magnitude.max()))
        for survivors in survivor_sets(shared)
    ]
    worst_total, row_errors = max(totals, key=lambda total: badness(total[0]))
    return Report(
        images=name,
        setting=setting,
        samples=shared.samples,
        wrong_entries_per_pad=counts,
        expected_per_pad=alone.expected_wrong(),
        largest_update=float(np.abs(update).max()),
        median_gradient=float(np.median(np.abs(truth).max(axis=1))),
        survivor_sets=len(totals),
        spoilt_sets=sum(bool(outcome.spoilt_rows) for outcome, _ in totals),
        outcomes=(
            compare_answer("device 0", alone, alone.retrieve(update_integers), update),
            *(
                compare_answer(f"coded by device {i}", answer, retrieved[i], update)
                for i, answer in shared.answers.items()
            ),
            worst_total,
            *ring_outcomes(shared, update),
        ),
        row_errors=row_errors,
    )

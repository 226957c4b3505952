"""The paper's system against plain Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.paper import PaperFixedPoint, PaperSystem, TandonCode
from codedfl_lab.paper.system import whole_matrix
from wording import exactly

NARROW = PaperFixedPoint(k=26, f=16)  # a range of +-512 instead of +-2^23: a key of a few bits makes a number wrap


def onto(value: int, k: int) -> int:
    return (value + 2 ** (k - 1)) % 2**k - 2 ** (k - 1)


@pytest.mark.parametrize("q", [PaperFixedPoint(), NARROW], ids=str)
def test_both_phases_are_those_of_python_integers(q: PaperFixedPoint) -> None:
    """Answers, what is left of them without keys, and the decoded total, number by number."""
    D, alpha, d, c = 4, 3, 2, 2
    rng = np.random.default_rng(4)
    code = TandonCode(D, alpha, rng).rounded(q)
    machine = PaperSystem(code, d, c)
    grams = [q.from_reals(rng.uniform(-9, 9, 3)) for _ in range(D)]
    firsts = [q.from_reals(rng.uniform(-9, 9, (d, c))) for _ in range(D)]
    for device in range(D):
        machine.share(device, grams[device], firsts[device], np.random.default_rng(device))
    update = q.from_reals(rng.uniform(-2, 2, (d, c)))

    def times(a: int, b: int) -> int:
        return onto((a * b) >> q.f, q.k)

    def gradient(numbers: list[list[int]], i: int) -> list[list[int]]:
        """The coded sum of device i of vectors (three of the triangle, then d c), times e, plus the constant."""
        weights = [round(b * 2**q.f) for b in code.B[i].tolist()]
        coded = [onto(sum(times(w, v[n]) for w, v in zip(weights, numbers, strict=True)), q.k) for n in range(7)]
        square = [[coded[0], coded[1]], [coded[1], coded[2]]]
        e = update.tolist()
        return [
            [
                onto(sum(times(square[row][t], e[t][col]) for t in range(d)) + coded[3 + row * c + col], q.k)
                for col in range(c)
            ]
            for row in range(d)
        ]

    keys = [q.draw(np.random.default_rng(device), 7).tolist() for device in range(D)]
    secrets = [[*gram.tolist(), *first.reshape(-1).tolist()] for gram, first in zip(grams, firsts, strict=True)]
    padded = [[onto(x + r, q.k) for x, r in zip(*pair, strict=True)] for pair in zip(secrets, keys, strict=True)]
    retrieved = {}
    for i in range(D):
        answer, key = gradient(padded, i), gradient(keys, i)
        assert machine.answer(i, update).tolist() == answer
        retrieved[i] = machine.retrieve(i, update)
        left = [[onto(a - b, q.k) for a, b in zip(*rows, strict=True)] for rows in zip(answer, key, strict=True)]
        assert retrieved[i].tolist() == left
    survivors = [1, 3]
    weights = [round(a * 2**q.f) for a in code.decoding_vector(survivors).tolist()]
    parts = [[times(w, x) for x in retrieved[i].reshape(-1).tolist()] for w, i in zip(weights, survivors, strict=True)]
    total = machine.decode({i: retrieved[i] for i in survivors})
    assert total.reshape(-1).tolist() == [onto(sum(terms), q.k) for terms in zip(*parts, strict=True)]
    assert machine.wrapped == sum(
        (2 if n == 1 else 1) * (x + r != onto(x + r, q.k))
        for pair in zip(secrets, keys, strict=True)
        for n, (x, r) in enumerate(zip(*pair, strict=True))
    )


def test_keys_in_another_order_retrieve_nothing() -> None:
    """b (Xi e) for (b Xi) e, step (b) of IV-C: fails in nearly every row although no secret is involved at all."""
    q, rng = PaperFixedPoint(), np.random.default_rng(0)
    keys = [q.draw(rng, 60, 60) for _ in range(3)]
    weights = [q.from_reals(np.array(b)) for b in (1.0, -1.7, 0.6)]
    update = q.from_reals(rng.normal(0.0, 0.3, size=(60, 1)))
    coded, reordered = np.zeros((60, 60), dtype=np.int64), np.zeros((60, 1), dtype=np.int64)
    for weight, key in zip(weights, keys, strict=True):
        coded = q.add(coded, q.multiply(key, weight))
        reordered = q.add(reordered, q.multiply(q.matmul(key, update), weight))
    difference = q.to_reals(q.add(q.matmul(coded, update), -reordered))
    assert np.count_nonzero(np.abs(difference) > 1000) > 55


def test_a_triangle_counts_what_lies_off_the_diagonal_twice() -> None:
    square = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    triangle = square[np.triu_indices(3)]
    assert whole_matrix(triangle, 3) == square.sum()
    assert whole_matrix(np.concatenate([triangle, [10.0, 20.0, 30.0]]), 3) == square.sum() + 60
    assert whole_matrix(np.array([7.0]), 1) == 7


def test_a_code_in_reals_is_refused() -> None:
    message = "code must be rounded to the datatype of the system (code.rounded), got one in reals"
    with pytest.raises(InvalidInput, match=exactly(message)):
        PaperSystem(TandonCode(2, 2, np.random.default_rng(0)), 1, 1)

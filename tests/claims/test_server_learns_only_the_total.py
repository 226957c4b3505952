"""The server learns the total and nothing else.

By linear algebra: of everything that all D masked answers together reveal about the devices' gradients g_1 .. g_D,
exactly one functional is left, the sum. By attack: without masks the coded answers are a bounded-distance decoding
problem, which lattice reduction solves on real protocol runs, device by device; with masks the same attack, given the
same power, finds nothing but numbers that add up to the total.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import flint
import numpy as np
import pytest

import oracle
from codedfl.code.gradient_code import GradientCode, GroupedCode
from codedfl.code.masks import mask_coefficients, mask_senders
from codedfl.exact.ring import Ring
from codedfl.protocol.messages import Answer, Kind
from codedfl.state import PLAIN, Checkpointed, CheckpointFields
from scenario import Network, Scenario, decoded, repeatable

# -- by linear algebra


SMALL = [(n_devices, alpha) for n_devices in range(2, 9) for alpha in range(1, n_devices + 1)]


def known_functionals(code: GradientCode | GroupedCode, plane: int, masked: bool) -> list[list[int]]:
    """All functionals of (g_1 .. g_D) that the D answers determine, as the rows of a reduced matrix modulo p.

    The unknowns are g_1 .. g_D and the masks m_1 .. m_D, independent and uniform. Answer i is row i of [B | C], with
    the mask coefficients C as the devices really apply them. A combination v of answers is free of masks exactly
    when v C = 0; what it then says about the g is v B. Any other combination is uniform whatever the g are.
    """
    prime, n_devices = code.primes[plane], code.n_devices
    B = code.matrix()[plane].tolist()
    C = [[0] * n_devices for _ in range(n_devices)]
    if masked:
        for i in range(n_devices):
            for k, coefficient in zip(mask_senders(code, i), mask_coefficients(code, i)[plane], strict=True):
                C[i][k] = coefficient % prime
    return oracle.reduced(oracle.product(oracle.left_null_space(C, prime), B), prime)


@pytest.mark.parametrize(("n_devices", "alpha"), [*SMALL, (12, 5), (25, 6), (25, 23), (40, 39)])
def test_all_masked_answers_leave_one_functional_the_total(n_devices: int, alpha: int):
    code = GradientCode(n_devices, alpha, Ring.for_group_sizes([n_devices]).primes)
    for plane in (0, 1):
        assert known_functionals(code, plane, masked=True) == [[1] * n_devices]
        # Without masks they determine all that the code lets through.
        assert len(known_functionals(code, plane, masked=False)) == n_devices - alpha + 1


@pytest.mark.parametrize(("n_devices", "alpha", "groups"), [(4, 1, 2), (4, 2, 2), (9, 2, 3), (10, 3, 3), (12, 4, 3)])
def test_with_groups_the_server_learns_no_groups_total_either(n_devices: int, alpha: int, groups: int):
    sizes = [len(range(group, n_devices, groups)) for group in range(groups)]
    code = GroupedCode(n_devices, alpha, Ring.for_group_sizes(sizes).primes, groups)
    for plane in (0, 1):
        assert known_functionals(code, plane, masked=True) == [[1] * n_devices]
        assert len(known_functionals(code, plane, masked=False)) == sum(size - alpha + 1 for size in sizes)


# -- by attack


class OneColumn(Checkpointed):
    """A curious server's "solver": one request with a single 1, which asks for one column of X'X."""

    checkpoint_fields: ClassVar[CheckpointFields] = {"model": PLAIN, "_request": PLAIN}

    def __init__(self, column: int, shape: tuple[int, int]) -> None:
        self.epochs = 2
        self.model: np.ndarray | None = None
        self._request: np.ndarray | None = np.zeros(shape)
        self._request[column, 0] = 1.0

    def start(self, initial: np.ndarray, constant: np.ndarray, samples: int) -> None:
        del constant, samples
        self.model = initial

    def request(self) -> np.ndarray | None:
        request, self._request = self._request, None
        return request

    def receive(self, sent: np.ndarray, product: np.ndarray) -> None:
        """The honest result is not what it is after."""


class Attacker:
    """The server after a run of which it keeps everything: all D answers, the pads it drew, the code."""

    def __init__(self, scenario: Scenario, column: int) -> None:
        self.scenario, self.column = scenario, column
        solver = OneColumn(column, (scenario.d, scenario.c))
        self.network = Network.of(scenario, solver)
        self.network.run_until(Kind.UPDATE, Kind.FINISH)
        self.network.run()
        agreement = self.network.server.agreement
        self.primes, self.modulus = agreement.fixed_point.ring.primes, agreement.fixed_point.ring.modulus
        self.codes = agreement.code.matrix().tolist()
        self.totals = scenario.totals(agreement)
        self.names = agreement.names  # in the code's order
        self.pad_seeds = [self._pad_seed(name) for name in self.names]
        # e was sent as 2^bits in one place: the attacker divides by it on the ring.
        self.inverse_scale = pow(2 ** self._fraction_bits(), -1, self.modulus)

    def _pad_seed(self, name: str) -> bytes:
        """The server drew it; here it is read from the letter it was sent in."""
        (letter,) = decoded(self.network.device_saw[name], Kind.PAD_SEED)
        return self.network.opened(letter, name)

    def _fraction_bits(self) -> int:
        room = self.modulus // 8 // self.network.server.agreement.fixed_point.gram_limit
        return room.bit_length() - 1  # the most with 2^bits <= room

    def answers(self, epoch: int) -> list[list[list[int]]]:
        """[device][prime][number], decrypted with the server's own key."""
        found = {}
        for message in decoded(self.network.server_saw, Kind.ANSWER):
            answer = Answer.decode(self.network.opened(message))
            if answer.epoch == epoch:
                count = len(answer.packed) // 3 // len(self.primes)
                residues = [
                    int.from_bytes(answer.packed[3 * i : 3 * i + 3], "little") for i in range(count * len(self.primes))
                ]
                found[message.sender] = [residues[k * count : (k + 1) * count] for k in range(len(self.primes))]
        return [found[name] for name in self.names]

    def unpadded_gram_column(self, row: int) -> list[list[int]]:
        """[prime][device]: answer minus sum_j b_ij Xi_j e, of entry ``row`` of the requested column."""
        bits = self._fraction_bits()
        answers, d = self.answers(2), self.scenario.d
        position: dict[tuple[int, int], int] = {}
        for a in range(d):
            for b in range(a, d):
                position[a, b] = position[b, a] = len({*position.values()})
        result = []
        for k, prime in enumerate(self.primes):
            pads = []
            for seed in self.pad_seeds:
                stream = oracle.pad_residues(seed, "gram", k, prime)
                triangle = [next(stream) for _ in range(d * (d + 1) // 2)]
                pads.append(triangle[position[row, self.column]] << bits)
            B = self.codes[k]
            numbers = [answers[i][k][row * self.scenario.c] for i in range(len(answers))]
            result.append(
                [(n - sum(b * p for b, p in zip(B[i], pads, strict=True))) % prime for i, n in enumerate(numbers)]
            )
        return result

    def unpadded_constant(self, index: int) -> list[list[int]]:
        """[prime][device]: answer of epoch 1 minus sum_j b_ij Delta_j."""
        answers, result = self.answers(1), []
        for k, prime in enumerate(self.primes):
            pads = []
            for seed in self.pad_seeds:
                stream = oracle.pad_residues(seed, "constant", k, prime)
                pads.append([next(stream) for _ in range(index + 1)][index])
            B = self.codes[k]
            result.append(
                [
                    (answers[i][k][index] - sum(b * p for b, p in zip(B[i], pads, strict=True))) % prime
                    for i in range(len(answers))
                ]
            )
        return result

    def grams(self) -> list[list[list[int]]]:
        """The truth, in the code's order."""
        return [self.totals.grams[self.scenario.names.index(name)] for name in self.names]

    def constants(self) -> list[list[list[int]]]:
        return [self.totals.constants[self.scenario.names.index(name)] for name in self.names]

    def closest(self, coded: list[list[int]]) -> list[int]:
        """A short x with B x = coded modulo M: any solution less the lattice point that LLL and rounding find near it.

        Modulo each prime B has the reduced form [1 | T] with r = D - alpha + 1 pivots. The lattice of all x with
        B x = 0 modulo M is spanned by M e_k for the pivots and (-T column, e_f) for the rest.
        """
        n = len(self.scenario.sizes)
        forms = [
            oracle.reduced([[*B[i], coded[k][i]] for i in range(n)], prime)
            for k, (B, prime) in enumerate(zip(self.codes, self.primes, strict=True))
        ]
        rank = n - self.scenario.alpha + 1
        assert all(len(form) == rank for form in forms)  # the answers are a codeword, masked or not

        def entry(i: int, j: int) -> int:
            return oracle.from_residues([form[i][j] for form in forms], self.primes)

        rows = [[self.modulus if j == i else 0 for j in range(n)] for i in range(rank)]
        for free in range(rank, n):
            rows.append([-entry(i, free) for i in range(rank)] + [int(j == free) for j in range(rank, n)])
        basis = flint.fmpz_mat(rows).lll()
        solution = flint.fmpz_mat([[entry(i, n) for i in range(rank)] + [0] * (n - rank)])
        # Coordinates in the reduced basis, to the nearest integers (Babai).
        coordinates = (flint.fmpq_mat(solution) * flint.fmpq_mat(basis).inv()).tolist()[0]
        nearest = flint.fmpz_mat([[int((2 * x + 1).floor()) // 2 for x in coordinates]])
        return [int(x) for x in (solution - nearest * basis).tolist()[0]]

    def recover_gram(self, row: int) -> list[int]:
        coded = self.unpadded_gram_column(row)
        scaled = [
            [v * self.inverse_scale % prime for v in values] for values, prime in zip(coded, self.primes, strict=True)
        ]
        return self.closest(scaled)

    def recover_constant(self, index: int) -> list[int]:
        """G^(1) = -X'Y has many more fraction bits than X; but with labels 0 and 1 it is a multiple of what X's grid is
        in its units, and the attacker divides by that."""
        format_ = self.network.server.agreement.fixed_point
        scale = 2 ** (format_.constant_bits - format_.feature_bits)
        divided = [
            [v * pow(scale, -1, prime) % prime for v in values]
            for values, prime in zip(self.unpadded_constant(index), self.primes, strict=True)
        ]
        return [v * scale for v in self.closest(divided)]


def attacked(n_devices: int, alpha: int, masks: bool) -> Attacker:
    """Label-sorted data of two classes: every device has one class only, as one-hot labels."""
    sizes = tuple(3 + i % 4 for i in range(n_devices))
    scenario = Scenario(sizes=sizes, alpha=alpha, d=3, c=2, masks=masks, seed=alpha)
    scenario.data = [(X, np.eye(2)[[int(i >= n_devices // 2)] * len(X)]) for i, (X, _) in enumerate(scenario.data)]
    return Attacker(scenario, column=1)


CODES = pytest.mark.parametrize(("n_devices", "alpha"), [(10, 1), (10, 2), (10, 3), (10, 5), (11, 4)])


@CODES
def test_without_masks_lattice_reduction_recovers_every_device(n_devices: int, alpha: int):
    """Exactly: each device's entries of X'X, and of X'Y with it each device's class."""
    attacker = attacked(n_devices, alpha, masks=False)
    for row in range(3):
        assert attacker.recover_gram(row) == [gram[row][1] for gram in attacker.grams()]
    for index in range(6):
        assert attacker.recover_constant(index) == [g[index // 2][index % 2] for g in attacker.constants()]


@CODES
def test_with_masks_the_same_attack_recovers_nothing_but_the_total(n_devices: int, alpha: int):
    attacker = attacked(n_devices, alpha, masks=True)
    modulus = attacker.modulus
    attempts: list[tuple[Callable[[int], list[int]], int, list[int]]] = [
        *((attacker.recover_gram, row, [gram[row][1] for gram in attacker.grams()]) for row in range(3)),
        *((attacker.recover_constant, i, [g[i // 2][i % 2] for g in attacker.constants()]) for i in range(6)),
    ]
    for recover, index, truth in attempts:
        found = recover(index)
        assert not any(a == b for a, b in zip(found, truth, strict=True))
        assert math.hypot(*found) > 10 * math.hypot(*truth)  # nothing as short as data is left in the answers
        assert (sum(found) - sum(truth)) % modulus == 0  # this is all they have in common: the total


def test_masks_do_not_change_the_model():
    """What the attacker loses costs the learner nothing."""
    models = []
    for masks in (True, False):
        scenario = Scenario(sizes=(3, 4, 5, 6, 3), alpha=3, masks=masks)
        network = Network(scenario.server(), [scenario.device(i, random_bytes=repeatable(i)) for i in range(5)])
        network.send(network.server.invite())
        network.run()
        models.append(network.server.model)
    assert np.array_equal(models[0], models[1])


# -- what a collusion breaks (THREAT_MODEL.md)


def known_in_collusion(code: GradientCode, colluders: set[int]) -> list[list[int]]:
    """The functionals that the server knows together with some devices.

    Each brings the mask seeds it holds, and its row of padded data, of which the server knows the pads.
    """
    prime, n_devices = code.primes[0], code.n_devices
    seeds = {k for i in colluders for k in mask_senders(code, i)}
    opened = {j for i in colluders for j in code.row_support(i)}
    C = [[0] * n_devices for _ in range(n_devices)]
    for i in range(n_devices):
        for k, coefficient in zip(mask_senders(code, i), mask_coefficients(code, i)[0], strict=True):
            if k not in seeds:
                C[i][k] = coefficient % prime
    from_answers = oracle.product(oracle.left_null_space(C, prime), code.matrix()[0].tolist())
    return oracle.reduced([*from_answers, *(indicator({j}, n_devices) for j in opened)], prime)


def indicator(members: set[int], n_devices: int) -> list[int]:
    return [int(j in members) for j in range(n_devices)]


@pytest.mark.parametrize(("n_devices", "alpha"), [*SMALL, (25, 6)])
def test_one_device_with_the_server_exposes_the_alpha_devices_it_answers_for(n_devices: int, alpha: int):
    """Those, and the total as always; nothing of anybody else, although it also holds one more mask seed."""
    code = GradientCode(n_devices, alpha, Ring.for_group_sizes([n_devices]).primes)
    opened = [indicator({j}, n_devices) for j in range(alpha)]
    expected = oracle.reduced([*opened, [1] * n_devices], code.primes[0])
    assert known_in_collusion(code, {0}) == expected


@pytest.mark.parametrize(("n_devices", "alpha"), [(8, 1), (9, 2), (11, 3), (25, 6)])
@pytest.mark.parametrize("between", [1, 2])
def test_two_devices_with_the_server_also_learn_the_sums_between_them(n_devices: int, alpha: int, between: int):
    """The chain of masks is cut in two: each arc has its own total. With one device on it, that one is exposed,
    although neither colluder holds its data."""
    code = GradientCode(n_devices, alpha, Ring.for_group_sizes([n_devices]).primes)
    second = alpha + between  # opens second .. second + alpha - 1; alpha .. second - 1 lie between
    opened = {*range(alpha), *range(second, second + alpha)}
    arcs = [set(range(alpha, second)), set(range(second + alpha, n_devices))]
    expected = [indicator({j}, n_devices) for j in opened] + [indicator(arc, n_devices) for arc in arcs]
    assert known_in_collusion(code, {0, second}) == oracle.reduced(expected, code.primes[0])

"""The server learns the total and nothing else.

By linear algebra: of everything that all D masked answers together reveal about the devices' gradients g_1 .. g_D,
exactly one functional is left, the sum. By attack: without masks the coded answers are a bounded-distance decoding
problem, which lattice reduction solves on real protocol runs, device by device; with masks the same attack, given the
same power, finds nothing but numbers that add up to the total.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

import flint
import numpy as np
import pytest

import oracle
from codedfl.engines.in_process import InProcess
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl.sum.keys import derive, digest
from codedfl.sum.wire import Reply, decode, parsed
from codedfl_lab import CodedPadded
from codedfl_lab.code.gradient_code import GradientCode, GroupedCode
from codedfl_lab.code.masks import mask_coefficients, mask_senders
from codedfl_lab.coded import wire
from codedfl_lab.coded.device import bound_to
from codedfl_lab.coded.form import NUMBERS
from codedfl_lab.parties.coded import CodedParties
from codedfl_lab.parties.statistic import ASK
from codedfl_lab.primes.ring import Ring
from codedfl_lab.training.in_process import PATIENCE, SERVER, simulated_identity
from trainings import Small, repeatable

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


class Attacker:
    """The server after a run of which it keeps everything: all D answers, the pads it knows, the code."""

    def __init__(self, small: Small, alpha: int, masks: bool, column: int) -> None:
        self.small, self.alpha, self.column = small, alpha, column
        scheme = CodedPadded(alpha, spare=alpha - 1)  # so that it waits for everybody
        parties = small.parties(scheme, masks=masks)
        assert isinstance(parties, CodedParties)
        self.study, self.scales = parties.study, parties.statistic.scales
        self._seen: list[tuple[str, bytes, bytes]] = []
        devices = {name: self._noted(name, one.reply) for name, one in small.devices(parties).items()}
        self._session = parties.server(
            InProcess(devices),
            simulated_identity(SERVER),
            patience=PATIENCE,
            tell=lambda _event: None,
            wall=lambda: 0.0,
            random_bytes=repeatable(1),
        )
        self._session.sum(ASK)
        e = np.zeros((small.d, small.c), dtype=np.int64)
        e[column, 0] = 1 << self._fraction_bits()  # one request with a single 1, which asks for one column of X'X
        self._session.product(ASK, e)
        self.primes, self.modulus = self.study.ring.primes, self.study.ring.modulus
        self.codes = self.study.code.matrix().tolist()
        self.totals = oracle.Totals(
            small.data,
            feature_bits=self.scales.feature_bits,
            label_bits=self.scales.label_bits,
            gram_bits=self.scales.gram_bits,
            constant_bits=self.scales.constant_bits,
            initial=np.zeros((small.d, small.c)).tolist(),
        )
        self.pad_seeds = [self._pad_seed(place) for place in range(len(small.names))]
        # e was sent as 2^bits in one place: the attacker divides by it on the ring.
        self.inverse_scale = pow(2 ** self._fraction_bits(), -1, self.modulus)

    def _noted(self, name: str, answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def reply(request: bytes) -> bytes:
            found = answer(request)
            self._seen.append((name, request, found))
            return found

        return reply

    def _pad_seed(self, place: int) -> bytes:
        """The server derives it from its exchange with the device."""
        listed, known = self._session.lists[ASK], self._session.known
        members = digest(wire.encode(listed.members))
        bound = bound_to(self.study.digest, ASK, members, self.study.names[place], listed.shares[place].nonce)
        return derive(known.own.with_public(listed.members[place].public), "codedfl lab pad", bound)

    def _fraction_bits(self) -> int:
        return (self.scales.limit // self.scales.gram_limit).bit_length() - 1  # the most with 2^bits <= room

    def answers(self, products: bool) -> list[list[list[int]]]:
        """[device][prime][number], decrypted with the server's own key."""
        found = {}
        for name, request, reply in self._seen:
            _, common, _ = parsed(request, wire.KINDS)
            opened = decode(reply, Reply, "a reply")
            if isinstance(common, wire.CodedAnswerCommon) and bool(common.e) == products and opened.kind == "ok":
                packed = wire.decode(self._session.known.open(name, opened), wire.CodedAnswered, "an answer").numbers
                count = len(packed) // 3 // len(self.primes)
                residues = [int.from_bytes(packed[3 * i : 3 * i + 3], "little") for i in range(count * 2)]
                found[name] = [residues[k * count : (k + 1) * count] for k in range(len(self.primes))]
        return [found[name] for name in self.study.names]

    def _pad(self, k: int, prime: int, index: int) -> list[int]:
        """Number ``index`` of everybody's pad."""
        streams = (oracle.pad_residues(seed, NUMBERS, k, prime) for seed in self.pad_seeds)
        return [next(islice(stream, index, None)) for stream in streams]

    def _unpadded(self, products: bool, place: int, index: int, shift: int) -> list[list[int]]:
        """[prime][device]: number ``place`` of the answers less the coded pads of number ``index``."""
        answers, result = self.answers(products), []
        for k, prime in enumerate(self.primes):
            pads = [pad << shift for pad in self._pad(k, prime, index)]
            B = self.codes[k]
            numbers = [answer[k][place] for answer in answers]
            result.append(
                [(n - sum(b * p for b, p in zip(B[i], pads, strict=True))) % prime for i, n in enumerate(numbers)]
            )
        return result

    def unpadded_gram_column(self, row: int) -> list[list[int]]:
        """Of entry ``row`` of the requested column."""
        a, b, d = min(row, self.column), max(row, self.column), self.small.d
        index = self.study.sizes.length + a * d - a * (a - 1) // 2 + b - a
        return self._unpadded(True, row * self.small.c, index, self._fraction_bits())

    def unpadded_constant(self, index: int) -> list[list[int]]:
        """Of number ``index`` of G^(1)."""
        return self._unpadded(False, index, index, 0)

    def grams(self) -> list[list[list[int]]]:
        """The truth."""
        return self.totals.grams

    def constants(self) -> list[list[list[int]]]:
        return self.totals.constants

    def closest(self, coded: list[list[int]]) -> list[int]:
        """A short x with B x = coded modulo M: any solution less the lattice point that LLL and rounding find near it.

        Modulo each prime B has the reduced form [1 | T] with r = D - alpha + 1 pivots. The lattice of all x with
        B x = 0 modulo M is spanned by M e_k for the pivots and (-T column, e_f) for the rest.
        """
        n = len(self.small.sizes)
        forms = [
            oracle.reduced([[*B[i], coded[k][i]] for i in range(n)], prime)
            for k, (B, prime) in enumerate(zip(self.codes, self.primes, strict=True))
        ]
        rank = n - self.alpha + 1
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
        format_ = self.scales
        scale = 2 ** (format_.constant_bits - format_.feature_bits)
        divided = [
            [v * pow(scale, -1, prime) % prime for v in values]
            for values, prime in zip(self.unpadded_constant(index), self.primes, strict=True)
        ]
        return [v * scale for v in self.closest(divided)]


def attacked(n_devices: int, alpha: int, masks: bool) -> Attacker:
    """Label-sorted data of two classes: every device has one class only, as one-hot labels."""
    sizes = tuple(3 + i % 4 for i in range(n_devices))
    small = Small(sizes, d=3, c=2, seed=alpha)
    small.data = [(X, np.eye(2)[[int(i >= n_devices // 2)] * len(X)]) for i, (X, _) in enumerate(small.data)]
    return Attacker(small, alpha, masks, column=1)


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
    small, make = Small((3, 4, 5, 6, 3)), lambda: GradientDescent(4, 1e-3, StepSchedule(0.5))
    models = [small.models(CodedPadded(3), make(), masks=masks)[-1] for masks in (True, False)]
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

"""Secure sums and trainings over devices of this process: what estimators run.

Server and devices are the real ones (``sum``); each device is given the numbers that it adds up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.noise import cross_noise, gram_noise
from codedfl.crypto.sealed import Identity
from codedfl.data.clipped import Clipped
from codedfl.data.moments import secure_moments
from codedfl.data.preprocessing import Moments
from codedfl.data.recipe import Recipe
from codedfl.device.study_sums import HOLDERS_PER_ROLE, MANY_DEVICES
from codedfl.engines.in_process import InProcess
from codedfl.errors import InvalidInput
from codedfl.exact.fitted_rows import fitted
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds, Scales
from codedfl.solve.solver import GramSolver, Solver
from codedfl.solve.training import Training
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout, Words
from codedfl.sum.one_sum import OneSum
from codedfl.sum.session import Session
from codedfl.sum.store import Store
from codedfl.sum.terms import Participant, Terms
from codedfl.typing import Floats, Singles

ASK = b"the sum"
_DIGITS = 10
_DIGIT_BITS = 36
_FRACTION_BITS = _DIGITS * _DIGIT_BITS // 2
LARGEST = 2.0**_FRACTION_BITS  # about 1.5e54: an entry must be smaller, also a sum of squares of 1e25


def session_of(words: Mapping[str, Callable[[], Words]], layout: Layout, colluders: int) -> tuple[Session, Store]:
    """A session over devices with these words, in one disclosure group; ``colluders`` is z.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.run.sums_in_process import ASK, session_of
    >>> from codedfl.sum.layout import Layout
    >>> layout = Layout.of_vector(2, limit=100)
    >>> words = {name: lambda: layout.words_of(np.array([1, -2])) for name in ("a", "b", "c")}
    >>> session, _ = session_of(words, layout, colluders=1)
    >>> session.sum(ASK)
    [3, -6]
    """
    identities = {name: Identity(hashlib.sha256(f"codedfl in process {name}".encode()).digest()) for name in words}
    server = Identity(hashlib.sha256(b"codedfl in process, the server").digest())
    people = tuple(Participant(name, one.public, 0) for name, one in identities.items())
    holders = HOLDERS_PER_ROLE * (colluders + 1) if len(people) > MANY_DEVICES else None
    terms = Terms(bytes(32), server.public, people, colluders, holders=holders)
    devices = {
        name: Device(name, identities[name], OneSum(terms, (ASK,), layout, make), InMemory(), now=lambda: 0.0)
        for name, make in words.items()
    }
    store, engine = Store(), InProcess({name: one.reply for name, one in devices.items()})
    return Session(engine, OneSum(terms, (ASK,), layout), server, store, wall=lambda: 0.0), store


def colluders_among(n_devices: int, colluders: int | None = None) -> int:
    """z: what is asked for, as far as ``n_devices`` can bear it; None is one."""
    return max(0, min(1 if colluders is None else colluders, n_devices - 2))


# -- sums of reals


def secure_sum_in_process(vectors: Sequence[Floats], colluders: int = 1) -> Floats:
    """The sum of at least two vectors of one length, exact but for the last bit of each float.

    Every entry becomes a whole number of 2^-180, written in ten signed digits of 36 bits: the devices need no common
    scale, and nothing about one of them becomes public.

    colluders: how many devices, together with the server, learn only the sum of the others; never fewer than one.
    """
    if len(vectors) < 2:
        raise InvalidInput(f"a secure sum must have at least two devices, got {len(vectors)}")
    digits = [_digits(one) for one in vectors]
    layout = Layout.of_vector(digits[0].size, len(vectors) << _DIGIT_BITS)
    words = {f"device-{i}": partial(layout.words_of, one.reshape(-1)) for i, one in enumerate(digits)}
    session, _ = session_of(words, layout, colluders_among(len(vectors), max(1, colluders)))
    totals = np.reshape(np.array(session.sum(ASK), dtype=object), digits[0].shape)
    weights = [2 ** (_DIGIT_BITS * place) for place in range(_DIGITS)]
    return np.array([whole / 2**_FRACTION_BITS for whole in np.array(weights, dtype=object) @ totals])


def _digits(vector: Floats) -> NDArray[np.int64]:
    """(digits, length), the smallest digit first, each with the sign of its entry."""
    values = np.asarray(vector, dtype=np.float64)
    if not (np.abs(values) < LARGEST).all():  # nan is not
        raise InvalidInput(f"numbers to sum must be finite and below {LARGEST:.0e}, got {np.abs(values).max():g}")
    ratios = (abs(value).as_integer_ratio() for value in values.tolist())
    wholes = [(numerator << _FRACTION_BITS) // denominator for numerator, denominator in ratios]
    places = range(0, _DIGITS * _DIGIT_BITS, _DIGIT_BITS)
    found = [[(whole >> place) % 2**_DIGIT_BITS for whole in wholes] for place in places]
    return np.array(found, dtype=np.int64) * np.where(np.signbit(values), -1, 1)


def secure_moments_in_process(
    parts: list[NDArray[Any]], weights: list[Floats] | None = None, colluders: int = 1
) -> Moments:
    """Mean and variance of each column over at least two devices, ``parts`` holding the rows of each.

    ``weights`` are those of each device's rows, if they do not all count alike.
    """
    return secure_moments(parts, partial(secure_sum_in_process, colluders=colluders), weights)


# -- trainings


@dataclass(frozen=True, eq=False)
class MadeRows:
    """Features and labels of every device's rows, as one recipe makes them; and how many values were clipped for it."""

    recipe: Recipe
    devices: Mapping[str, tuple[Singles, Floats]]
    clipped: Clipped

    @property
    def n_samples(self) -> int:
        return sum(len(X) for X, _ in self.devices.values())

    @property
    def bounds(self) -> Bounds:
        """Public bounds; the largest device's size is rounded up to a power of two so as not to give it away."""
        per_device = 1 << (max(len(X) for X, _ in self.devices.values()) - 1).bit_length()
        return self.recipe.bounds(max(self.n_samples, per_device), per_device)

    def scales(self, number_bits: int, noise: RowNoise | None = None) -> Scales:
        """The grids of their products, in numbers of ``number_bits``."""
        plain = Scales.on(1 << number_bits, self.bounds, self.recipe.n_features, len(self.devices))
        return plain if noise is None else plain.with_noise(noise, self.recipe.n_outputs)


@dataclass(frozen=True)
class TrainedBySums:
    """A model, in how many exchanges it was made, and how many rows were shortened for noise."""

    theta: Floats
    epochs: int
    shortened: int


def train_in_process(
    rows: MadeRows,
    solver: Solver,
    scales: Scales,
    colluders: int = 1,
    noise: RowNoise | None = None,
    noise_seed: Callable[[str], bytes] = lambda _name: b"",
) -> TrainedBySums:
    """The model of these rows, by the protocol on those of each device.

    A solver that takes X'X itself (``GramSolver``) is shown it; noise is for those alone.
    """
    shown = isinstance(solver, GramSolver)
    d, c = rows.recipe.n_features, rows.recipe.n_outputs
    cross, triangle = d * c, d * (d + 1) // 2
    bits, most = (scales.modulus - 1).bit_length(), max(scales.cross_limit, rows.n_samples)
    if shown:
        layout = Layout(bits, length=cross + triangle + 1, limit=max(most, scales.gram_limit))
    else:
        layout = Layout(bits, 1, cross + 1, most, d, c, scales.limit // scales.gram_limit)
    shortened = 0
    words = {}
    for name, (features, labels) in rows.devices.items():
        X, Y, fit = fitted(features.astype(np.float64), labels, scales.bounds, noise)
        shortened += fit.shortened
        words[name] = partial(_words, scales, layout, X, Y, noise_seed(name), shown=shown)
    session, store = session_of(words, layout, colluders)
    training = Training(session, store, ASK, scales, (d, c))
    numbers = session.sum(ASK)
    theta = training.model(solver, numbers, None if noise is None else rows.bounds.samples)
    return TrainedBySums(theta, training.epochs, shortened)


def _words(scales: Scales, layout: Layout, X: Floats, Y: Floats, seed: bytes, *, shown: bool) -> Words:
    gram, cross = scales.gram(X).astype(np.int64), scales.cross(X, Y).astype(np.int64)
    if scales.noise is not None:
        gram += gram_noise(scales, seed, "in process")
        cross += cross_noise(scales, Y.shape[1], seed, "in process")
    if shown:
        return layout.words_of(np.concatenate((cross.ravel(), gram, [len(X)])))
    return layout.words_of(np.append(cross.ravel(), len(X)), gram)

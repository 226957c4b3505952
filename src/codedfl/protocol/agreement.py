"""What all parties have agreed on before any data moves: parameters, participants, order, keys.

The participant set is frozen here. Its hash is in every later message and a device accepts one agreement a run, so
nobody can make a device answer once with and once without a third one (the difference would expose that one).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codedfl.code.gradient_code import GradientCode, GroupedCode, group_sizes, make_code
from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.crypto.sealed import PUBLIC_BYTES
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds, FixedPoint, column_norm
from codedfl.protocol.messages import MAX_NAME, check_types, name_length, pack_list, unpack_list
from codedfl.typing import Floats

# Far beyond what d x d matrices allow, and little enough that no message of a few bytes can make its receiver allocate
# gigabytes for a model.
MOST_FEATURES = 2**17
MOST_MODEL_NUMBERS = 2**24


@dataclass(frozen=True)
class Parameters:
    """The public parameters of a run, chosen by whoever starts it.

    Attributes
    ----------
    scheme: name of the coded scheme (``codedfl.schemes``).
    alpha: how many devices' data each device can answer for. 1 is uncoded, D is replication.
    n_features, n_outputs: d and c, at least 1 each.
    bounds: public bounds on the data.
    precision: fraction bits to ask for; None takes what two primes give.
    samples: m if it is public; None has it securely summed along with G^(1).
    masks: zero-sum masks on the answers. Off only to show the attack they prevent.
    groups: how many groups with a code each; alpha then counts within a group. 1 is one code for all.
    reveals_gram: the first answer also brings the total of X'X to the server (one-shot).
    """

    scheme: str
    alpha: int
    n_features: int
    n_outputs: int
    bounds: Bounds
    precision: int | None = None
    samples: int | None = None
    masks: bool = True
    groups: int = 1
    reveals_gram: bool = False

    def __post_init__(self) -> None:
        if self.n_features < 1:
            raise InvalidInput(f"n_features must be at least 1, got {self.n_features}")
        if self.n_features > MOST_FEATURES:
            raise InvalidInput(f"n_features must be at most {MOST_FEATURES}, got {self.n_features}")
        if self.n_outputs < 1:
            raise InvalidInput(f"n_outputs must be at least 1, got {self.n_outputs}")
        if self.n_features * self.n_outputs > MOST_MODEL_NUMBERS:
            raise InvalidInput(
                f"n_outputs must be at most {MOST_MODEL_NUMBERS // self.n_features} with {self.n_features} features,"
                f" got {self.n_outputs}"
            )
        if self.alpha < 1:
            raise InvalidInput(f"alpha must be at least 1, got {self.alpha}")
        if self.groups < 1:
            raise InvalidInput(f"groups must be at least 1, got {self.groups}")
        if self.precision is not None and self.precision < 1:
            raise InvalidInput(f"precision must be at least 1 fraction bit, got {self.precision}")
        if self.samples is not None and not 1 <= self.samples <= self.bounds.samples:
            raise InvalidInput(
                f"samples must be between 1 and bounds.samples ({self.bounds.samples}), got {self.samples}"
            )

    @property
    def triangle_length(self) -> int:
        """Numbers in a symmetric d x d matrix: d(d+1)/2."""
        return self.n_features * (self.n_features + 1) // 2

    @property
    def constant_length(self) -> int:
        """Numbers in the constant part: G^(1), and the sample count unless it is public."""
        return self.n_features * self.n_outputs + (self.samples is None)

    def answer_length(self, epoch: int) -> int:
        """Numbers in an answer: the constant part (and the whole of X'X in one-shot) at first, then a product."""
        if epoch > 1:
            return self.n_features * self.n_outputs
        return self.constant_length + (self.triangle_length if self.reveals_gram else 0)

    def encode(self) -> bytes:
        b = self.bounds
        optional = (-1 if value is None else value for value in (self.precision, self.samples))
        public = (float(b.features), float(b.labels), b.samples, b.samples_per_device)
        shape = (self.scheme, self.alpha, self.n_features, self.n_outputs)
        return pack_list([*shape, *public, *optional, self.masks, self.groups, self.reveals_gram])

    @classmethod
    def decode(cls, data: bytes) -> Parameters:
        types = (str, int, int, int, float, float, int, int, int, int, bool, int, bool)
        f = check_types(unpack_list(data, "parameters"), types, "parameters")
        try:
            bounds = Bounds(f[4], f[5], f[6], f[7])
            precision, samples = (None if value == -1 else value for value in f[8:10])
            return cls(f[0], f[1], f[2], f[3], bounds, precision, samples, f[10], f[11], f[12])
        except InvalidInput as error:
            raise MessageRefused(f"parameters break a rule: {error}") from None


@dataclass(frozen=True)
class Agreement:
    """The frozen set: parameters, the members in the code's order with their public keys, and Theta^(1)."""

    parameters: Parameters
    run: bytes
    server_public: bytes
    names: tuple[str, ...]
    publics: tuple[bytes, ...]
    initial_model: Floats  # as rounded by ``FixedPoint.round_initial_model``

    @classmethod
    def freeze(
        cls,
        parameters: Parameters,
        run: bytes,
        server_public: bytes,
        members: dict[str, bytes],
        initial_model: Floats | None = None,
    ) -> Agreement:
        shape = (parameters.n_features, parameters.n_outputs)
        theta = np.zeros(shape) if initial_model is None else np.asarray(initial_model, dtype=np.float64)
        if theta.shape != shape:
            raise InvalidInput(f"the initial model must have shape {shape}, got {theta.shape}")
        draft = cls(parameters, run, server_public, tuple(members), tuple(members.values()), theta)
        # Rounding may lengthen the norm, which may cost the constant a bit: round until model and grid agree.
        while True:
            rounded = draft.fixed_point.round_initial_model(draft.initial_model)
            if np.array_equal(rounded, draft.initial_model):
                return draft
            draft = cls(parameters, run, server_public, draft.names, draft.publics, rounded)

    # -- what follows from it

    @property
    def n_devices(self) -> int:
        return len(self.names)

    @cached_property
    def fixed_point(self) -> FixedPoint:
        p = self.parameters
        norm = column_norm(self.initial_model)
        if not math.isfinite(norm):
            raise InvalidInput("the initial model must be finite, got NaN or infinity")
        sizes = tuple(group_sizes(self.n_devices, p.alpha, p.groups))
        return FixedPoint.derive(p.bounds, p.n_features, self.n_devices, sizes, p.precision, norm)

    @cached_property
    def initial_integers(self) -> Floats:
        return self.fixed_point.initial_model_integers(self.initial_model)

    @cached_property
    def code(self) -> GradientCode | GroupedCode:
        p = self.parameters
        return make_code(self.n_devices, p.alpha, self.fixed_point.ring.primes, p.groups)

    def position(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise MessageRefused(f"the device must be one of the {self.n_devices} of this run, got {name!r}") from None

    def public_of(self, name: str) -> bytes:
        return self.publics[self.position(name)]

    # -- wire

    @cached_property
    def encoded(self) -> bytes:
        theta = self.initial_model.astype("<f8").tobytes() if np.any(self.initial_model) else b""
        members = [[name, public] for name, public in zip(self.names, self.publics, strict=True)]
        return pack_list([self.parameters.encode(), self.run, self.server_public, members, theta])

    @cached_property
    def hash(self) -> bytes:
        return hashlib.sha256(b"codedfl agreement v1|" + self.encoded).digest()

    @classmethod
    def decode(cls, data: bytes) -> Agreement:
        types = (bytes, bytes, bytes, list, bytes)
        packed, run, server_public, members, theta = check_types(
            unpack_list(data, "an agreement"), types, "an agreement"
        )
        parameters = Parameters.decode(packed)
        if len(run) != RUN_ID_BYTES:
            raise MessageRefused(f"a run id must have {RUN_ID_BYTES} bytes, got {len(run)}")
        for pair in members:
            if not isinstance(pair, list):
                raise MessageRefused(f"an agreement's member must be a list, got {type(pair).__name__}")
        pairs = [check_types(pair, (str, bytes), "an agreement's member") for pair in members]
        names = tuple(name for name, _ in pairs)
        if len(set(names)) != len(names) or not all(1 <= name_length(name) <= MAX_NAME for name in names):
            raise MessageRefused(f"an agreement must name each device once, got {list(names)!r:.200}")
        if any(len(public) != PUBLIC_BYTES for _, public in pairs) or len(server_public) != PUBLIC_BYTES:
            raise MessageRefused(f"a public key must have {PUBLIC_BYTES} bytes, got another length")
        shape = (parameters.n_features, parameters.n_outputs)
        if len(theta) not in (0, 8 * math.prod(shape)):
            raise MessageRefused(f"the initial model must have {math.prod(shape)} numbers, got {len(theta)} bytes")
        model = np.frombuffer(theta, "<f8").reshape(shape) if theta else np.zeros(shape)
        agreement = cls(parameters, run, server_public, names, tuple(public for _, public in pairs), model)
        try:
            _ = (
                agreement.code,
                agreement.initial_integers,
            )  # derived now, so that a bad one is refused as a whole
        except (InvalidInput, ArithmeticError) as error:
            raise MessageRefused(f"the agreement breaks a rule: {error}") from None
        return agreement

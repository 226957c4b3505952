"""What all parties have agreed on before any data moves: parameters, participants, order, keys.

The participant set is frozen here. Its hash is in every later message and a device accepts one agreement per run, so
nobody can make a device answer once with and once without a third one (the difference would expose that one).

Each member's entry is its own join: the key it drew for this run, signed by its identity together with
the server's keys and the parameters it was invited with. So a server cannot put a key of its own in a pinned device's
place, nor invite devices with different parameters into one run. Which group a device is in is the server's choice
(it may go by speed); its place within the group comes from everybody's run keys, so that no one can be seated next to
whom the server likes. (A colluding device that joins last may draw its key until it likes the outcome.)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from codedfl.code.gradient_code import Code, group_sizes, make_code
from codedfl.code.roles import ALL_ROWS, NO_ROLE, AnswerCode, Cell, RoleCode
from codedfl.crypto import sealed
from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.crypto.sealed import KEY_BYTES, SIGNATURE_BYTES
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.ring import NARROW, Ring
from codedfl.exact.row_blocks import RowBlocks
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import HEADROOM, Bounds, column_norm
from codedfl.privacy.calibration import rho_of
from codedfl.protocol.answer_rows import AnswerRows
from codedfl.protocol.messages import MAX_NAME, check_types, name_length, pack_list, unpack_list
from codedfl.typing import Floats

# Far beyond what d x d matrices allow, and little enough that no message of a few bytes can make its receiver allocate
# gigabytes for a model.
MOST_FEATURES = 2**17
MOST_MODEL_NUMBERS = 2**24
MOST_EPOCHS = 10_000
MOST_COLLUDERS = 255
MOST_TOTAL_BITS = 68  # what three primes hold with room to spare
_LIMIT_BYTES = 9  # it is beyond 64 bits
DIGEST_BYTES = 32


def ring_of_totals(limit: int) -> Ring:
    """The ring for totals of whole numbers up to ``limit`` in size: two primes, or three where they do not suffice.

    >>> len(ring_of_totals(1000).primes)
    2
    """
    two = Ring.for_group_sizes((1,), 2)
    return two if HEADROOM * limit <= two.modulus else Ring.for_group_sizes((1,), 3)


@dataclass(frozen=True)
class Parameters:
    """The public parameters of a run, chosen by whoever starts it.

    Attributes
    ----------
    scheme: name of the coded scheme (``protocol.schemes``).
    alpha: how many devices' data each device can answer for. 1 is uncoded, D is replication.
    n_features, n_outputs: d and c, at least 1 each.
    bounds: public bounds on the data.
    precision: fraction bits to ask for; None takes what two primes give.
    samples: m if it is public; None has it securely summed along with G^(1).
    masks: zero-sum masks on the answers. Off only to show the attack they prevent.
    groups: how many groups with a code each; alpha then counts within a group. 1 is one code for all.
    reveals_gram: the first answer also brings the total of X'X to the server (one-shot).
    epochs: the largest number of updates that are answered, the first one (for the constant) included.
    colluders: z of role-keys: how many devices may collude with the server; z + 1 roles hold the keys.
    recipe: digest of everything that turns rows into X and Y (``data.recipe``); empty where both are given as they are.
    noise: what every owner adds to X'X and X'Y; None adds nothing. No row count is then summed: it would be exact.
    owners: for how many owners the scales are made, whoever takes part in the end; 0 is those of the agreement.
    total_limit: the largest size of an entry in a total of whole numbers (n_features = 1, no X'X). 0 for rows.
    narrow: a ring of 32 bits, which a target with random features needs; for roles only, and never for whole numbers.

    Examples
    --------
    >>> from codedfl import Bounds, Parameters
    >>> bounds = Bounds(features=1.0, labels=1.0, samples=1000, samples_per_device=300)
    >>> parameters = Parameters("coded-keys", alpha=3, n_features=20, n_outputs=1, bounds=bounds)
    >>> Parameters.decode(parameters.encode()) == parameters  # as it travels in an invitation
    True
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
    epochs: int = MOST_EPOCHS
    recipe: bytes = b""
    colluders: int = 0
    noise: RowNoise | None = None
    owners: int = 0
    total_limit: int = 0
    narrow: bool = False

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
        if not 1 <= self.epochs <= MOST_EPOCHS:
            raise InvalidInput(f"epochs must be between 1 and {MOST_EPOCHS}, got {self.epochs}")
        if len(self.recipe) not in (0, DIGEST_BYTES):
            raise InvalidInput(
                f"recipe must be a digest of {DIGEST_BYTES} bytes or empty, got {len(self.recipe)} bytes"
            )
        if not 0 <= self.colluders <= MOST_COLLUDERS:
            raise InvalidInput(f"colluders must be between 0 and {MOST_COLLUDERS}, got {self.colluders}")
        if self.groups < 1:
            raise InvalidInput(f"groups must be at least 1, got {self.groups}")
        if self.precision is not None and self.precision < 1:
            raise InvalidInput(f"precision must be at least 1 fraction bit, got {self.precision}")
        if self.samples is not None and not 1 <= self.samples <= self.bounds.samples:
            raise InvalidInput(
                f"samples must be between 1 and bounds.samples ({self.bounds.samples}), got {self.samples}"
            )
        if not 0 <= self.owners < 2**16:
            raise InvalidInput(f"owners must be between 0 and {2**16 - 1}, got {self.owners}")
        if not 0 <= self.total_limit < 2**MOST_TOTAL_BITS:
            raise InvalidInput(f"total_limit must be at least 0 and below 2^{MOST_TOTAL_BITS}, got {self.total_limit}")
        if self.total_limit and (self.n_features > 1 or self.noise is not None or self.reveals_gram):
            raise InvalidInput("a total of whole numbers must have one feature, no noise and no X'X, got another")
        if self.narrow and (self.total_limit or self.precision is not None):
            raise InvalidInput("narrow must be off for whole numbers and where precision is asked for, got both")
        if self.narrow and self.noise is not None and not self.reveals_gram:
            raise InvalidInput("narrow must be off with noise where products follow: X'X then takes 18 bits, got both")
        if self.noise is not None and self.samples is not None:
            raise InvalidInput(f"samples must be None with noise, which hides single rows, got {self.samples}")

    @property
    def triangle_length(self) -> int:
        """Numbers in a symmetric d x d matrix: d(d+1)/2."""
        return self.n_features * (self.n_features + 1) // 2

    @property
    def constant_length(self) -> int:
        """Numbers in the constant part: G^(1), and the sample count if it is summed."""
        return self.n_features * self.n_outputs + self.counts_rows

    @property
    def counts_rows(self) -> bool:
        """Whether m is summed securely: not if it is public, not with noise, and not beside whole numbers."""
        return self.samples is None and self.noise is None and not self.total_limit

    @property
    def least_owners(self) -> int:
        """Owners that a list must have at least: z + 2, and with noise the honest ones assumed beside z others."""
        return self.colluders + max(2, 0 if self.noise is None else self.noise.honest)

    @property
    def rho(self) -> float | None:
        """What the run costs a row in concentrated differential privacy; None where no noise bounds it."""
        if self.noise is None:
            return None
        return rho_of(self.noise, self.triangle_length + self.n_features * self.n_outputs)

    @property
    def directions(self) -> int:
        """How many directions of the total Gram matrix the server learns the image of: c per epoch after the first."""
        return self.n_outputs * (self.epochs - 1)

    def answer_length(self, epoch: int) -> int:
        """Numbers in an answer: the constant part (and the whole of X'X in one-shot) at first, then a product."""
        if epoch > 1:
            return self.n_features * self.n_outputs
        return self.constant_length + (self.triangle_length if self.reveals_gram else 0)

    def fixed_point(self, owners: int, initial_norm: float = 0.0) -> FixedPoint:
        """The scales; all schemes with this number of owners have these, so that their models agree bit for bit."""
        owners = self.owners or owners
        if self.narrow:
            plain = FixedPoint.of(NARROW, self.bounds, self.n_features, owners, initial_norm)
            return plain if self.noise is None else plain.with_noise(self.noise, self.n_outputs)
        sizes, shape = tuple(group_sizes(owners, self.alpha, self.groups)), (self.bounds, self.n_features, owners)
        return FixedPoint.derive(*shape, sizes, self.precision, initial_norm, self.noise, self.n_outputs)

    def ring(self, owners: int, initial_norm: float = 0.0) -> Ring:
        """What the run computes on; of whole numbers as many primes as their limit needs."""
        if self.total_limit:
            return ring_of_totals(self.total_limit)
        return self.fixed_point(owners, initial_norm).ring

    def answer_rows(self, blocks: int) -> AnswerRows:
        """Which numbers belong to which of this number of blocks of rows."""
        rows = RowBlocks(self.n_features, blocks)
        return AnswerRows(rows, self.n_outputs, self.counts_rows, self.reveals_gram)

    def encode(self) -> bytes:
        b = self.bounds
        optional = (-1 if value is None else value for value in (self.precision, self.samples))
        public = (float(b.features), float(b.labels), b.samples, b.samples_per_device)
        shape = (self.scheme, self.alpha, self.n_features, self.n_outputs)
        flags = (self.masks, self.groups, self.reveals_gram)
        noise = self.noise
        added = () if noise is None else (float(noise.multiplier), noise.honest, float(noise.clip_norm))
        scales = (self.owners, self.total_limit.to_bytes(_LIMIT_BYTES, "big"), self.narrow)
        return pack_list(
            [*shape, *public, *optional, *flags, self.epochs, self.recipe, self.colluders, *scales, *added]
        )

    @classmethod
    def decode(cls, data: bytes) -> Parameters:
        types: tuple[type, ...] = (
            *(str, int, int, int, float, float, int, int, int, int, bool, int, bool, int, bytes, int, int, bytes, bool),
        )
        fields = unpack_list(data, "parameters")
        plain = len(types)
        if len(fields) > plain:
            types += (float, int, float)
        f = check_types(fields, types, "parameters")
        try:
            bounds = Bounds(f[4], f[5], f[6], f[7])
            precision, samples = (None if value == -1 else value for value in f[8:10])
            noise = RowNoise(*f[plain:]) if len(f) > plain else None
            plainly = cls(f[0], f[1], f[2], f[3], bounds, precision, samples, *f[10:16])
            if len(f[17]) != _LIMIT_BYTES:
                raise InvalidInput(f"total_limit must have {_LIMIT_BYTES} bytes, got {len(f[17])}")
            limit = int.from_bytes(f[17], "big")
            return replace(plainly, noise=noise, owners=f[16], total_limit=limit, narrow=f[18])
        except InvalidInput as error:
            raise MessageRefused(f"parameters break a rule: {error}") from None


@dataclass(frozen=True)
class Invitation:
    """What a run is, before anybody has joined: its id, the server's keys, the parameters. Signed by the server."""

    run: bytes
    server_public: bytes
    server_key: bytes
    parameters: Parameters

    @cached_property
    def encoded(self) -> bytes:
        return pack_list([self.server_public, self.server_key, self.parameters.encode()])

    @classmethod
    def decode(cls, run: bytes, data: bytes) -> Invitation:
        types = (bytes, bytes, bytes)
        server_public, server_key, packed = check_types(unpack_list(data, "an invitation"), types, "an invitation")
        if len(run) != RUN_ID_BYTES:
            raise MessageRefused(f"a run id must have {RUN_ID_BYTES} bytes, got {len(run)}")
        if any(len(key) != KEY_BYTES for key in (server_public, server_key)):
            raise MessageRefused(f"a public key must have {KEY_BYTES} bytes, got another length")
        return cls(run, server_public, server_key, Parameters.decode(packed))

    def opens(self, agreement: bytes) -> bool:
        """Whether an agreement in bytes begins with this invitation; what follows may be long, and is not read."""
        return agreement.startswith(pack_list([self.run, self.encoded])[1:], 1)  # behind the head of the list

    def join_statement(self, name: str, run_key: bytes) -> bytes:
        """What a device signs to join: who it is, what it was invited to, the key it drew."""
        return pack_list(["codedfl join v3", self.run, self.encoded, name, run_key])


@dataclass(frozen=True)
class Member:
    """A device's join: its long-term key, the key it drew for this run, and its signature on it."""

    name: str
    identity: bytes
    run_key: bytes
    signature: bytes

    def fields(self) -> list[str | bytes]:
        return [self.name, self.identity, self.run_key, self.signature]

    @classmethod
    def from_fields(cls, fields: object) -> Member:
        if not isinstance(fields, list):
            raise MessageRefused(f"an agreement's member must be a list, got {type(fields).__name__}")
        member = cls(*check_types(fields, (str, bytes, bytes, bytes), "an agreement's member"))
        lengths = tuple(map(len, member.fields()[1:]))
        if lengths != (KEY_BYTES, KEY_BYTES, SIGNATURE_BYTES):
            raise MessageRefused("an agreement's member must have whole keys and signature, got another length")
        return member

    def check(self, invitation: Invitation) -> None:
        """Refuse a join that its owner did not sign for this very invitation."""
        statement = invitation.join_statement(self.name, self.run_key)
        sealed.verify(self.identity, statement, self.signature)


def seated(members: Sequence[Member], run: bytes, groups: int) -> tuple[Member, ...]:
    """Every group i mod ``groups`` in the order that everybody's run keys draw; groups stay as they are."""
    drawn = hashlib.sha256(b"codedfl seats v3|" + run)
    for key in sorted(member.run_key for member in members):
        drawn.update(key)
    lot = drawn.digest()
    order = list(members)
    for group in range(groups):
        order[group::groups] = sorted(
            members[group::groups], key=lambda member: hashlib.sha256(lot + member.run_key).digest()
        )
    return tuple(order)


@dataclass(frozen=True)
class Agreement:
    """The frozen set: what all were invited to, the members in the code's order, and Theta^(1).

    ``roles`` and ``blocks`` are for role-keys: the role of each member, ``NO_ROLE`` for none, and the block of rows
    that it keeps, ``ALL_ROWS`` for the reserve; no blocks leave all rows to every holder. ``helpers`` are members
    without data.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import BlockKrylov, Dataset, RoleKeys, make_parties, make_problem, run_in_process
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=4, features="linear")
    >>> server, devices = make_parties(RoleKeys(colluders=1), problem, BlockKrylov(epochs=5))
    >>> model = run_in_process(server, devices)
    >>> sorted(server.agreement.names), server.agreement.answer_code.n_roles
    (['device-0', 'device-1', 'device-2', 'device-3'], 2)
    """

    invitation: Invitation
    members: tuple[Member, ...]
    initial_model: Floats  # as rounded by ``FixedPoint.round_initial_model``
    roles: tuple[int, ...] = ()
    helpers: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()

    @classmethod
    def freeze(
        cls,
        invitation: Invitation,
        members: Sequence[Member],
        initial_model: Floats | None = None,
        *,
        cells: Mapping[str, Cell] | None = None,
        helpers: Collection[str] = (),
    ) -> Agreement:
        """``members`` in the server's order, which decides the groups; places within them are drawn.

        ``cells`` and ``helpers``, by name, are the server's choice too.
        """
        parameters = invitation.parameters
        shape = (parameters.n_features, parameters.n_outputs)
        theta = np.zeros(shape) if initial_model is None else np.asarray(initial_model, dtype=np.float64)
        if theta.shape != shape:
            raise InvalidInput(f"the initial model must have shape {shape}, got {theta.shape}")
        if parameters.noise is not None and np.any(theta):
            raise InvalidInput("the initial model must be zero with noise: its grid is too coarse for another")
        seats = seated(members, invitation.run, parameters.groups)
        nothing = Cell(NO_ROLE, ALL_ROWS)
        held = [] if cells is None else [cells.get(member.name, nothing) for member in seats]
        without_data = tuple(i for i, member in enumerate(seats) if member.name in helpers)
        roles, blocks = tuple(cell.role for cell in held), tuple(cell.block for cell in held)
        draft = cls(invitation, seats, theta, roles, without_data, blocks if max(blocks, default=0) > 0 else ())
        if parameters.total_limit:
            return draft
        # Rounding may lengthen the norm, which may cost the constant a bit: round until model and grid agree.
        while True:
            rounded = draft.fixed_point.round_initial_model(draft.initial_model)
            if np.array_equal(rounded, draft.initial_model):
                return draft
            draft = replace(draft, initial_model=rounded)

    # -- what follows from it

    @property
    def parameters(self) -> Parameters:
        return self.invitation.parameters

    @property
    def run(self) -> bytes:
        return self.invitation.run

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    @property
    def n_devices(self) -> int:
        return len(self.members)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """Positions of those with data; everybody but helpers."""
        return tuple(i for i in range(self.n_devices) if i not in self.helpers)

    @cached_property
    def holders(self) -> tuple[int, ...]:
        """Positions of those with a role."""
        return tuple(i for i, role in enumerate(self.roles) if role != NO_ROLE)

    @cached_property
    def ring(self) -> Ring:
        """See ``Parameters``."""
        p = self.parameters
        return p.ring(len(self.owners)) if p.total_limit else self.fixed_point.ring

    @cached_property
    def fixed_point(self) -> FixedPoint:
        """See ``Parameters``."""
        norm = column_norm(self.initial_model)
        if not math.isfinite(norm):
            raise InvalidInput("the initial model must be finite, got NaN or infinity")
        return self.parameters.fixed_point(len(self.owners), norm)

    @cached_property
    def initial_integers(self) -> Floats:
        """Theta^(1) on its grid; of whole numbers there is none."""
        if self.parameters.total_limit:
            return np.zeros((1, self.parameters.n_outputs))
        return self.fixed_point.initial_model_integers(self.initial_model)

    @cached_property
    def code(self) -> Code:
        """The gradient code of the coded schemes."""
        p = self.parameters
        if p.narrow:
            raise InvalidInput("narrow must be off for a gradient code, whose primes are 1 modulo D, got it on")
        return make_code(self.n_devices, p.alpha, self.ring.primes, p.groups)

    @cached_property
    def answer_code(self) -> AnswerCode:
        """What answers are decoded by: the gradient code, or the roles where there are any."""
        if not self.roles:
            return self.code
        return RoleCode(self.roles, self.parameters.colluders + 1, self.ring.primes, self.blocks)

    @cached_property
    def answer_rows(self) -> AnswerRows:
        """Which numbers belong to which block of rows."""
        return self.parameters.answer_rows(max(self.blocks, default=0) + 1)

    def blocks_of(self, position: int) -> tuple[int, ...]:
        """The blocks of rows that a member keeps and answers for; the only one, where none are dealt out."""
        block = self.blocks[position] if self.blocks else 0
        return self.answer_rows.all if block == ALL_ROWS else (block,)

    @cached_property
    def directions(self) -> int:
        """How many directions of the total Gram matrix the server may learn the image of, if it lies.

        A device answers epochs - 1 of them, and a direction takes only a quorum of answers to the same e. So a server
        that asks different devices for different e learns more of them than an honest one (``Parameters.directions``):
        with D - alpha + 1 = 3 of 25 answers needed, eight times as many. Where colluders are withstood, they have all
        of their roles to say, and what is left are the questions that holders of one role answer.

        With K blocks of rows each may be asked something else, and an entry of X'X is known when either of its rows
        was asked for it: all of X'X after d(K + 1)/(2K) questions per block, so each counts as 2K/(K + 1) directions.
        """
        p, blocks = self.parameters, self.answer_rows.blocks.count
        each = [len(part.members) * (p.epochs - 1) // part.needed for part in self.answer_code.quorum.parts]
        asked = p.n_outputs * (max(each) if self.roles else min(each))
        return -(-asked * 2 * blocks // (blocks + 1))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def position(self, name: str) -> int:
        try:
            return self._positions[name]
        except KeyError:
            raise MessageRefused(f"the device must be one of the {self.n_devices} of this run, got {name!r}") from None

    def member(self, name: str) -> Member:
        return self.members[self.position(name)]

    # -- wire

    @cached_property
    def encoded(self) -> bytes:
        theta = self.initial_model.astype("<f8").tobytes() if np.any(self.initial_model) else b""
        members = [member.fields() for member in self.members]
        return pack_list(
            [self.run, self.invitation.encoded, members, theta, list(self.roles), list(self.helpers), list(self.blocks)]
        )

    @cached_property
    def hash(self) -> bytes:
        return hashlib.sha256(b"codedfl agreement v3|" + self.encoded).digest()

    @classmethod
    def decode(cls, data: bytes) -> Agreement:
        """Refuses an agreement that breaks a rule, or with a member that did not sign it.

        Where there are roles, joins are not looked at here: whoever seals to a member's run key checks its join first,
        and what else counts is signed for this agreement, by members that have found their own keys in it. Seats, which
        follow from the run keys, are nobody's advantage there: roles are the server's to deal in any case.

        All parties of one process share what was decoded: checking a thousand signatures a thousand times over would
        take most of a run's time.
        """
        return _decoded(data)


@lru_cache(maxsize=4)
def _decoded(data: bytes) -> Agreement:
    run, invited, members, theta, roles, helpers, blocks = check_types(
        unpack_list(data, "an agreement", depth=3), (bytes, bytes, list, bytes, list, list, list), "an agreement"
    )
    invitation = Invitation.decode(run, invited)
    parameters = invitation.parameters
    found = tuple(Member.from_fields(fields) for fields in members)
    names = [member.name for member in found]
    if len(set(names)) != len(names) or not all(1 <= name_length(name) <= MAX_NAME for name in names):
        raise MessageRefused(f"an agreement must name each device once, got {names!r:.200}")
    if len({member.identity for member in found}) != len(found):
        raise MessageRefused("every device of an agreement must have a key of its own, got one key twice")
    check_types(roles, (int,) * (len(found) if roles else 0), "an agreement's roles")
    check_types(blocks, (int,) * (len(roles) if blocks else 0), "an agreement's blocks")
    check_types(helpers, (int,) * len(helpers), "an agreement's helpers")
    if helpers != sorted(set(helpers) & set(range(len(found)))):
        raise MessageRefused(f"helpers must be members of the agreement, got {helpers!r:.80}")
    try:
        group_sizes(
            len(found) - len(helpers), parameters.alpha, parameters.groups
        )  # before anything is done for each group
    except InvalidInput as error:
        raise MessageRefused(f"the agreement breaks a rule: {error}") from None
    for member in found if not roles else ():
        member.check(invitation)
    if found != seated(found, run, parameters.groups):
        raise MessageRefused("places within a group must be those that the run keys draw, got others")
    shape = (parameters.n_features, parameters.n_outputs)
    numbers = math.prod(shape) if parameters.noise is None else 0
    if len(theta) not in (0, 8 * numbers):
        raise MessageRefused(f"the initial model must have {numbers} numbers, got {len(theta)} bytes")
    model = np.frombuffer(theta, "<f8").reshape(shape) if theta else np.zeros(shape)
    agreement = Agreement(invitation, found, model, tuple(roles), tuple(helpers), tuple(blocks))
    try:  # derived now, so that a bad one is refused as a whole
        _ = agreement.answer_code, agreement.answer_rows, agreement.initial_integers
    except (InvalidInput, ArithmeticError) as error:
        raise MessageRefused(f"the agreement breaks a rule: {error}") from None
    return agreement

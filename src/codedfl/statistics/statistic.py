"""What a statistic is, how it is asked for, and the register by which its name finds it.

A statistic is a vector of integers that a device makes of its frozen rows, with a public bound on every entry of the
total. The vectors are added exactly, so the total is the sum over all rows, bit for bit, whoever holds which row.
A request is an ``Ask``. A device takes nothing else from the server: everything beside it follows from the study.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import msgspec
import numpy as np

from codedfl.contract.merging import Merged, held_out_place, merged_study, places_left, recoded, times_place
from codedfl.contract.models import COUNTED, NO_MODEL, StudyModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.on_demand import Register
from codedfl.sum.layout import Layout, Words
from codedfl.typing import Floats, Wholes

NOTHING: Floats = np.zeros(0)
_FORMAT = "codedfl ask 5"


class Statistic(ABC):
    """A vector of integers made of a device's rows.

    name: by which the server asks for it.
    of_model: whether it is asked for a ``[[model]]`` of the study, whose columns and keys it then has.
    shows: what the total can show about somebody at worst, for the screen on which a person approves the study.
    no_noise: why the statistic is refused in a study with noise; "" if it is not.
    certified: whether devices act upon its total, so that z + 1 of them must have computed it themselves.
    tells: what a sum of it tells apart (``TELLS``), so that the census counts it; a kind that does not say is refused.
    version: of its arithmetic. Two versions are two statistics: the difference of their totals would be one of owners.

    Examples
    --------
    >>> from codedfl.statistics.statistic import STATISTICS
    >>> {"cells", "gram", "histogram"} <= set(STATISTICS)
    True
    """

    name: ClassVar[str]
    of_model: ClassVar[bool] = False
    shows: ClassVar[str]
    no_noise: ClassVar[str] = "counts are exact"
    certified: ClassVar[bool] = False
    tells: ClassVar[frozenset[str] | None] = None
    version: ClassVar[int] = 1

    def __init__(self, study: Study, point: Floats = NOTHING, model: StudyModel = NO_MODEL) -> None:
        """``study`` has its rare levels merged already; ``point`` holds exactly ``point_length`` finite numbers.

        model: the model of the study that it is asked for; none for the study's own statistics.
        """
        if self.of_model != (model is not NO_MODEL):
            raise InvalidInput(f"{self.name} must be asked for {'a model' if self.of_model else 'no model'}")
        # Invariant: the door for new statistics fails closed: what nobody has said is judged by nobody.
        if self.tells is None or not self.tells <= TELLS:
            raise InvalidInput(
                f"the statistic {self.name} must declare what its sums tell apart (tells), some of"
                f" {', '.join(sorted(TELLS))}"
            )
        if missing := sorted((self.tells & COUNTED) - model.counted):
            raise InvalidInput(
                f"a model whose statistic {self.name} tells {missing[0]} apart must have them counted (counted), got"
                f" {self.model_kind(model)!r}, which does not"
            )
        expected = self.point_length(study, model)
        if point.shape != (expected,) or not np.isfinite(point).all():
            raise InvalidInput(f"the point of {self.name} must be {expected} finite numbers, got shape {point.shape}")
        self.study = study
        self.point = point
        self.model = model
        self._begin()

    def _begin(self) -> None:  # noqa: B027 - most kinds have nothing to make
        """What a kind makes of its point and its model, or refuses of them, before anything is asked of it."""

    @staticmethod
    def model_kind(model: StudyModel) -> str:
        """The word in the file."""
        return getattr(model, "kind", "no model")

    @classmethod
    @abstractmethod
    def leaves(cls, study: Study) -> str:
        """What leaves the device and how often, for the screen on which a person approves the study."""

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """How many numbers the server sends along."""
        del study, model
        return 0

    @property
    @abstractmethod
    def length(self) -> int:
        """How many integers a device sends."""

    @property
    def limit(self) -> int:
        """No entry of a total over at most ``max_rows`` rows is larger in size: of counts, every row counts once."""
        return self.study.max_rows

    def layout(self, n_owners: int) -> Layout:
        """How the numbers are summed over at most this many owners."""
        del n_owners
        return Layout.of_vector(self.length, self.limit, certified=self.certified)

    @abstractmethod
    def vector(self, rows: Snapshot) -> Wholes:
        """The exact whole numbers of one device; ``rows`` has the codes of the merged study."""

    def words(self, rows: Snapshot, n_owners: int, noise_seed: bytes) -> Words:
        """The words of one device's upload; the same for the same arguments."""
        del noise_seed
        return self.layout(n_owners).words_of(self.vector(rows))


TELLS = frozenset({"rows", "columns", "classes", "features", "combinations", "times", "clusters", "points"})
"""What sums can tell apart: levels and values of columns, combinations of several, intervals of times, clusters, what
an argument of the server's choice divides."""
STATISTICS = Register[type[Statistic]]("codedfl.statistics")

_Kind = TypeVar("_Kind", bound=type[Statistic])


def register_statistic(statistic: _Kind) -> _Kind:
    """Make a class known by its ``name``; serves as a decorator.

    Examples
    --------
    >>> from codedfl.statistics.cells import Cells
    >>> from codedfl.statistics.statistic import STATISTICS
    >>> STATISTICS["cells"] is Cells
    True
    """
    if statistic.name in STATISTICS.known:
        raise InvalidInput(f"the name of a statistic must be new, got {statistic.name!r} again")
    STATISTICS[statistic.name] = statistic
    return statistic


@dataclass(frozen=True, eq=False)
class Ask:
    """What a server asks for: a statistic, the levels that are merged for it, the numbers that it takes.

    model: the name of the study's model that it is for; "" for the study's own statistics.
    groups: the disclosure groups over which it must be summed; none leaves it to who is there.
    census: the digest of the census from which groups and mergings follow (``contract.census``); of a census itself
        that of the rounds before it. b"" where there is none.

    Two are equal if their encodings are.

    Examples
    --------
    >>> from codedfl.statistics.statistic import Ask
    >>> Ask("cells")
    <Ask for cells>
    >>> Ask("gram") == Ask("gram", ((), (1, 2)))
    False
    """

    statistic: str
    merged: Merged = ()
    point: Floats = field(default_factory=lambda: NOTHING)
    model: str = ""
    groups: tuple[int, ...] = ()
    census: bytes = b""

    def __repr__(self) -> str:
        model = f" of {self.model!r}" if self.model else ""
        merged = f", {sum(map(len, self.merged))} merged" if self.merged else ""
        return f"<Ask for {self.statistic}{model}{merged}{f' at {self.point.size} numbers' if self.point.size else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ask) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def encode(self) -> bytes:
        """As it travels, and as pads are bound to it. There is one encoding of each meaning."""
        point = np.ascontiguousarray(self.point + 0.0, dtype="<f8")  # + 0.0: minus zero is zero
        kind = STATISTICS.get(self.statistic)
        return _encoder.encode(
            _Ask(
                _FORMAT,
                self.statistic,
                kind.version if kind else 0,
                self.merged,
                point.tobytes(),
                self.model,
                self.groups,
                self.census,
            )
        )

    @classmethod
    def decode(cls, data: bytes, study: Study) -> Ask:
        """Refuses what does not follow from this study, before anything is built that is larger than the study."""
        ask = cls._parsed(data, study)
        try:
            statistic_of(study, ask)
        except InvalidInput as error:
            raise MessageRefused(f"an ask must fit the study: {error}") from None
        if ask.encode() != data:
            raise MessageRefused(
                "an ask must be encoded in the one way there is, for this version's arithmetic, got another"
            )
        return ask

    @classmethod
    def _parsed(cls, data: bytes, study: Study) -> Ask:
        most = _most_bytes(study)
        if len(data) > most:
            raise MessageRefused(f"an ask must have at most {most} bytes in this study, got {len(data)}")
        try:
            found = _decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MessageRefused(f"an ask must have its fields: {error}") from None
        if found.format != _FORMAT or found.statistic not in study.statistics:
            raise MessageRefused(
                f"an ask must be for {' or '.join(study.statistics)} here, got {found.statistic[:40]!r}"
            )
        if len(found.point) % 8:
            raise MessageRefused(f"a point must be whole numbers of 8 bytes, got {len(found.point)} bytes")
        if list(found.groups) != sorted(set(found.groups)) or any(one < 0 for one in found.groups):
            raise MessageRefused("groups must be ascending numbers of disclosure groups, got others")
        if len(found.census) not in (0, 32):
            raise MessageRefused(f"a census must be named by 32 bytes, got {len(found.census)}")
        point = np.frombuffer(found.point, dtype="<f8").astype(np.float64)
        return cls(found.statistic, _merged_of(found.merged, study), point, found.model, found.groups, found.census)

    def digest(self, study: Study) -> bytes:
        """What tells this request from any other, over all studies."""
        return hashlib.sha256(study.digest() + self.encode()).digest()


class _Ask(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    format: str
    statistic: str
    version: int
    merged: tuple[tuple[int, ...], ...]
    point: bytes
    model: str
    groups: tuple[int, ...]
    census: bytes


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Ask)


def _most_bytes(study: Study) -> int:
    n_levels = sum(len(getattr(one, "levels", "1")) for one in study.columns)
    models = (NO_MODEL, *study.models)
    lengths = (
        STATISTICS[name].point_length(study, model)
        for model in models
        for name in (study.statistics if model is NO_MODEL else model.statistics)
        if STATISTICS[name].of_model == (model is not NO_MODEL)
    )
    names = 4 * max(len(one.name) for one in models) + 5 * len(study.time_grid)
    groups = 9 * (study.max_rows // study.least_owners + 1)  # more than a roster can have
    return 8 * max(lengths) + 9 * (n_levels + len(study.columns)) + names + min(groups, 1 << 16) + 192


def statistic_of(study: Study, ask: Ask) -> Statistic:
    """The statistic that is asked for, on the study with its levels merged.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.statistic import Ask, statistic_of
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> statistic_of(Study("stays", (age,), days, 5000, 1000, 3), Ask("gram")).length
    12
    """
    if ask.statistic not in STATISTICS:
        raise InvalidInput(f"a statistic must be {' or '.join(sorted(STATISTICS))}, got {ask.statistic[:40]!r}")
    kind = STATISTICS[ask.statistic]
    if study.noise is not None and kind.no_noise:
        raise InvalidInput(f"{kind.name} must be left out with noise: {kind.no_noise}")
    merged = merged_study(study, ask.merged)
    model = next((one for one in merged.models if one.name == ask.model), NO_MODEL)
    if ask.model and kind.name not in model.statistics:
        raise InvalidInput(f"{kind.name} must be asked for a model of the study that needs it, got {ask.model[:40]!r}")
    return kind(merged, ask.point, model)


def words_of(study: Study) -> dict[str, tuple[str, str]]:
    """For each statistic that a study takes: what leaves for it, and what its total can show at worst.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.statistic import words_of
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> list(words_of(Study("stays", (age,), days, 5000, 1000, 3)))
    ['census', 'cells', 'gram', 'score']
    """
    return {name: (STATISTICS[name].leaves(study), STATISTICS[name].shows) for name in study.statistics}


def contribution(study: Study, ask: Ask, rows: Snapshot) -> Wholes:
    """What a device adds to the total; ``rows`` is its snapshot as it was approved.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, whose example adds up contributions.
    """
    return statistic_of(study, ask).vector(recoded_rows(study, ask, rows))


def recoded_rows(study: Study, ask: Ask, rows: Snapshot) -> Snapshot:
    """The rows with the levels merged that a request merges; the rows themselves where it merges none.

    Examples
    --------
    See ``codedfl.device.approved``, whose devices do so with their frozen rows.
    """
    if not ask.merged:
        return rows
    # Values that were clipped stay with their columns; those made of others have none.
    counts = rows.clipped.columns
    left = [place for place in places_left(study, ask.merged) if place < len(counts)]
    return replace(
        rows, codes=recoded(study, rows.codes, ask.merged), clipped=replace(rows.clipped, columns=counts[left])
    )


def _merged_of(found: Merged, study: Study) -> Merged:
    """For every column ascending places; nothing at all is the empty list."""
    if not found:
        return ()
    if len(found) != held_out_place(study) + 1 or not any(found):
        raise MessageRefused(f"merged must have a list for each of {len(study.columns)} columns and two, or none")
    times, held_out = found[times_place(study)], found[held_out_place(study)]
    if list(times) != sorted({one for one in times if 0 <= one < len(study.time_grid)}) or held_out not in (
        (),
        (1,),
        (2,),
    ):
        raise MessageRefused(
            "merged must have ascending places of times, and say whether rows are held out, got others"
        )
    for one, given in zip(study.columns, found, strict=False):
        places = list(given)
        if isinstance(one, CategoryColumn):
            known = places == sorted({place for place in places if 0 <= place < len(one.levels)})
        else:  # a mark that is not there cannot be dropped: that would be a second way to say nothing
            known = places in ([], [1]) or (places == [0] and len(one.design_names) > 1)
        if not known:
            raise MessageRefused(f"merged must be ascending places of column {one.name!r}, got others")
    return found

"""A total that was kept, and what comes to it later: whole groups join and leave, and nobody else is asked again.

A total is the sum over some owners, so the total of two generations is the sum of both, bit for bit. Each generation is
a run of its own over whole disclosure groups of its own roster, judged by itself; what adds them is arithmetic with
numbers that the server has already. A part stays what it was when it was summed: it leaves whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from codedfl.analyses.cells import Clipping
from codedfl.contract.merging import Merged
from codedfl.contract.study import Study
from codedfl.data.canonical import canonical_digest
from codedfl.errors import InvalidInput
from codedfl.typing import JsonObject

# What may differ between generations: who takes part and how, and what is made of the total. All else says what its
# whole numbers stand for.
_FREE = frozenset(
    (
        *("name", "purpose", "formula", "edition", "roster", "server_key", "models", "inference", "most_clipped"),
        *("regularisation", "max_rows", "max_rows_per_device", "least_participants", "least_rows", "smallest_cell"),
        *("colluders", "holders", "row_blocks", "number_bits", "spare_replies", "points", "solver", "epochs"),
    )
)
_FROM_TOTAL = frozenset(("cells", "gram", "score"))


@dataclass(frozen=True)
class KeptPart:
    """One generation: the study that summed it, whose rows are in it, and the integers.

    Examples
    --------
    >>> from codedfl.analyses.cells import Clipping
    >>> from codedfl.analyses.kept import KeptPart
    >>> KeptPart("0a" * 32, ("a", "b", "c"), (30, 0, 0, 2000, 2000, 2000), Clipping(30))
    <Part of 3 owners, study 0a0a0a0a0a0a0a0a>
    """

    study: str
    owners: tuple[str, ...]
    gram: tuple[int, ...]
    clipped: Clipping

    def __repr__(self) -> str:
        return f"<Part of {len(self.owners)} owners, study {self.study[:16]}>"

    def to_dict(self) -> JsonObject:
        """For JSON; numbers as texts, since they are beyond what its readers take for whole numbers."""
        numbers = [str(one) for one in self.gram]
        return {"digest": self.study, "owners": list(self.owners), "gram": numbers, "clipped": asdict(self.clipped)}

    @classmethod
    def from_dict(cls, saved: Any) -> KeptPart:
        """What ``to_dict`` made."""
        owners, gram = tuple(map(str, saved["owners"])), tuple(map(int, saved["gram"]))
        return cls(str(saved["digest"]), owners, gram, Clipping.from_dict(saved["clipped"]))


@dataclass(frozen=True)
class KeptSum:
    """The parts of a total, in the order in which they were summed.

    meaning: what the whole numbers stand for: columns, grids, classes, features; the same in every part.
    merged: the levels that were merged in every part.

    Examples
    --------
    >>> from codedfl.analyses.cells import Clipping
    >>> from codedfl.analyses.kept import KeptSum, KeptPart
    >>> first = KeptPart("0a" * 32, ("a", "b", "c"), (30, 5), Clipping(30))
    >>> later = KeptPart("0b" * 32, ("d", "e", "f"), (20, 7), Clipping(20))
    >>> kept = KeptSum("0c" * 32, (), (first, later))
    >>> kept.total, kept.without(["d", "e", "f"]).total
    ([50, 12], [30, 5])
    >>> kept.without(["d"])
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: who leaves must be all owners of a part, for its sum cannot be taken apart: 'd' is in \
one with e, f
    """

    meaning: str = ""
    merged: Merged = ()
    parts: tuple[KeptPart, ...] = ()

    @property
    def total(self) -> list[int]:
        """The sum over all parts."""
        return [sum(numbers) for numbers in zip(*(one.gram for one in self.parts), strict=True)]

    @property
    def owners(self) -> tuple[str, ...]:
        """Whose rows are in it."""
        return tuple(name for one in self.parts for name in one.owners)

    @property
    def clipped(self) -> Clipping:
        """Of all parts."""
        return sum_of_clipping(one.clipped for one in self.parts)

    def with_part(self, part: KeptPart) -> KeptSum:
        """One generation more."""
        if twice := sorted(set(part.owners) & set(self.owners)):
            raise InvalidInput(
                f"owners must be in a total once, got {', '.join(twice)} again: who has new rows leaves with the part"
                " that has the old ones, or waits for a new total"
            )
        return KeptSum(self.meaning, self.merged, (*self.parts, part))

    def without(self, names: Collection[str]) -> KeptSum:
        """Without the parts of these owners, who must be all of theirs."""
        gone = set(names)
        if strange := sorted(gone - set(self.owners)):
            raise InvalidInput(f"who leaves must be in the total, got {', '.join(strange)}")
        for one in self.parts:
            if (staying := set(one.owners) - gone) and (leaving := sorted(gone & set(one.owners))):
                raise InvalidInput(
                    "who leaves must be all owners of a part, for its sum cannot be taken apart:"
                    f" {', '.join(map(repr, leaving))} is in one with {', '.join(sorted(staying))}"
                )
        left = tuple(one for one in self.parts if not gone & set(one.owners))
        if not left:
            raise InvalidInput("some part must stay, got all owners of the total")
        return KeptSum(self.meaning, self.merged, left)

    # -- a study that comes later

    def check(self, study: Study, owners: Iterable[str]) -> None:
        """Refuse a study whose numbers mean something else, which asks more than the total, or of the same owners."""
        if not self.parts:
            return
        if self.meaning != meaning_of(study):
            raise InvalidInput(
                "a later study must have the columns, ranges, steps, classes, encoder and held_out of the total that it"
                " is added to, got others"
            )
        if study.noise is not None or study.features != "linear":
            raise InvalidInput("a later study must have linear features without noise: its total is X'X")
        asking = [one.name for one in study.models if not set(one.statistics) <= _FROM_TOTAL]
        if asking:
            raise InvalidInput(
                f"models of a later study must follow from X'X, got {asking[0]!r}, which asks all owners again"
            )
        self.with_part(KeptPart("", tuple(owners), (), Clipping()))

    def with_study(
        self, study: Study, owners: Sequence[str], total: Sequence[int], clipped: Clipping, merged: Merged
    ) -> KeptSum:
        """With what a study has added, where these are the sums over all parts."""
        gram = tuple(whole - one for whole, one in zip(total, self.total, strict=True)) if self.parts else tuple(total)
        before = self.clipped
        values = {name: count - before.values.get(name, 0) for name, count in clipped.values.items()}
        own = Clipping(clipped.rows - before.rows, {name: count for name, count in values.items() if count})
        return KeptSum(meaning_of(study), merged, self.parts).with_part(
            KeptPart(study.digest().hex(), tuple(owners), gram, own)
        )

    def added(self, numbers: Sequence[int], merged: Merged) -> list[int]:
        """These integers with those that were kept."""
        if not self.parts:
            return list(numbers)
        # Each generation's levels are judged over its own owners: what is rare there is merged in its sum.
        if merged != self.merged:
            raise InvalidInput(
                "the same levels must be merged in every part, got others among those who come later: they need levels"
                " that are common on both sides"
            )
        return [kept + one for kept, one in zip(self.total, numbers, strict=True)]

    # -- files

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return {
            "meaning": self.meaning,
            "merged": [list(one) for one in self.merged],
            "parts": [one.to_dict() for one in self.parts],
        }

    @classmethod
    def read(cls, content: Any) -> KeptSum:
        """What ``to_dict`` made; anything else is refused in one line."""
        try:
            merged = tuple(tuple(map(int, one)) for one in content["merged"])
            parts = tuple(map(KeptPart.from_dict, content["parts"]))
            found = cls(str(content["meaning"]), merged, parts)
            lengths = {len(one.gram) for one in parts}
            if len(lengths) != 1 or len(set(found.owners)) < len(found.owners):
                raise ValueError("its parts do not belong together")
            return found
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise InvalidInput(f"the total must be a file that a study wrote, got {error!r:.80}") from None


NOTHING_KEPT = KeptSum()


def meaning_of(study: Study) -> str:
    """A digest of what the whole numbers of a study's total stand for, whoever takes part.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from codedfl.analyses.kept import meaning_of
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> meaning_of(study) == meaning_of(replace(study, edition=2)), meaning_of(study) == meaning_of(
    ...     replace(study, held_out=0.5)
    ... )
    (True, False)
    """
    said = {key: value for key, value in study.to_dict().items() if key not in _FREE}
    return canonical_digest("codedfl meaning of a total", said).hex()


def sum_of_clipping(several: Iterable[Clipping]) -> Clipping:
    """Clipped values of disjoint rows.

    Examples
    --------
    >>> from codedfl.analyses.cells import Clipping
    >>> from codedfl.analyses.kept import sum_of_clipping
    >>> sum_of_clipping([Clipping(30, {"age": 1}), Clipping(20, {"age": 2})])
    Clipping(rows=50, values={'age': 3})
    """
    rows, values = 0, dict[str, int]()
    for one in several:
        rows += one.rows
        for name, count in one.values.items():
            values[name] = values.get(name, 0) + count
    return Clipping(rows, values)

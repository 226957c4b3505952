"""What is known of the columns before a study is written, and what it is written of.

A draft comes from a sample, which is somebody's own table (``from_sample``), or from Table 1 over all devices
(``from_table_one``); ``study_text`` writes the file, in which every choice says in a comment why.

Rows with missing values are left out and counted (complete cases), since a mean with a mark beside it biases the
coefficients of the other columns unless values are missing at random. Two cases keep the mean and the mark: where more
than half of the rows would be left out, and where Table 1 counted few missing values: it had these rows too, so the
difference of both sums would be about few people, which every device's operator is asked about at approval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codedfl.authoring.ranges import OF_SAMPLE, anchor
from codedfl.contract.models.ordinal import ProportionalOddsModel
from codedfl.contract.names import plain_name

PARTICIPANTS = 5
HELD_OUT = 0.2
ROWS = 10_000
MOST_LEFT_OUT = 0.5  # of the rows, for missing values
_DESCRIBED_STEPS = 5 * 10**6  # either side of what is described: its bins grow, so that width costs little
_OF_DESCRIBED = "far wider than anybody's values, since bins grow with the value; beyond is clipped and counted"
_WHY_MARKED = (
    "leaving such rows out would leave out most; drop the column, or think of it",
    "so few rows have them that they are not left out after a Table 1 that has these rows, or nearly all have them",
)
_NO_MEAN = "a number that every range holds, since too few rows have a value for a mean"


@dataclass(frozen=True)
class DraftColumn:
    """What is known of a column before a study is written.

    levels: of a category, or of a target its classes, which may be whole numbers; None for a number.
    grid: low, high and step of a number; None for a category.
    missing: what a missing value becomes, a level or a number; None if none was seen.
    other: the level of unknown names.
    fill: what missing numbers become, such as "the mean of the sample"; "" where that need not be thought about.
    noticed: what to think about, "" if nothing. why: a comment on the range. unit: of a number, as far as it is known.
    missing_codes: what the tables have in place of a missing value.
    guessed: those of them that are numbers which the sample has far from all others.
    rare: how many texts of a sample count as ``other``. of_all: whether it is known of all devices.

    >>> DraftColumn("age", grid=(0.0, 120.0, 1.0)).levels is None
    True
    """

    name: str
    levels: tuple[str, ...] | tuple[int, ...] | None = None
    grid: tuple[float, float, float] | None = None
    missing: str | float | None = None
    other: str | None = None
    noticed: str = ""
    why: str = OF_SAMPLE
    unit: str = ""
    missing_codes: tuple[str | float, ...] = ()
    rare: int = 0
    fill: str = ""
    guessed: tuple[float, ...] = ()
    of_all: bool = False

    @property
    def remarks(self) -> tuple[str, ...]:
        """All there is to think about; nothing is filled in silence.

        >>> DraftColumn("age", grid=(0.0, 120.0, 1.0), missing=57.0, fill="the mean").remarks[0][:50]
        'it has missing values, which missing fills with 57'
        """
        coded = (
            f"{', '.join(f'{one:g}' for one in self.guessed)} far from all others, taken for codes of missing values:"
            " take them out of missing_codes if they are values."
        )
        why = _WHY_MARKED[self.of_all]
        filled = f"it has missing values, which missing fills with {self.missing}, {self.fill}, and marks: {why}."
        return tuple(
            filter(
                None,
                (
                    self.noticed,
                    coded if self.guessed else "",
                    filled if self.fill and self.missing is not None else "",
                ),
            )
        )

    def complete(self) -> DraftColumn:
        """With nothing for missing values, so that their rows are left out.

        >>> DraftColumn("ward", ("a", "b", "missing"), missing="missing").complete().levels
        ('a', 'b')
        """
        if self.levels is None:
            return replace(self, missing=None, fill="")
        levels = tuple(one for one in map(str, self.levels) if one != self.missing)
        return replace(self, levels=levels, missing=None)

    def ordered(self, kind: str) -> DraftColumn:
        """With a remark where ``kind`` lives by the order of classes, and theirs is that of the alphabet.

        >>> DraftColumn("grade", ("mild", "none", "severe")).ordered("proportional-odds").noticed[:41]
        'classes are in the order of the alphabet,'
        """
        texts = [one for one in self.levels or () if isinstance(one, str)]
        if kind != ProportionalOddsModel.kind or len(texts) <= 2 or texts != sorted(texts):
            return self
        noticed = f"classes are in the order of the alphabet, {' < '.join(texts)}, and {kind} has a meaning only in"
        return replace(self, noticed=f"{noticed} theirs: write them from the least to the most.")

    def predicted(self, unknown: bool) -> DraftColumn:
        """As a target: rows without it are left out. unknown: whether its level of unknown names is a class, too.

        >>> ill = DraftColumn("ill", ("no", "yes", "other", "missing"), missing="missing", other="other")
        >>> ill.predicted(unknown=False).levels
        ('no', 'yes')
        """
        if self.levels is None or (self.missing is None and self.other is None):
            return replace(self, missing=None)
        apart = (self.missing, None if unknown else self.other)
        return replace(self, levels=tuple(one for one in map(str, self.levels) if one not in apart), missing=None)

    def lenient(self) -> DraftColumn:
        """With a range still wider, something that a missing value becomes, and a level of unknown names."""
        if self.grid is not None:
            low, high, step = self.grid
            far = float(f"{_DESCRIBED_STEPS * step:.12g}")
            grid = (min(low, -far) if low < 0 else low, max(high, far) if low <= 0 < high else high, step)
            why = self.why if grid == self.grid else _OF_DESCRIBED
            return replace(self, grid=grid, missing=anchor(*grid), fill="", why=why)
        levels = tuple(one for one in map(str, self.levels or ()) if one not in ("other", "missing"))
        return replace(self, levels=(*levels, "other", "missing"), missing="missing", other="other")


@dataclass(frozen=True)
class Draft:
    """Everything that a study file is written of.

    columns, target: what goes in, and what is predicted, whose ``levels`` are classes.
    rows: public bound on the rows of a device. id: the column that tells rows apart.
    noticed: remarks on the table as a whole.
    describes: whether it is a study that only describes.
    complete_cases: whether rows with missing values are left out, and said: how many, for whoever has the table.
    held_out: the share of rows that is kept for the score; 0 where it would be too few to be scored.
    kind: of the further model of all columns; "" is none. estimates: whether models are made for their coefficients,
        of all rows, and not for a score. inference: whether the study's own has standard errors.

    >>> Draft("stay", (DraftColumn("age", grid=(0.0, 120.0, 1.0)),), DraftColumn("ill", ("no", "yes"))).id is None
    True
    """

    name: str
    columns: tuple[DraftColumn, ...]
    target: DraftColumn
    rows: int = ROWS
    id: str | None = None
    noticed: tuple[str, ...] = ()
    participants: int = PARTICIPANTS
    describes: bool = False
    complete_cases: bool = False
    said: tuple[str, ...] = ()
    held_out: float = HELD_OUT
    kind: str = ""
    estimates: bool = False
    inference: bool = False

    def describing(self) -> Draft:
        """The same for a study that describes: no missing value and no unknown name keeps a table out."""
        columns, name = tuple(one.lenient() for one in self.columns), plain_name(self.name, "-table-1")
        target = replace(self.target.lenient(), missing=None) if self.target.grid is not None else self.target
        return replace(
            self, name=name, columns=columns, target=target, describes=True, complete_cases=True, said=(), kind=""
        )


def no_further_model(classes: int) -> str:
    """The study's own model alone, which is linear.

    >>> no_further_model(2)
    ''
    """
    del classes
    return ""


def filled(mean: float | None, grid: tuple[float, float, float], of: str, otherwise: float) -> tuple[float, str]:
    """What missing numbers become, and what that is: the mean, or another number where too few rows have a value.

    of: whose mean it is. otherwise: a number that every range holds.

    >>> filled(57.3, (0.0, 120.0, 1.0), "the sample", 0.0), filled(None, (0.0, 120.0, 1.0), "the sample", 0.0)[0]
    ((57.0, 'the mean of the sample'), 0.0)
    """
    low, high, step = grid
    value = otherwise if mean is None else mean
    on_grid = float(f"{min(max(low + round((value - low) / step) * step, low), high):.12g}")
    return on_grid, _NO_MEAN if mean is None else f"the mean of {of}"

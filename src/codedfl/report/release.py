"""What of a result may be published: checked by the rules of output checkers, rounded to what errors support.

A server's folder is not for publication: it has the exact sums, and covariances in all digits *are* these sums. A
release is made of ``result.json`` alone, into a folder of its own: every number in it is rounded, what would tell of
few people is withheld with the reason, and a record says what was decided, by whom, and by which rules.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from codedfl.analyses.linear import LinearTotal
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
from codedfl.typing import Unchecked
from codedfl.version import __version__

LEAST_FREEDOM = 10  # degrees of freedom that are left, or a model nearly has the rows' own numbers
DIGITS = 6  # of a number without an error of its own
_OF_AN_ERROR = 2  # digits
_SHARE = 0.5  # of a sum, that one person may have
_COUNTS = frozenset({"rows", "n", "missing", "at_risk", "events", "censored", "left_out"})
_MATRICES = ("covariance",)
_OF_PAIRS = frozenset({"correlation", "pca", "chi2"})  # kinds of models that say how often two levels meet
RULES = (
    "no count of fewer than {k} people, nor one that follows from others",
    "no covariance, correlation or table of columns of which two meet in fewer than {k} people",
    f"no model with fewer than {LEAST_FREEDOM} degrees of freedom left, and none that is a table of few people",
    f"no mean of which one person may have more than {_SHARE:.0%}",
    f"estimates to {_OF_AN_ERROR} digits of their standard errors, all else to {DIGITS} digits",
)


@dataclass(frozen=True)
class Withheld:
    """What is not released, and why.

    >>> Withheld("covariance", "two columns meet in 3 people").line
    'covariance: withheld, two columns meet in 3 people'
    """

    what: str
    why: str

    @property
    def line(self) -> str:
        """For people."""
        return f"{self.what}: withheld, {self.why}"


@dataclass(frozen=True)
class FewPairs:
    """How many pairs of levels, marks and classes meet in few people, in the exact sum; None where there is none.

    names: of the columns that are in such a pair.
    """

    count: int | None
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, total: LinearTotal | None, k: int) -> FewPairs:
        """Every column of 0 and 1 beside every other, and what is left of either without the other."""
        if total is None:
            return cls(None)
        names, counts = _indicators(total.study), np.array(total.counts(), dtype=object)
        found: set[str] = set()
        few = 0
        for (i, one), (j, other) in combinations(names, 2):
            both = counts[i, j]
            # Of both, of one alone, of neither: the four cells of the table that the pair is.
            cells = (both, counts[i, i] - both, counts[j, j] - both, counts[0, 0] - counts[i, i] - counts[j, j] + both)
            if any(0 < cell < k for cell in cells):
                few += 1
                found |= {one, other}
        return cls(few, frozenset(found))


def _indicators(study: Study) -> list[tuple[int, str]]:
    """Places and names of the columns of 0 and 1 in the matrix of [1, X, Y]."""
    names = list(study.design_names)
    found = [(1 + place, name) for place, name in enumerate(names) if study.units.limit[place] == 1]
    if isinstance(study.target, ClassTarget):
        classes = study.target.classes
        found += [(1 + len(names) + place, f"{study.target.name} = {one}") for place, one in enumerate(classes)]
    return found


def released(result: Unchecked, few: FewPairs) -> tuple[Unchecked, tuple[Withheld, ...]]:
    """A result as it may be published, and what was withheld. ``few`` is of the exact sum beside it.

    >>> made, withheld = released({"smallest_cell": 5, "models": [], "rows": 3, "mean": 1.23456}, FewPairs(0))
    >>> made["rows"], made["mean"], [one.what for one in withheld]
    ('few', 1.23456, ['rows'])
    """
    k = int(result["smallest_cell"])
    models, withheld = [], list[Withheld]()
    for one in result["models"]:
        kept, gone = _model(one, few, k)
        models.append(kept)
        withheld += gone
    own, gone = _model({"name": "", **{key: one for key, one in result.items() if key != "models"}}, few, k)
    made = {**{key: one for key, one in own.items() if key != "name"}, "models": models}
    withheld += gone
    return made, tuple(withheld)


def _model(one: Unchecked, few: FewPairs, k: int) -> tuple[Unchecked, list[Withheld]]:
    """One model, or the study's own: withheld whole, in parts, or rounded."""
    name, kind = one.get("name", ""), one.get("kind", "")
    what = f"the model {name!r}" if name else "the study"
    if why := _why_none(one, few, k):
        return {"name": name, "kind": kind, "why_none": why}, [Withheld(what, why)]
    withheld = list[Withheld]()
    made = {key: _rounded(key, value, k, withheld, f"{what}: " if name else "") for key, value in one.items()}
    for found in (made, made.get("inference") or {}):
        for key in _MATRICES:
            if found.get(key) is not None and few.count != 0:
                found[key] = None
                why = "no exact sum is there to look at" if few.count is None else _meeting(few, k)
                withheld.append(Withheld(f"{what}, {key}", why))
    return made, withheld


def _meeting(few: FewPairs, k: int) -> str:
    return f"{few.count} pair(s) of columns meet in fewer than {k} people, and their products would tell how many"


def _why_none(one: Unchecked, few: FewPairs, k: int) -> str:
    found = one.get("inference") or one
    fit = found.get("fit", found)
    freedom = fit.get("freedom") if isinstance(fit, dict) else None
    if isinstance(freedom, int | float) and math.isfinite(freedom) and freedom < LEAST_FREEDOM:
        return f"{freedom:g} degrees of freedom are left, and {LEAST_FREEDOM} are needed"
    if one.get("kind") in _OF_PAIRS and few.count != 0:
        return _meeting(few, k) if few.count is not None else "no exact sum is there to look at"
    names = {row["name"] for row in found.get("coefficients") or () if row.get("name") not in ("constant", "")}
    # Coefficients of one category alone are its means: a table of levels, of which some may be of few people.
    of_one = names and len({name.partition(" = ")[0] for name in names}) == 1 and all(" = " in name for name in names)
    if of_one and names & few.names:
        return f"its coefficients are a table, in which a level meets a class in fewer than {k} people"
    return ""


def _rounded(key: str, value: Any, k: int, withheld: list[Withheld], of: str) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if key in _COUNTS and 0 < value < k:
            withheld.append(Withheld(f"{of}{key}", f"it is a count of fewer than {k}"))
            return "few"
        return value
    if isinstance(value, float):
        return _digits(value, DIGITS)
    if isinstance(value, dict):
        if "coefficient" in value:
            return _coefficient(value)
        found = {name: _rounded(name, one, k, withheld, of) for name, one in value.items()}
        return _described(found, withheld, of)
    if isinstance(value, list):
        return [_rounded(key, one, k, withheld, of) for one in value]
    return value


def _coefficient(row: Unchecked) -> Unchecked:
    """Estimates and ends of intervals to the digits that the error supports, ratios to as many."""
    error = row.get("standard_error")
    if not isinstance(error, float) or not error or not math.isfinite(error):
        return {key: _digits(one, DIGITS) if isinstance(one, float) else one for key, one in row.items()}
    places = _OF_AN_ERROR - 1 - math.floor(math.log10(error))
    found = {key: _digits(one, 3) if isinstance(one, float) else one for key, one in row.items()}
    found |= {key: round(row[key], places) for key in ("coefficient", "standard_error", "low", "high") if key in row}
    if isinstance(ratio := row.get("ratio"), float) and ratio > 0:
        # A ratio and its ends to the digits of its own error: rounded once, from the exact number.
        of_ratio = _OF_AN_ERROR - 1 - math.floor(math.log10(error * ratio))
        ends = ("ratio", "ratio_low", "ratio_high")
        found |= {key: round(row[key], of_ratio) for key in ends if isinstance(row.get(key), float)}
    return found


def _described(row: Unchecked, withheld: list[Withheld], of: str) -> Unchecked:
    """A mean of which one person may have most is none of the others'."""
    n, mean, deviation = (row.get(key) for key in ("rows", "mean", "deviation"))
    if not (isinstance(n, int) and isinstance(mean, float) and isinstance(deviation, float)) or n < 2:
        return row
    # Somebody with the share s of a sum of n is s n means, so the deviation is at least (s n - 1) means / root(n - 1).
    if deviation >= (_SHARE * n - 1) * abs(mean) / math.sqrt(n - 1):
        withheld.append(Withheld(f"{of}mean of {row.get('name', 'a column')}", "one person may have most of the sum"))
        return {**row, "mean": None, "deviation": None}
    return row


def _digits(value: float, count: int) -> float:
    return float(f"{value:.{count}g}") if math.isfinite(value) else value


# -- the record


def record(
    study: Study, who: str, when: str, withheld: Sequence[Withheld], files: Sequence[tuple[str, bytes]]
) -> Unchecked:
    """What was released, by whom and by which rules: an RO-Crate of the Five Safes profile.

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> len(record(study, "Ada", "2026-01-01", (), [("result.json", b"{}")])["@graph"])
    5
    """
    parts = [{"@id": name} for name, _ in files]
    check = {
        "@id": "#disclosure-check",
        "@type": "AssessAction",
        "additionalType": {"@id": "https://w3id.org/shp#DisclosureCheck"},
        "name": "Disclosure check of a release",
        "agent": {"@id": "#who"},
        "endTime": when,
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "instrument": f"codedfl {__version__}",
        "object": parts,
        "description": "; ".join(rules_of(study)),
        "result": [one.line for one in withheld],
    }
    return {
        "@context": "https://w3id.org/ro/crate/1.2/context",
        "@graph": [
            {
                "@id": "ro-crate-metadata.json",
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": [{"@id": "https://w3id.org/ro/crate/1.2"}, {"@id": "https://w3id.org/5s-crate/0.4"}],
            },
            {
                "@id": "./",
                "@type": "Dataset",
                "name": study.name,
                "description": study.purpose or "A study by secure sums over disclosure groups.",
                "identifier": study.digest().hex(),
                "datePublished": when,
                "hasPart": parts,
                "mentions": [{"@id": "#disclosure-check"}],
            },
            {"@id": "#who", "@type": "Person", "name": who},
            check,
            *_files(files),
        ],
    }


def rules_of(study: Study) -> list[str]:
    """In words."""
    return [one.format(k=study.smallest_cell) for one in RULES]


def _files(files: Sequence[tuple[str, bytes]]) -> Iterator[Unchecked]:
    for name, data in files:
        yield {"@id": name, "@type": "File", "contentSize": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def as_json(found: Unchecked) -> bytes:
    """As files have it.

    >>> as_json({}).decode().strip()
    '{}'
    """
    return (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()

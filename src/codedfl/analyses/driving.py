"""Drivers run the analyses of a study: whoever can answer an ``Ask`` with its total gets the findings.

The rehearsal on one machine, a run in virtual time and the servers on real machines differ in the function that they
give to ``drive``, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from codedfl.analyses.kept import NOTHING_KEPT, KeptSum
from codedfl.analyses.left_out import terms_left_out
from codedfl.analyses.study_analysis import Answer, StudyFindings, conduct
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import JsonObject

TOTAL_FILE = "total.json"
Found = TypeVar("Found")


def drive(study: Study, answer: Callable[[Ask], Answer], before: KeptSum = NOTHING_KEPT) -> StudyFindings:
    """Answer what the study asks for, one total after the other; ``before`` is a total of others that it is added to.

    Examples
    --------
    >>> from codedfl.analyses.driving import drive, read_total, total_json
    >>> from codedfl.contract.census import Decision
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> totals = {
    ...     "census": Decision(),
    ...     "cells": [30, 0, 0, 0, 0],
    ...     "gram": [30, 0, 0, 2000, 2000, 2000],
    ... }
    >>> found = drive(study, lambda ask: totals[ask.statistic])
    >>> found.rows
    30
    >>> kept = read_total(study, total_json(study, found, ["a", "b", "c"]))
    >>> kept.total, kept.owners
    ([30, 0, 0, 2000, 2000, 2000], ('a', 'b', 'c'))
    """
    return driven(conduct(study, before), answer)


def driven(analysis: Generator[Ask, Any, Found], answer: Callable[[Ask], Answer]) -> Found:
    """What an analysis ends in, its asks answered one after the other.

    Examples
    --------
    See ``drive``, which answers for a whole study.
    """
    try:
        ask = next(analysis)
        while True:
            ask = analysis.send(answer(ask))
    except StopIteration as end:
        found: Found = end.value
        return found


def findings_json(study: Study, findings: StudyFindings) -> JsonObject:
    """All that a paper needs, as plain values.

    Examples
    --------
    See ``drive``, which makes the findings.
    """
    of_study: JsonObject = {"study": study.name, "edition": study.edition, "digest": study.digest().hex()}
    gone = terms_left_out(study, findings.merged, findings.total)
    return {
        **of_study,
        **findings.to_dict(),
        "terms_left_out": [one.to_dict() for one in gone],
        "clipped": findings.clipped.to_dict(study.smallest_cell),
    }


def total_json(study: Study, findings: StudyFindings, owners: Sequence[str]) -> JsonObject:
    """The total that further linear analyses are made of, with no owner asked again (``refit``), part by part.

    owners: whose rows the study has summed.

    Examples
    --------
    See ``drive``.
    """
    kept = findings.before.with_study(study, owners, findings.total, findings.clipped, findings.merged)
    return {"digest": study.digest().hex(), **kept.to_dict()}


def read_total(study: Study, content: Any) -> KeptSum:
    """What ``total_json`` made, of this study as the last one; that of another is refused.

    Examples
    --------
    See ``drive``.
    """
    kept = KeptSum.read(content)
    if content.get("digest") != study.digest().hex():
        raise InvalidInput(
            f"the total must be of this study, {study.digest().hex()[:16]}, got one of {content.get('digest')!r:.18}"
        )
    return kept

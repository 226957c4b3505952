"""A study in plain words and numbers, for those who decide: what leaves, who sees what, what is not protected.

Every text of the study, the roster or the ledger goes through ``printable``: a screen that asks for consent must not be
written on by what it asks about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codedfl.contract.design_columns import check_design, copied_columns, largest_leverage
from codedfl.contract.judgement import Finding
from codedfl.contract.ledger import Ledger
from codedfl.contract.models import StudyModel, SubModel, TableOne
from codedfl.contract.policy import shown_directions
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import NO_FEATURES, NumberTarget, Study, StudyColumn
from codedfl.data.columns import CategoryColumn, DerivedColumn
from codedfl.privacy.budget import Budget

_MOST_COLUMNS = 40  # that are shown one by one
_MOST_DESIGN = 12  # columns with the largest leverages, which are worth a person's time
_TOLD_APART = 0.999

Words = Mapping[str, tuple[str, str]]
"""For each statistic: what leaves for it, and what its total can show at worst (``statistics.words_of``)."""


@dataclass(frozen=True)
class Section:
    """One question and its answers, one line per answer."""

    question: str
    answers: tuple[str, ...]


def printable(text: object) -> str:
    r"""A text as one line that cannot move the cursor, colour the screen or turn the direction of reading.

    >>> printable("stay\x1b[2J\nof \u202epatients")
    'stay�[2J�of �patients'
    """
    return "".join(one if one.isprintable() else "\ufffd" for one in str(text))


def explain(
    study: Study,
    roster: Roster | None = None,
    name: str = "",
    own: Snapshot | None = None,
    ledger: Ledger | None = None,
    words: Words | None = None,
    findings: Sequence[Finding] = (),
) -> tuple[Section, ...]:
    """The study, question by question.

    roster, name: who takes part, and which of them this device is. own: this device's rows. ledger: what was approved
    here before. words: what to say about each statistic. findings: what could be told of few rows.

    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> explain(study)[1].answers[0]
    'age: a number from 0 to 110 in steps of 1, else clipped; gaps are refused'
    """
    sections = [
        Section("What is it for?", (study.purpose or "the file does not say: ask before you approve", *_about(study))),
        Section("What of a table is used?", (*_used(study), *_held_out(study, own))),
        Section("What leaves this machine?", _leaves(study, words or {})),
        Section("How few rows may a number be about?", _fewest(study)),
        Section("Who sees what?", _seen(study, roster)),
    ]
    if roster is not None:
        sections.append(Section("Whose rows are added to ours?", (*_pods(roster, name), absences(study, roster))))
    if own is not None:
        sections.append(Section("Which columns could pick out people on this table?", _design(study, own)))
    if ledger is not None:
        sections.append(Section("What does it add to what was approved before?", _adds(study, ledger)))
    if findings:
        told = (f"{one.kind}: {one.words}" for one in findings)
        sections.append(Section("What could be told of few rows of this table?", tuple(told)))
    sections.append(Section("What is not protected?", _unprotected(study, words or {})))
    return tuple(Section(one.question, tuple(map(printable, one.answers))) for one in sections)


def _about(study: Study) -> tuple[str, ...]:
    result = "coefficients with standard errors" if study.inference else "a model and its score"
    if study.features == NO_FEATURES:
        described = all(isinstance(one, TableOne) for one in study.models)
        result = f"{'a table that describes the columns' if described else 'what its models say'}, and no model"
        result += "" if described else " of its own"
    models = tuple(
        f"a table that describes {', '.join(one.columns)}"
        if isinstance(one, TableOne)
        else f"one more model, {one.name!r} ({one.kind}), of {_columns(study, one)}"
        f"{', from the same total' * (one.kind == SubModel.kind)}"
        for one in study.models
    )
    return (f"edition {study.edition}; the result is {result}", *models, f"the digest is {study.digest().hex()}")


def _columns(study: Study, model: StudyModel) -> str:
    return "all columns" if model.columns == study.table_columns.names else ", ".join(model.columns)


def _used(study: Study) -> tuple[str, ...]:
    refused = "rows with a gap are left out" if study.complete_cases else "gaps are refused"
    shown = [_column(one, refused) for one in study.columns[:_MOST_COLUMNS]]
    if len(study.columns) > _MOST_COLUMNS:
        shown.append(f"and {len(study.columns) - _MOST_COLUMNS} more columns like these")
    shown.append(_target(study))
    if study.formula:
        shown.append(f"the author's formula, of which the columns above are made: {study.formula}")
    if study.complete_cases:
        shown.append("rows with a gap that no column above allows, or without a target, are left out")
    if study.site_effects:
        shown.append("this machine subtracts its own means from all columns and the target before it sums")
    if study.id is not None:
        shown.append(f"{study.id}: tells rows apart, never leaves this machine")
    if study.embedded_by:
        shown.append(f"the columns are embeddings by the encoder {study.embedded_by}, whose file says what it is")
    if study.encoder is not None:
        shown.append(f"rows are seen as {study.n_features} outputs of the encoder {study.encoder}")
    return tuple(shown)


def _held_out(study: Study, own: Snapshot | None) -> tuple[str, ...]:
    """How many, plainly: a device holds out none or enough."""
    if not study.held_out:
        return ()
    rule = (
        f"{study.held_out:.0%} of the rows, chosen by a key of this machine whatever the columns, are kept for the"
        " score; where the census finds too few people among them, they are in no sum"
    )
    if own is None:
        return (rule,)
    return (rule, f"of this table {int(own.held_out.sum())} of {len(own)} rows are kept")


def _column(one: StudyColumn, refused: str) -> str:
    column = one.column
    if isinstance(column, CategoryColumn):
        gaps = refused if column.missing is None else f"a gap counts as {column.missing!r}"
        return f"{column.name}: one of {', '.join(column.levels)}; {gaps}"
    low, high = one.grid.range
    if isinstance(column, DerivedColumn):
        made = " x ".join(map(str, column.factors))
        return f"{column.name}: made of these on this machine, {made}, from {low:g} to {high:g}, to {one.grid.step:g}"
    gaps = refused if column.missing is None else f"a gap becomes {column.missing:g}"
    gaps += "" if column.in_model else "; only other columns are made of it"
    return f"{column.name}: a number from {low:g} to {high:g} in steps of {one.grid.step:g}, else clipped; {gaps}"


def _target(study: Study) -> str:
    target = study.target
    if isinstance(target, NumberTarget):
        low, high = target.range
        return f"{target.title}, which is predicted: a number from {low:g} to {high:g} in steps of {target.grid.step:g}"
    modelled = f"; odds are those of {target.modelled}" if target.modelled else ""
    return f"{target.name}, which is predicted: one of {', '.join(map(str, target.classes))}{modelled}"


def _leaves(study: Study, words: Words) -> tuple[str, ...]:
    lines = [f"{name}: {words[name][0]}" if name in words else name for name in study.statistics]
    return (*lines, "never a row, and nothing but under a pad: what others see is the sum over whole pods")


def _fewest(study: Study) -> tuple[str, ...]:
    """The smallest cell and the least rows, in words and numbers."""
    if study.noise is not None:
        return ("a single one: noise hides it, and no smallest cell is needed",)
    why = "least_rows" if study.least_rows is not None else "least_rows; twice the columns, or a smallest cell"
    if study.features == NO_FEATURES:
        why = "least_rows; a smallest cell"
    return (
        f"a level, a missing value, a class, an interval of times and a held-out part have at least"
        f" {study.smallest_cell} people (smallest_cell) over all devices, whatever {study.colluders} of them invent, or"
        " they are merged with others before anything is summed: the census says what, every result names it, and"
        " nothing else is changed on this machine",
        "combinations of two columns or more may be rarer: the server sees their sums",
        f"all devices together have at least {study.least_pod_rows} rows to train on ({why})",
    )


def _seen(study: Study, roster: Roster | None) -> tuple[str, ...]:
    d, shown = study.feature_count, shown_directions(study, roster)
    whole = ", and the whole total of X'X and X'y" if d else ""
    if shown < d:
        whole = f", and the total X'y and X'X in {shown} of {d} directions"
    key = f", key {study.server_key[:16]}..." if study.server_key else ""
    return (
        f"the server{key}: these totals{whole}; no device's own part of them",
        f"the server together with up to {study.colluders} device(s): the same, and what those devices know",
        "other devices: nothing but sums of pads, and the model if the server gives it to them",
    )


def _pods(roster: Roster, name: str) -> tuple[str, ...]:
    ours = roster.pod_of(name)
    lines = [f"a total is over whole pods, of which there are {len(roster.pods)}, with {len(roster.owners)} devices"]
    if ours:
        lines.append(f"ours is {', '.join(sorted(ours))}: our rows are in no total without theirs, now and later")
    if roster.helpers:
        lines.append(f"{', '.join(roster.helpers)}: help, and have no rows")
    return tuple(lines)


def absences(study: Study, roster: Roster) -> str:
    """Who may be absent when a total is asked for: an absent device takes its pod out of that total.

    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> roster = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(9)}, colluders=1)
    >>> absences(Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4), roster)
    'devices of any 1 of the 3 pods may be absent when a total is asked for'
    """
    least, pods = study.least_owners, sorted(roster.pods, key=len, reverse=True)
    at_worst, at_best = roster.without_one()
    if at_worst >= least:
        left = len(roster.owners)
        spare = sum((left := left - len(pod)) >= least for pod in pods)
        return f"devices of any {spare} of the {len(pods)} pods may be absent when a total is asked for"
    if at_best >= least:
        needed = ", ".join(sorted(name for pod in pods if len(roster.owners) - len(pod) < least for name in pod))
        return f"none of {needed} may be absent when a total is asked for: {least} owners in whole pods are needed"
    lowest = max(3, study.colluders + study.honest)
    ways = dict.fromkeys(left for left in (at_best, at_worst) if left >= lowest)
    mended = " or ".join(f"least_participants = {left}" for left in ways) or "more pods (codedfl roster add)"
    return (
        f"nobody may be absent when a total is asked for: without a pod at most {at_best} of {len(roster.owners)}"
        f" owners are left, and {least} are needed; {mended} would change that"
    )


def _design(study: Study, rows: Snapshot) -> tuple[str, ...]:
    design, leverage = check_design(study, rows), largest_leverage(study, rows)
    few = sorted(design, key=lambda one: (one.differs < study.smallest_cell, one.leverage), reverse=True)
    lines = [
        f"{one.name}: {one.differs} rows differ from the commonest value; one row has {one.leverage:.0%} of its spread"
        for one in few[:_MOST_DESIGN]
    ]
    if len(few) > _MOST_DESIGN:
        lines.append(f"{len(few) - _MOST_DESIGN} more columns, in which single rows have less")
    told = ": some combination of columns is about one person of this table" if leverage > _TOLD_APART else ""
    lines += copied_columns(study, rows)
    return (*lines, f"all columns together: one row has up to {leverage:.0%} of a combination of them{told}")


def _adds(study: Study, ledger: Ledger) -> tuple[str, ...]:
    if not ledger.approvals:
        return ("nothing was approved here before",)
    names = {*study.table_columns.names, study.target.title}
    lines = []
    for one in ledger.approvals:
        given = sum(c.digest == one.digest for c in ledger.contributions)
        common = sorted(names & set(ledger.rows[one.digest].columns)) if one.digest in ledger.rows else []
        lines.append(
            f"{one.name}, edition {one.edition}, approved by {one.who} {one.when}, {given} contribution(s); columns"
            f" that it has in common with this one: {', '.join(common[:_MOST_COLUMNS]) or 'none'}"
        )
    return tuple(lines)


def _unprotected(study: Study, words: Words) -> tuple[str, ...]:
    lines = [
        _noise(study.noise),
        f"against the server and more than {study.colluders} device(s) together nothing is promised",
        "what the server does with totals and models is not controlled by this file",
    ]
    lines += [f"{name}: {shows}" for name, (_, shows) in words.items()]
    return tuple(lines)


def _noise(noise: Budget | None) -> str:
    if noise is None:
        return "no noise is added: what the totals themselves say about a person is not hidden"
    return f"noise is added by every machine: {noise.sentence()}"

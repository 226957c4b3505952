"""A study in plain words and numbers, for those who decide: what leaves, who sees what, what is not protected.

Every text of the study, the roster or the ledger goes through ``printable``: a screen that asks for consent must not be
written on by what it asks about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codedfl.contract.design_columns import check_design, copied_columns, largest_leverage
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.ledger import Ledger
from codedfl.contract.models import StudyModel, SubModel, TableOne
from codedfl.contract.policy import Policy, shown_directions
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import NO_FEATURES, Study
from codedfl.data.columns import CategoryColumn, DerivedColumn, NumberColumn, NumberTarget
from codedfl.privacy.budget import Budget

_MOST_COLUMNS = 40  # that are shown one by one
_MOST_LEVELS = 12  # of a category
_MOST_NAMES = 12  # of devices
_MOST_FINDINGS = 4  # of a kind
_MOST_BEFORE = 4  # approvals, the newest
_MOST_DESIGN = 3  # columns with the largest leverages, which are worth a person's time
_STANDS_OUT = 0.25  # the share of a column's variance that one row has
_TOLD_APART = 0.999
_BECOMES = {"refuse": "refused by the policy", "ask": "to be accepted by you", "allow": "allowed by the policy"}

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
    findings: Sequence[DisclosureFinding] = (),
    policy: Policy | None = None,
) -> tuple[Section, ...]:
    """The study, question by question: two pages for a usual one.

    roster, name: who takes part, and which of them this device is. own: this device's rows. ledger: what was approved
    here before. words: what to say about each statistic. findings: what could be learnt of few rows, and policy: what
    becomes of it.

    >>> from codedfl.data.columns import NumberColumn
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> explain(study)[1].answers[0]
    'numbers, clipped to these ranges: age, 0 to 110 by 1'
    """
    sections = [
        Section("What is it for?", (study.purpose or "the file does not say: ask before you approve", *_about(study)))
    ]
    if own is not None:  # first what is about this table
        found = _found(findings, policy or Policy())
        sections.append(Section("What was found about few rows of this table?", (*found, *_design(study, own))))
    sections += [
        Section("What of a table is used?", (*_used(study), *_held_out(study, own))),
        Section("What leaves this machine?", _leaves(study, words or {})),
        Section("Who sees what?", _seen(study, roster)),
    ]
    if roster is not None:
        sections.append(
            Section("Whose rows are added to ours?", (*_groups(study, roster, name), absences(study, roster)))
        )
    sections.append(Section("How few people may a number be about?", _fewest(study, roster)))
    if ledger is not None:
        sections.append(Section("What was approved here before?", _before(ledger)))
    sections.append(Section("What is not protected?", _unprotected(study, words or {})))
    return tuple(Section(one.question, tuple(map(printable, one.answers))) for one in sections)


def _about(study: Study) -> tuple[str, ...]:
    scored = "a model and its score" if study.held_out else "a model, without a score"
    result = "coefficients with standard errors" if study.inference else scored
    if study.features == NO_FEATURES:
        result = (
            f"{'a table that describes the columns' if study.only_describes else 'what its models say'}, and no model"
        )
        result += "" if study.only_describes else " of its own"
    models = tuple(
        f"a table that describes {', '.join(one.columns)}"
        if isinstance(one, TableOne)
        else f"one more model, {one.name!r} ({one.kind}), of {_columns(study, one)}"
        f"{', from the same sum' * (one.kind == SubModel.kind)}"
        for one in study.models
    )
    return (f"version {study.edition}; the result is {result}", *models, f"digest {study.digest().hex()}")


def _found(findings: Sequence[DisclosureFinding], policy: Policy) -> tuple[str, ...]:
    """What could be computed of few rows, and what becomes of it."""
    lines = []
    for kind in dict.fromkeys(one.kind for one in findings):
        alike = [one.words for one in findings if one.kind == kind]
        lines += [f"{kind} ({_BECOMES[policy.on(kind)]}): {words}" for words in alike[:_MOST_FINDINGS]]
        if len(alike) > _MOST_FINDINGS:
            lines.append(f"{kind}: {len(alike) - _MOST_FINDINGS} more; all are recorded")
    return tuple(lines) or ("nothing: no way is known by which these sums and earlier ones would tell of few rows",)


def _columns(study: Study, model: StudyModel) -> str:
    return "all columns" if model.columns == study.table_columns.names else ", ".join(model.columns)


def _used(study: Study) -> tuple[str, ...]:
    missing = "leaves its row out" if study.complete_cases else "keeps the table out"
    shown, many = study.columns[:_MOST_COLUMNS], len(study.columns) - _MOST_COLUMNS
    numbers = [_number(one) for one in shown if type(one) is NumberColumn]
    made = [_made(one) for one in shown if isinstance(one, DerivedColumn)]
    categories = [_category(one) for one in shown if isinstance(one, CategoryColumn)]
    lines = [f"numbers, clipped to these ranges: {'; '.join(numbers)}"] if numbers else []
    lines += [f"categories: {'; '.join(categories)}"] if categories else []
    lines += [f"made of these on this machine: {'; '.join(made)}"] if made else []
    lines += [f"the author's formula, of which they are made: {study.formula}"] if study.formula else []
    lines += [f"and {many} more columns like these"] if many > 0 else []
    units = [f"{name} in {unit}" for name, _, unit in study.labels if unit]
    lines += [f"every site records {', '.join(units)}"] if units else []
    lines += [_target(study), f"a missing value anywhere else {missing}"]
    if study.site_effects:
        lines.append("this machine subtracts its own means from all columns and the target before it sums")
    if study.id is not None:
        lines.append(f"{study.id}: tells people apart, never leaves this machine")
    if study.embedded_by:
        lines.append(f"the columns are embeddings by the encoder {study.embedded_by}, whose file says what it is")
    if study.encoder is not None:
        lines.append(f"rows are seen as {study.n_features} outputs of the encoder {study.encoder}")
    return tuple(lines)


def _held_out(study: Study, own: Snapshot | None) -> tuple[str, ...]:
    if not study.held_out:
        return ()
    here = "" if own is None else f" ({int(own.held_out.sum())} of {len(own)} here)"
    return (
        f"{study.held_out:.0%} of the rows{here}, drawn by a key of this machine, are held out for the score, or"
        " are in no sum where the census finds too few people",
    )


def _number(one: NumberColumn) -> str:
    low, high = one.grid.range
    said = "" if one.missing is None else f", no value counts as {one.missing:g}"
    said += "" if one.in_model else ", not in the model itself"
    return f"{one.name}, {low:g} to {high:g} by {one.grid.step:g}{said}"


def _made(one: DerivedColumn) -> str:
    low, high = one.grid.range
    return f"{one.name} = {' x '.join(map(str, one.factors))}, {low:g} to {high:g} by {one.grid.step:g}"


def _category(column: CategoryColumn) -> str:
    levels, many = ", ".join(column.levels[:_MOST_LEVELS]), len(column.levels) - _MOST_LEVELS
    missing = "" if column.missing is None else f"; no value counts as {column.missing}"
    return f"{column.name} ({levels}{f' and {many} more' if many > 0 else ''}{missing})"


def _target(study: Study) -> str:
    target = study.target
    if isinstance(target, NumberTarget):
        low, high = target.range
        return f"predicted: {target.title}, {low:g} to {high:g} by {target.grid.step:g}"
    modelled = f"; odds are those of {target.modelled}" if target.modelled else ""
    return f"predicted: {target.name} ({', '.join(map(str, target.classes))}){modelled}"


def _leaves(study: Study, words: Words) -> tuple[str, ...]:
    lines = [f"{name}: {words[name][0]}" if name in words else name for name in study.statistics]
    return (*lines, "never a row; under one-time pads: only sums over whole groups can be read")


def _fewest(study: Study, roster: Roster | None) -> tuple[str, ...]:
    """The minimum cell count and the least rows, in words and numbers."""
    if study.noise is not None:
        return ("one: noise hides single rows, and no minimum cell count is needed",)
    rows = f"all devices together have at least {study.least_pod_rows} rows to train on (least_rows)"
    if study.smallest_cell == 1:
        return ("one: smallest_cell is 1, so there is no census, and nothing is merged", rows)
    person = f"a person is an id ({study.id})" if study.id is not None else "each row is a person, since there is no id"
    return (
        f"{study.smallest_cell} people over all devices (smallest_cell); {person}. Levels, missing values, classes,"
        " intervals and held-out rows with fewer are merged or left out, alike everywhere; results name them."
        f" {_believed(study, roster)}",
        "combinations of columns are not merged: the server may see few people there",
        rows,
    )


def _believed(study: Study, roster: Roster | None) -> str:
    """Whatever how many owners say: where there are too few groups, bits are taken for bits (``census``)."""
    if roster is None or len(roster.pods) > study.colluders:
        return f"This holds whatever {_devices(study.colluders)} may invent"
    return f"With {_groups_of(len(roster.pods))} a device with a changed program can make rare ones look common"


def _seen(study: Study, roster: Roster | None) -> tuple[str, ...]:
    d, shown = study.feature_count, shown_directions(study, roster)
    whole = ", and the whole of X'X and X'y" if d else ""
    if shown < d:
        whole = f", and X'y and X'X in {shown} of {d} directions"
    key = f" (key {study.server_key[:16]}...)" if study.server_key else ""
    return (
        f"the server{key}: these sums{whole}; no device's own part",
        f"the server and up to {_devices(study.colluders)} together: also what those devices know",
        "all devices: the census, and the model if the server gives it to them",
    )


def _groups(study: Study, roster: Roster, name: str) -> tuple[str, ...]:
    ours, others = roster.pod_of(name), sorted(roster.pod_of(name) - {name})
    said = f"{len(roster.owners)} owners in {_groups_of(len(roster.pods))}"
    if ours:
        said += f"; ours is {_names(sorted(ours))}: our rows are in no sum without theirs, now and later"
    lines = [said]
    if roster.helpers:
        lines.append(f"key-only participants, without rows: {_names(roster.helpers)}")
    if name:
        asked = f"at least {study.colluders + 1} of {_names(others)}" if others else "participants whom you know"
        lines.append(
            f"BEFORE YOU APPROVE telephone {asked}, at numbers that you had before, and read the kit's fingerprint to"
            " each other: nothing else shows that the keys of the roster are theirs"
        )
    return tuple(lines)


def _devices(many: int) -> str:
    return f"{many} device{'s' * (many != 1)}"


def _groups_of(many: int) -> str:
    return f"{many} disclosure group{'s' * (many != 1)}"


def _names(names: Sequence[str]) -> str:
    many = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {many} more" if many > 0 else "")


def absences(study: Study, roster: Roster) -> str:
    """Who may be absent when a study begins: an absent device takes its disclosure group out of all its sums.

    >>> from codedfl.data.columns import NumberColumn
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> roster = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(9)}, colluders=1)
    >>> absences(Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4), roster)
    'devices of any 1 of the 3 disclosure groups may be absent when the study begins'
    """
    least, groups = study.least_owners, sorted(roster.pods, key=len, reverse=True)
    at_worst, at_best = roster.without_one()
    if at_worst >= least:
        left = len(roster.owners)
        spare = sum((left := left - len(one)) >= least for one in groups)
        return f"devices of any {spare} of the {len(groups)} disclosure groups may be absent when the study begins"
    if at_best >= least:
        needed = [name for one in groups if len(roster.owners) - len(one) < least for name in one]
        return (
            f"none of {', '.join(sorted(needed))} may be absent when the study begins: {least} owners in whole"
            " disclosure groups are needed"
        )
    lowest = max(3, study.colluders + study.honest)
    ways = dict.fromkeys(left for left in (at_best, at_worst) if left >= lowest)
    mended = " or ".join(f"least_participants = {left}" for left in ways) or "more groups (codedfl roster add)"
    return (
        f"nobody may be absent when the study begins: without a group {at_best} of {len(roster.owners)} owners are"
        f" left, and {least} are needed; {mended} would change that"
    )


def _design(study: Study, rows: Snapshot) -> tuple[str, ...]:
    """Which columns single rows stand out in: shown, since nearly every honest table has some."""
    design, leverage = check_design(study, rows), largest_leverage(study, rows)
    few = sorted(design, key=lambda one: (0 < one.differs < study.smallest_cell, one.leverage), reverse=True)
    lines = [
        f"{one.name}: {one.differs} rows differ from the commonest value; one has {one.leverage:.0%} of the variance"
        for one in few[:_MOST_DESIGN]
        if one.differs < study.smallest_cell or one.leverage > _STANDS_OUT
    ]
    alone = ": some combination of columns is about one person of this table" if leverage > _TOLD_APART else ""
    lines += copied_columns(study, rows)
    return (*lines, f"of all combinations of columns, one row has up to {leverage:.0%} (leverage){alone}")


def _before(ledger: Ledger) -> tuple[str, ...]:
    """The newest first; what they add up to is a finding."""
    if not ledger.approvals:
        return ("nothing",)
    lines = []
    for one in ledger.approvals[: -_MOST_BEFORE - 1 : -1]:
        given = sum(c.digest == one.digest for c in ledger.contributions)
        lines.append(f"{one.name}, version {one.edition}, by {one.who} on {one.when[:10]}, {given} upload(s)")
    many = len(ledger.approvals) - _MOST_BEFORE
    return (*lines, *([f"and {many} more: codedfl site ledger shows them"] if many > 0 else []))


def _unprotected(study: Study, words: Words) -> tuple[str, ...]:
    return (
        "proved: only sums over whole groups can be read; checked, not proved: what is said here about few people",
        _noise(study.noise),
        f"the server and more than {_devices(study.colluders)} of our group together can compute our own sums",
        "what the server's operator does with sums and models: contracts rule that",
        *(f"{name}: {shows}" for name, (_, shows) in words.items()),
    )


def _noise(noise: Budget | None) -> str:
    if noise is None:
        return "no noise is added: what an exact sum shows of a person, the server can read"
    return f"noise is added by every machine: {noise.sentence()}"

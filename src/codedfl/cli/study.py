"""``codedfl study``: draft a study file, try it on a table, read it."""

from __future__ import annotations

from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, get_args

import click
import typer
from rich.text import Text

from codedfl.authoring.check import TableCheck, check_table
from codedfl.authoring.draft import PARTICIPANTS, Draft
from codedfl.authoring.drafted_model import LINEAR, task_of, with_room
from codedfl.authoring.from_sample import draft_of_table, pooled
from codedfl.authoring.from_table_one import described_quantiles, draft_from_table_one
from codedfl.authoring.study_text import SMALLEST_CELL, study_text
from codedfl.cli import options
from codedfl.cli.exit_codes import BAD_INPUT
from codedfl.cli.output_files import check_writable
from codedfl.cli.screen import Screen, table
from codedfl.cli.sections import show_sections
from codedfl.cli.study_rehearsal import say_left_out
from codedfl.contract.kit import study_and_roster
from codedfl.contract.roster import load_roster
from codedfl.contract.study import Study
from codedfl.contract.words import explain, printable
from codedfl.data.tables import RawTable, read_file, table_files
from codedfl.data.task import Task
from codedfl.errors import InvalidInput
from codedfl.files import write_text
from codedfl.statistics.statistic import words_of

Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Columns to learn from.", show_default="all but the target"),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Columns to leave out.")]
_TWO_CLASSES = 2
Participants = Annotated[int, typer.Option(min=3, help="Least number of devices.")]
TaskOption = Annotated[
    Task | None,
    typer.Option(click_type=click.Choice(list(get_args(Task))), help="What the target is for.", show_default="a guess"),
]


ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="KIND",
        help="linear, logistic, poisson, negative-binomial, gamma, gee, proportional-odds, ... as in a [[model]].",
        show_default="by the target",
    ),
]


def describe(
    sample: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A table like those that the devices have, or a folder of them.")
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict later.")],
    columns: Columns = None,
    drop: Drop = None,
    participants: Participants = PARTICIPANTS,
    task: TaskOption = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the study goes.")] = Path("describe.toml"),
) -> None:
    """Draft a first study that only describes: Table 1 over all devices, on wide public bins.

    It is approved and run as any study; codedfl study new --from then drafts the real one from its result.

    Example: `codedfl study describe table.csv --target days`
    """
    screen = Screen()
    _check_new(out)
    kept, dropped = _chosen(columns, drop)
    say_left_out(screen, sample)
    draft = draft_of_table(_sample(screen, sample), target, target, dropped, task, kept or None).describing()
    write_text(out, study_text(replace(draft, participants=participants)))
    _say_noticed(screen, draft)
    screen.say(f"wrote {out}: read it, have it approved and run as any study, then")
    screen.say("codedfl study new --from result.json drafts the real study from what it found")


def new(
    sample: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TABLE]",
            help="A table like those that the devices have, or a folder of them.",
            show_default="--from says it all",
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column to predict.", show_default="the formula's, or Table 1's")
    ] = "",
    formula: Annotated[
        str, typer.Option(metavar="TEXT", help="Such as 'days ~ age * C(ward) + log(cost)'; says which columns.")
    ] = "",
    columns: Columns = None,
    drop: Drop = None,
    participants: Participants = PARTICIPANTS,
    task: TaskOption = None,
    model: ModelOption = "",
    described: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="result.json of a study that described.")
    ] = None,
    crude: Annotated[
        bool, typer.Option("--crude", help="Also a model of each term alone: crude beside adjusted estimates.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the study goes.")] = Path("study.toml"),
) -> None:
    """Draft a study file from Table 1 or from a sample, with a comment on every choice.

    Read it before you hand it on. From one table ranges have room, since other devices have other values.

    Example: `codedfl study new table.csv --formula "days ~ age + C(ward)"`
    """
    screen = Screen()
    _check_new(out)
    kept, dropped = _chosen(columns, drop)
    if (sample is None) == (described is None):
        raise InvalidInput(f"either a TABLE or --from must be given, got {'neither' if sample is None else 'both'}")
    if formula and (kept or dropped or target):
        raise InvalidInput("--target, --columns and --drop must be left out with --formula, which says it all")
    if sample is not None and not formula and not target:
        raise InvalidInput("--target must be said, or --formula, got neither")
    label = target
    if formula:
        from codedfl.authoring.formula import kind_of_formula, parse_formula  # nobody else needs its parser

        label = parse_formula(formula).response.name
    result = None
    if described is not None:
        result = options.read_json(described, "--from must be a result.json that codedfl wrote")

    task = task or task_of(model) if model else task

    def kind(classes: int) -> str:
        if formula:
            return kind_of_formula(formula, classes, model)
        asked = model or ("logistic" if classes == _TWO_CLASSES else "")
        return "" if asked == LINEAR else asked

    def draft(table: RawTable | None, keep: tuple[str, ...] | None, beside: tuple[str, ...] = ()) -> str:
        if table is None:
            drafted = draft_from_table_one(result, label, out.stem, dropped, task, keep, kind)
        else:
            say_left_out(screen, sample)
            drafted = draft_of_table(table, label, label, dropped, task, keep, beside, kind)
            drafted = replace(drafted, participants=participants)
        _say_noticed(screen, drafted)
        if formula:  # whose model follows when its columns are made
            inference = not drafted.kind and drafted.target.levels is None
            drafted = replace(drafted, kind="", estimates=True, inference=inference)
        return study_text(drafted)

    source = None if sample is None else _sample(screen, sample)
    if formula:
        from codedfl.authoring.formula import draft_with_formula

        known = None if result is None else described_quantiles(result)
        text = draft_with_formula(source, formula, draft, known, model)
    else:
        text = with_room(draft(source, kept or None), 0 if source is None else len(source))
    if crude:
        from codedfl.authoring.crude import with_crude

        text = with_crude(text)
    write_text(out, text)
    if sample is None:
        screen.sentence(
            f"wrote {out}: its ranges hold the values of all devices; read every line before you hand it on"
        )
        return
    seen = "these tables say nothing of others'" if sample.is_dir() else "one table says nothing of the others'"
    screen.sentence(f"wrote {out}: ranges have room, but {seen}; codedfl study describe asks them")
    screen.sentence(f"read every line, change what is wrong, then try codedfl study check {out} {sample}")


def _say_noticed(screen: Screen, draft: Draft) -> None:
    for line in (
        *draft.noticed,
        *(f"{one.name}: {remark}" for one in (*draft.columns, draft.target) for remark in one.remarks),
    ):
        screen.sentence(f"noticed: {printable(line)}")
    for line in draft.said:
        screen.sentence(printable(line))
    for one in draft.columns:
        if one.rare:
            levels = f"{one.rare} level{'s' * (one.rare > 1)} of {printable(one.name)!r}"
            screen.sentence(f"{levels} with fewer than {SMALLEST_CELL} rows of the sample: counted as {one.other!r}")


def _check_new(out: Path) -> None:
    check_writable("--out", out)
    if out.exists():
        raise InvalidInput(f"--out must be a new file, got {str(out)!r}, which exists")


def _chosen(columns: list[str] | None, drop: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that are kept, and columns that are dropped: not both."""
    kept, dropped = (options.listed(",".join(one or ())) for one in (columns, drop))
    if kept and dropped:
        raise InvalidInput(f"--drop must be left out with --columns, which says it all, got {', '.join(dropped)!r}")
    return kept, dropped


def _sample(screen: Screen, path: Path) -> RawTable:
    """A table, or all tables of a folder together."""
    with screen.busy(f"reading {path.name}"):
        if not path.is_dir():
            return read_file(path)
        return pooled([read_file(one, empty=True) for one in table_files(path).values()], path.name)


def check(
    study: options.StudyOrKit,
    data: Annotated[
        Path, typer.Argument(metavar="TABLE", help="Your table, or a folder of tables; they stay on this machine.")
    ],
    json: options.Json = None,
) -> None:
    """Say what of a table would be clipped, rounded, missing or unknown.

    Nothing leaves this machine.

    Example: `codedfl study check study.toml my.csv`
    """
    screen, (loaded, _) = Screen(json), study_and_roster(study)
    say_left_out(screen, data)
    with screen.busy(f"reading {data.name}"):
        found = [_checked(loaded, path) for path in (table_files(data).values() if data.is_dir() else [data])]
    for place, one in enumerate(found):
        if place:
            screen.say()
        _show_check(screen, one)
    if len(found) > 1:
        usable = [one.usable for one in found]
        screen.say(f"{sum(usable)} of {len(usable)} tables can take part, with {_rows_of(found)} rows")
    tables = [{**asdict(one), "usable": one.usable} for one in found]
    screen.write_json({"command": "study check", "tables": tables, "usable": all(one.usable for one in found)})
    if not all(one.usable for one in found):
        raise typer.Exit(BAD_INPUT)


def _checked(study: Study, path: Path) -> TableCheck:
    """What one file is like; one that cannot be read is no reason not to look at the others."""
    try:
        found = check_table(study, read_file(path, empty=True))
    except InvalidInput as error:
        return TableCheck(path.name, 0, 0, (), 0, (str(error),))
    if study.formula and find_spec("formulaic") is not None:
        from codedfl.authoring.formula import formula_objection

        if wrong := formula_objection(study):
            return replace(found, objections=(*found.objections, wrong))
    return found


def _rows_of(found: list[TableCheck]) -> int:
    return sum(one.rows for one in found if one.usable)


def show(
    study: options.StudyOrKit,
    roster: Annotated[Path | None, typer.Option(metavar="FILE", help="Who takes part.")] = None,
    json: options.Json = None,
) -> None:
    """Say in plain words and numbers what leaves a machine, who sees what, and what is not protected.

    Example: `codedfl study show study.toml --roster roster.toml`
    """
    screen = Screen(json)
    loaded, of_kit = study_and_roster(study)
    sections = explain(loaded, of_kit if roster is None else load_roster(roster), words=words_of(loaded))
    screen.say(printable(loaded.name))
    show_sections(screen, sections)
    answers = [asdict(section) for section in sections]
    screen.write_json({"command": "study show", "digest": loaded.digest().hex(), "answers": answers})


def _show_check(screen: Screen, found: TableCheck) -> None:
    shown = table("column", "kind", "clipped", "rounded", "missing", "unknown", "in the table", last_wraps=True)
    shown.columns[0].no_wrap = False  # names may be long; counts are never cut
    for one in found.columns:
        counts = (one.n_clipped, one.n_rounded, one.n_missing, one.n_unknown)
        texts = (str(count) if count else "-" for count in counts)
        shown.add_row(Text(printable(one.name)), one.kind, *texts, Text(printable(one.seen)))
    if found.columns:
        screen.show(shown)
    for line in (*found.objections, *(one.objection for one in found.columns if one.objection)):
        screen.remark(f"cannot be used: {line}")
    for line in (*found.copies, *found.remarks):
        screen.item(printable(line))
    left_out = f" without missing values ({found.left_out} left out)" if found.left_out else ""
    pod = f" among at least {found.least_pod} owners (least_rows)" if found.least_pod else ""
    verdict = f"can take part{pod}" if found.usable else "cannot take part as it is"
    screen.say(f"{found.table}: {found.rows} row{'s' * (found.rows != 1)}{left_out}, {verdict}")

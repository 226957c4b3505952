"""``codedfl study refit``: further linear models, tests and contrasts of a sum that is there; no device is asked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from codedfl.analyses.analysis import Totals
from codedfl.analyses.driving import TOTAL_FILE, read_total
from codedfl.analyses.inference import Contrast, Inference
from codedfl.analyses.left_out import terms_left_out
from codedfl.analyses.linear import LinearTotal
from codedfl.analyses.study_analysis import refit
from codedfl.cli import options
from codedfl.cli.screen import Screen
from codedfl.cli.study_result import show_model
from codedfl.contract.study import GCV, SubModel
from codedfl.contract.toml_file import load_study
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput

_MINUS = " - "


def refit_study(
    study: options.StudyFile,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where a run or a rehearsal wrote its results.")],
    columns: Annotated[
        str, typer.Option(metavar="A,B", help="Columns that the model has.", show_default="all of the study")
    ] = "",
    regularisation: Annotated[
        str,
        typer.Option(
            metavar="LAMBDA", help="Ridge parameter, or gcv: by cross-validation.", show_default="the study's"
        ),
    ] = "",
    lasso: Annotated[bool, typer.Option("--lasso", help="The path of the lasso, or of the elastic net.")] = False,
    l1_ratio: Annotated[
        float | None, typer.Option(metavar="R", help="Below 1: elastic net instead of lasso.", show_default="1")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Test that all coefficients of these columns are zero. May be repeated."),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Difference of two coefficients, 'ward = a - ward = b'. May be repeated."),
    ] = None,
    vif: Annotated[bool, typer.Option("--vif", help="How much columns that depend on others cost.")] = False,
    level: Annotated[float, typer.Option(metavar="P", help="Level of the confidence intervals.")] = 0.95,
    json: options.Json = None,
) -> None:
    """Make another linear model of a study's sum: another penalty, fewer columns, tests, a lasso.

    No device is asked for anything: the sum holds every linear model of its columns.

    Example: `codedfl study refit study.toml results --columns age,ward`
    """
    screen, loaded = Screen(json), load_study(study)
    if not 0 < level < 1:
        raise InvalidInput(f"--level must be above 0 and below 1, such as 0.95, got {level:g}")
    if l1_ratio is not None and not lasso:
        raise InvalidInput(f"--l1-ratio must come with --lasso, got {l1_ratio:g} without")
    rule = "FOLDER must hold what codedfl server run or study rehearse wrote"
    kept = read_total(loaded, options.read_json(folder / TOTAL_FILE, rule))
    total, merged, clipped = kept.total, kept.merged, kept.clipped
    wanted = options.listed(columns) or loaded.table_columns.names
    number = isinstance(loaded.target, NumberTarget)
    weight = _weight(regularisation) if regularisation else loaded.regularisation
    asked = SubModel("refit", tuple(wanted), weight, inference=number)
    with screen.busy("fitting"):
        found = refit(loaded, total, merged, asked, level).unless_clipped(loaded, clipped)
    show_model(screen, found)
    gone = terms_left_out(loaded, merged, total, wanted)
    for term in gone:
        screen.say(term.line)
    outcome = {"command": "study refit", **found.to_dict(), "terms_left_out": [one.to_dict() for one in gone]}
    linear = Totals(loaded, (), merged, total).linear(wanted).without_empty()
    if found.inference is not None:
        tests = [found.inference.joint(_coefficients(linear, options.listed(one))) for one in test or ()]
        contrasts = {one: _contrast(found.inference, one) for one in contrast or ()}
        for line in map(str, tests):
            screen.say(line)
        for name, one in contrasts.items():
            interval = f"[{one.low:.4g}, {one.high:.4g}]"
            screen.say(f"{name}: {one.estimate:.4g}, std err {one.standard_error:.3g}, p = {one.p:.3g}, {interval}")
        outcome |= {"tests": [one._asdict() for one in tests]}
        outcome |= {"contrasts": {name: one._asdict() for name, one in contrasts.items()}}
    elif test or contrast:
        why = found.no_inference or f"{loaded.target.name} has classes"
        raise InvalidInput(f"--test and --contrast must have standard errors, got none: {why}")
    if vif:
        outcome["vif"] = linear.vif()
        screen.say("variance inflation")
        screen.facts([(name, f"{value:.4g}") for name, value in linear.vif().items()])
    if lasso:
        with screen.busy("the path of the lasso"):
            path = linear.lasso(1.0 if l1_ratio is None else l1_ratio)
        outcome["lasso"] = path.to_dict()
        screen.say()
        screen.say(path.summary())
    screen.write_json(outcome)


def _weight(text: str) -> float | str:
    try:
        found = GCV if text == GCV else float(text)
    except ValueError:
        found = math.nan
    if isinstance(found, float) and not 0 <= found < math.inf:
        raise InvalidInput(f"--regularisation must be {GCV}, or a number that is at least 0, got {text!r}")
    return found


def _coefficients(linear: LinearTotal, columns: tuple[str, ...]) -> list[str]:
    """Of columns of the table: the names of all their coefficients; names of coefficients stand for themselves."""
    of_column = {one.name: one.design_names for one in linear.study.columns}
    return [name for column in columns for name in of_column.get(column, (column,))]


def _contrast(found: Inference, text: str) -> Contrast:
    """Names may have a minus of their own: the first place to split where both sides are coefficients."""
    known = {*found.names, *(f"{column} = {level}" for column, level in found.references)}
    parts = text.split(_MINUS)
    for at in range(1, len(parts)):
        first, second = _MINUS.join(parts[:at]).strip(), _MINUS.join(parts[at:]).strip()
        if {first, second} <= known:
            return found.contrast({first: 1.0, second: -1.0})
    raise InvalidInput(f"--contrast must be 'A - B' of two of {', '.join(sorted(known))}, got {text!r}")

"""What a study found, for people: the score with its tables, the coefficients, and what was merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer
from rich.markup import escape
from rich.text import Text

from codedfl.analyses.analysis import Finding, NotFound
from codedfl.analyses.inference import Inference
from codedfl.analyses.nested import nested
from codedfl.analyses.scoring import ClassScore, NumberScore
from codedfl.analyses.study_analysis import CLIPPED, LinearFinding, StudyFindings, regularisation_of
from codedfl.cli.exit_codes import NO_MODEL
from codedfl.cli.screen import Screen, score_name, table
from codedfl.contract.roster import Roster
from codedfl.contract.study import GCV, Study
from codedfl.contract.words import printable
from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.report.study_files import cautions, merged_words, narrow
from codedfl.report.text import score as score_text

_MOST_NAMES = 4
_MOST_CLASSES = 12  # the largest matrix that fits a terminal


def show_findings(screen: Screen, study: Study, findings: StudyFindings, *more: tuple[str, str]) -> None:
    """All of it; ``more`` are facts that only the driver knows."""
    rows = (
        "not known: noise hides it"
        if findings.rows is None
        else f"{findings.rows} rows{' to train on' * (findings.model is not None)}"
    )
    facts = [("score", f"none: {findings.no_score}")] if findings.model is not None else []
    facts = facts if findings.score is None else score_facts(findings.score)
    if study.regularisation == GCV and (weight := regularisation_of(findings.model)) is not None:
        facts.append(("regularisation", f"{weight:.4g}, by generalised cross-validation"))
    screen.facts([("study", f"{study.name}, {study.digest().hex()[:16]}..."), ("rows", rows), *facts, *more])
    for line in merged_words(study, findings):
        screen.say(f"  {line}")
    if findings.model is not None:
        show_tables(screen, findings.score, findings.model.recipe)
    show_inference(screen, findings.inference, findings.no_inference)
    if findings.clipped.values and findings.model is not None:
        screen.sentence(f"{CLIPPED}: {findings.clipped.words(study.smallest_cell)}")
    for model in findings.models:
        show_model(screen, model)
    for place, one in enumerate(nested(findings.models)):
        if not place:
            screen.say()
        for line in narrow([one.line()]):
            screen.say(line)
    for line in cautions(study):
        screen.remark(f"warning: {line}")


def leave_without_models(screen: Screen, findings: StudyFindings) -> None:
    """End with a code of its own where a study asks for further models and none could be made; all else is written."""
    missing = [one.name for one in findings.models if isinstance(one, NotFound | LinearFinding) and one.none]
    if missing and len(missing) == len(findings.models):
        screen.remark(f"no model: {printable(', '.join(missing))} could not be made, for the reason above")
        raise typer.Exit(NO_MODEL)


def devices_fact(roster: Roster, owners: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Whose rows are in all totals, of which ``owners`` has the names."""
    here = set(roster.owners).intersection(*owners.values())
    pods = sum(pod <= here for pod in roster.pods)
    gone = sorted(set(roster.owners) - here)
    more = f" and {len(gone) - _MOST_NAMES} more" if gone[_MOST_NAMES:] else ""
    without = f", without {', '.join(gone[:_MOST_NAMES])}{more}" if gone else ""
    return "devices", f"{len(here)} of {len(roster.owners)} in {pods} disclosure group{'s' * (pods != 1)}{without}"


def show_model(screen: Screen, model: Finding) -> None:
    """A further model of the study."""
    screen.say()
    screen.say(f"model {model.name}")
    for line in narrow(model.lines()):
        screen.say(line)


def score_facts(found: ClassScore | NumberScore) -> list[tuple[str, str]]:
    """A score for people; without held-out rows it is not known."""
    name = score_name("regression" if isinstance(found, NumberScore) else "classification")
    if not found.rows:
        return [(name, "not known: no rows were held out")]
    if isinstance(found, NumberScore):
        error = ("error", f"{found.root_mean_square_error:.4g} (root of the mean square)")
        return [(name, f"{score_text(found.r_squared, name)} on {found.rows} held-out rows"), error]
    facts = [(name, f"{found.shown_accuracy()} on {found.rows} held-out rows")]
    return facts if found.auc is None else [*facts, ("ranking", found.shown_auc())]


def show_tables(screen: Screen, found: ClassScore | NumberScore | None, recipe: Recipe) -> None:
    """Show for classes which were taken for which, and for two of them how often the score of the second was right."""
    if not isinstance(found, ClassScore) or not found.rows:
        return
    assert isinstance(recipe.labels, ClassLabels)
    classes = [str(one) for one in recipe.labels.classes]
    if found.withheld:
        screen.sentence(found.withheld)
    confusion = found.shown_confusion()
    if confusion is not None and len(classes) <= _MOST_CLASSES:
        taken = table("true class", *(f"as {escape(one)}" for one in classes))
        for name, counts in zip(classes, confusion, strict=True):
            taken.add_row(Text(name), *counts)
        screen.say()
        screen.show(taken)
    calibration = found.shown_calibration()
    if calibration is not None:
        second = escape(classes[1])
        shares = table(f"score of {second}", "rows", f"of them {second}")
        for texts in calibration:
            shares.add_row(*texts)
        screen.say()
        screen.show(shares)


def show_inference(screen: Screen, found: Inference | None, why_none: str) -> None:
    """The table of coefficients, or why there is none; nothing where nobody asked for it."""
    if found is not None:
        screen.say()
        screen.say(found.summary())
    elif why_none:
        screen.remark(f"warning: no inference: {why_none}")

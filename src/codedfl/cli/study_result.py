"""What a study found, for people: the score with its tables, and the coefficients."""

from __future__ import annotations

from rich.markup import escape
from rich.text import Text

from codedfl.cli.screen import Screen, score_name, table
from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.data.score_sums import ClassScore, NumberScore
from codedfl.report.rows import score as score_text
from codedfl.run.inference import Inference

_MOST_CLASSES = 12  # of a matrix that fits a terminal


def score_facts(found: ClassScore | NumberScore) -> list[tuple[str, str]]:
    """A score for people; without held-out rows it is not known."""
    name = score_name("regression" if isinstance(found, NumberScore) else "classification")
    if not found.rows:
        return [(name, "not known: no rows were held out")]
    if isinstance(found, NumberScore):
        error = ("error", f"{found.mean_absolute_error:.4g} on average")
        return [(name, f"{score_text(found.r_squared, name)} on {found.rows} held-out rows"), error]
    facts = [(name, f"{score_text(found.accuracy, name)} on {found.rows} held-out rows")]
    return facts if found.auc is None else [*facts, ("ranking", f"area under the ROC curve {found.auc:.4f}")]


def show_tables(screen: Screen, found: ClassScore | NumberScore | None, recipe: Recipe) -> None:
    """Of classes: which were taken for which, and of two how often the score of the second one was right."""
    if not isinstance(found, ClassScore) or not found.rows:
        return
    assert isinstance(recipe.labels, ClassLabels)
    classes = [str(one) for one in recipe.labels.classes]
    if len(classes) <= _MOST_CLASSES:
        taken = table("true class", *(f"as {escape(one)}" for one in classes))
        for name, counts in zip(classes, found.confusion.tolist(), strict=True):
            taken.add_row(Text(name), *map(str, counts))
        screen.say()
        screen.show(taken)
    if found.calibration is not None:
        second = escape(classes[1])
        shares = table(f"score of {second}", "rows", f"of them {second}")
        for tenth, (rows, share) in enumerate(found.calibration):
            part = "-" if share is None else f"{100 * share:.0f} %"
            shares.add_row(f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}", str(rows), part)
        screen.say()
        screen.show(shares)


def show_inference(screen: Screen, found: Inference | None, why_none: str) -> None:
    """The table of coefficients, or why there is none; nothing where nobody asked for it."""
    if found is not None:
        screen.say()
        screen.say(found.summary())
    elif why_none:
        screen.remark(f"warning: no inference: {why_none}")

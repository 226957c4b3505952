"""``codedfl study heterogeneity``: whether results of other disclosure groups differ by more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from codedfl.analyses.heterogeneity import heterogeneity
from codedfl.cli import options
from codedfl.cli.screen import Screen
from codedfl.errors import InvalidInput
from codedfl.report.study_files import RESULT_FILE, tables_of

_RULE = "FOLDER must hold what codedfl server run or study rehearse wrote"


def study_heterogeneity(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Where serve wrote results of other disclosure groups.")
    ],
    json: options.Json = None,
) -> None:
    """Compare the coefficients of two results or more: Cochran's Q, I^2, tau^2 and pooled estimates.

    The results are of one study on other disclosure groups; no device is asked. Of single sites there are none.

    Example: `codedfl study heterogeneity results-north results-south`
    """
    if len(folders) < 2:
        raise InvalidInput(f"FOLDER must be said twice or more, got {len(folders)}")
    screen, results = Screen(json), [_coefficients(one) for one in folders]
    common = [key for key in results[0] if all(key in other for other in results[1:])]
    if not common:
        raise InvalidInput("FOLDER must hold results with coefficients in common that have standard errors, got none")
    outcome: list[dict[str, Any]] = []
    for model, name in common:
        pairs = [one[model, name] for one in results]
        found = heterogeneity(*zip(*pairs, strict=True))
        estimate, error = found.random
        screen.say(
            f"{model}, {name}: Q {found.q:.4g} on {found.freedom}, p {found.p:.3g}, I^2 {100 * found.i_squared:.0f} %,"
            f" tau^2 {found.tau_squared:.4g}; together {estimate:.4g} (std err {error:.2g})"
        )
        outcome.append({"model": model, "name": name, "estimates": pairs, **found.to_dict()})
    screen.write_json({"command": "study heterogeneity", "coefficients": outcome})


def _coefficients(folder: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Estimates with standard errors by model and name."""
    result: Any = options.read_json(folder / RESULT_FILE, _RULE)
    try:
        return {
            (model, one["name"]): (float(one["coefficient"]), float(one["standard_error"]))
            for model, found in tables_of(result)
            for one in found["coefficients"]
            if one.get("standard_error")
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidInput(f"{_RULE}, got {str(folder)!r}") from None

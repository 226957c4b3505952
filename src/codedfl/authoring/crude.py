"""A model of each term alone beside the one of all terms, for a table of crude and adjusted estimates."""

from __future__ import annotations

import re
import tomllib

from codedfl.authoring.drafted_model import LINEAR, model_text
from codedfl.contract.crude import terms_of
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput


def with_crude(text: str) -> str:
    """The text of a study with a ``[[model]]`` for each term of its last model, or of its own linear one.

    A term is a column with all that is made of it alone; what is made of several has an adjusted estimate only.

    Examples
    --------
    See ``codedfl study new --crude``, which ends with it.
    """
    study = parse_study(text, "the drafted study")
    if study.models:
        said = tomllib.loads(text)["model"][-1]
        columns = study.models[-1].columns
    else:
        if not isinstance(study.target, NumberTarget):
            raise InvalidInput("--crude must have a model with coefficients, got classes: say one with --model")
        text = re.sub(r"(?m)^inference = false", "inference = true", text)
        said = {"kind": LINEAR, "inference": True}
        columns = tuple(one.name for one in study.columns if one.width)
    terms = terms_of(study, columns)
    if len(terms) < 2:
        raise InvalidInput(f"--crude must have a model of at least two terms, got {', '.join(terms) or 'none'}")
    lines = ["", "# Crude estimates: each term alone, in one table with the adjusted ones."]
    for name, alone in terms.items():
        lines += [*model_text({**said, "name": f"{name} alone", "columns": list(alone)}), ""]
    return text.rstrip("\n") + "\n" + "\n".join(lines)

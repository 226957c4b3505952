"""The methods paragraph and the answers of a study, in sentences that follow from result.json."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from codedfl.report.effects import effects_of, p_text
from codedfl.report.result_parts import models_of
from codedfl.report.result_tables import count_text
from codedfl.typing import Unchecked

_MOST_EFFECTS = 8


def methods_text(result: Unchecked) -> str:
    """Paragraphs for a paper: data, plan, records, models, protection."""
    return "\n\n".join(filter(None, (" ".join(one(result)) for one in (_data, _models, _sums))))


def _sites(result: Unchecked) -> list[str]:
    return sorted({name for who in result["owners"].values() for name in who})


def _many(count: int, thing: str) -> str:
    """A count with its word.

    >>> _many(1, "site"), _many(6, "site")
    ('1 site', '6 sites')
    """
    return f"{count} {thing}{'s' * (count != 1)}"


def _data(result: Unchecked) -> Iterator[str]:
    rows, sites = (result.get("clipped") or {}).get("rows") or result["rows"], len(_sites(result))
    n = "" if rows is None else f" (n = {count_text(rows)} rows)"
    of = f"Data of {_many(sites, 'site')}{n}" if sites else f"Data of all sites that took part{n}"
    plan = f"the analysis plan (codedfl study file, version {result['edition']}, SHA-256 {result['digest']})"
    if result["rehearsal"]:
        yield f"{of} were analysed in a rehearsal on one machine: the rows of all sites were there."
        yield f"It followed {plan}."
    else:
        yield f"{of} were analysed without leaving the sites."
        yield f"{plan[0].upper()}{plan[1:]} was approved at each site before any data were used."
    if result["without"]:
        missing = _many(len(result["without"]), "invited site")
        yield f"The rows of {missing} are not included: {', '.join(result['without'])}."
    if result["left_out"]:
        left = result["left_out"]
        yield f"{count_text(left).capitalize()} rows with missing values were left out."
    if result["steps"]:
        units = _units(result)
        steps = ", ".join(_with_unit(name, step, units) for name, step in result["steps"].items())
        yield f"Numbers were recorded in steps of {steps}."
    clipped = result.get("clipped") or {}
    if clipped.get("values"):
        values = ", ".join(f"{name} {count}" for name, count in clipped["values"].items())
        yield f"Values beyond the ranges of the plan were clipped ({values} of {count_text(clipped['rows'])} rows)."
    elif clipped.get("rows"):
        yield "No value lay beyond the ranges of the plan."
    if result["smallest_cell"] > 1:
        yield (
            f"Levels of which it could not be shown that {result['smallest_cell']} people over all sites had them were"
            " joined with others, the same at every site."
        )
    if result.get("filled"):
        units = _units(result)
        filled = ", ".join(_with_unit(name, value, units) for name, value in result["filled"].items())
        yield (
            f"Missing values of these columns were set to a value of the plan ({filled}), of a number with an indicator"
            " where enough people lacked it."
        )
    if result["held_out"]:
        yield f"{100 * result['held_out']:g} % of rows, chosen at random, were held out to score predictions."


def _units(result: Unchecked) -> Collection[str]:
    return {one["unit"] for one in (result.get("labels") or {}).values()}


def _with_unit(name: str, value: float | str, units: Collection[str]) -> str:
    """A unit stands behind its number.

    >>> _with_unit("age, years", 65.0, {"years"}), _with_unit("ward", "unknown", {"years"})
    ('age 65 years', 'ward unknown')
    """
    label, _, unit = name.rpartition(", ")
    said = value if isinstance(value, str) else f"{value:g}"
    return f"{label} {said} {unit}" if unit in units and label else f"{name} {said}"


def _models(result: Unchecked) -> Iterator[str]:
    said = list[str]()
    for model in models_of(result):
        found = model.get("inference") or model
        method = found.get("method")
        if not method:
            continue
        text = str(method)
        if found.get("references"):
            text += f" Reference levels: {'; '.join(f'{one} = {level}' for one, level in found['references'].items())}."
        if found.get("ratio"):
            text += f" Estimates are {_plural(found['ratio'])} with {100 * found['level']:g} % intervals."
        if text not in said:
            said.append(text)
    yield from said
    # Where only further models are reported, their predictions are, and none of the study's own; of a time it has none.
    of_times = any(one.get("baseline") or one.get("curves") for one in result["models"])
    own = not result.get("inference") and not of_times and (result.get("score") is not None or not said)
    if (weight := result.get("regularisation")) is not None and own:
        yield f"Predictions of {result['target']} are those of a ridge regression with a penalty of {weight:.4g}."


def _plural(ratio: str) -> str:
    """More of them.

    >>> _plural("odds ratio"), _plural("ratio of means")
    ('odds ratios', 'ratios of means')
    """
    return ratio.replace("ratio", "ratios", 1)


def _sums(result: Unchecked) -> Iterator[str]:
    helped = (
        f", also together with {_many(result['colluders'], 'site')} that would help it" if result["colluders"] else ""
    )
    yield (
        f"Sums over sites were computed with codedfl {result['codedfl']} by secure summation: every site adds one-time"
        " pads to its numbers, and the pads are taken out of sums over whole disclosure groups only, each of at least"
        f" {result['least_group']} sites. The coordinating server learns these sums and nothing else of a single"
        f" site{helped}. Estimates are those of the pooled rows as recorded."
    )
    if result["noise"]:
        yield f"Noise was added to the sums for differential privacy of single rows ({result['noise']})."


# -- answers


def answers(result: Unchecked) -> list[str]:
    """A sentence or more for each model: what a reader wants to know first."""
    return [one for model in models_of(result) for one in _answers(model, result)]


def _answers(model: Unchecked, result: Unchecked) -> Iterator[str]:
    found, name = model.get("inference") or model, model["name"]
    before = f"{name}: " if name else ""
    if found.get("coefficients"):
        yield from _effects(before, found, result)
    if model.get("curves"):
        parts = []
        for one in model["curves"]:
            time = one["median"]["time"]
            parts.append(f"{one['group']} {'not reached' if time is None else f'{time:g}'}")
        p = p_text(model["log_rank"]["p"])
        yield f"{before}median of {result['target']}: {', '.join(parts)}; log-rank p {p if '<' in p else f'= {p}'}."
    for why in ("no_model", "no_inference", "why_none"):
        if model.get(why):
            yield f"{before}none, {model[why]}."


def _effects(before: str, found: Unchecked, result: Unchecked) -> Iterator[str]:
    fit = found.get("fit") or found
    target = fit.get("target") or result["target"]
    of = f"{target} = {fit['modelled']}" if fit.get("modelled") else target
    what = found.get("ratio") or "difference"
    effects = [one for one in effects_of(found) if not one.is_reference and one.low is not None]
    parts = []
    for one in effects[:_MOST_EFFECTS]:
        against = f" against {found['references'][one.column]}" if one.level else ""
        p = p_text(one.p)
        parts.append(f"{one.label}{against} {one.text}, p {p if '<' in p else f'= {p}'}")
    if parts:
        more = f"; {len(effects) - _MOST_EFFECTS} more in the table" if len(effects) > _MOST_EFFECTS else ""
        over = "over" if what.startswith("hazard") else "of"
        level = f"{100 * found['level']:g} %"
        yield f"{before}{what} {over} {of} per unit, with {level} interval: {'; '.join(parts)}{more}."

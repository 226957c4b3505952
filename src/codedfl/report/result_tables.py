"""Tables of a paper, made of result.json alone: Table 1, effects, survival, tests, and rows left out at each step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from codedfl.report.effects import NOTHING, Effect, effects_of, estimate_text, p_text
from codedfl.report.result_parts import models_of, named, slugs
from codedfl.report.tables import HEADING, INNER, Table, TableRow
from codedfl.typing import Unchecked

FLOW, TABLE_ONE = "rows", "table 1"
_FEW = "few"
_NOT_REACHED = "not reached"


def all_tables(result: Unchecked) -> list[Table]:
    """Every table of a result, in its order; the last says how many rows were left out at each step."""
    found = [one for model in models_of(result) for one in _of_model(model, result)]
    beside = {one for names in (result.get("crude") or {}).values() for one in names}
    tested = [one for one in result.get("nested") or () if one["smaller"] not in beside]
    between = [nested_table(tested)] if tested else []
    found = [*sorted(found, key=lambda one: one.name != TABLE_ONE), *between, flow(result)]
    return [replace(one, name=name) for name, one in zip(slugs(found), found, strict=True)]


def _of_model(model: Unchecked, result: Unchecked) -> Iterator[Table]:
    found, name = model.get("inference") or model, model["name"]
    if found.get("coefficients"):
        yield effect_table(name, str(model.get("kind") or ""), found, result)
    if "left_out" in model and "columns" in model and name:
        yield table_one(model)
    if model.get("curves"):
        yield _survival(model)
    if model.get("proportional"):
        rows = (_checked(one["column"], one["chi_squared"], one["freedom"], one["p"]) for one in model["proportional"])
        title = named(name, "check of proportional hazards")
        note = "A small p says that a hazard ratio changes with time."
        yield Table(f"proportional {name}", title, ("", "chi²", "df", "p"), tuple(rows), (note,))
    if model.get("table") is not None:
        yield _plain(model)
    if (model.get("score") or {}).get("confusion"):
        yield _confusion(name, model["score"], result["classes"])


def nested_table(found: Sequence[Unchecked]) -> Table:
    """What a larger model says beside a smaller one."""
    rows = tuple(
        TableRow(
            (
                f"{one['larger']} beside {one['smaller']}",
                f"{'F' if one['freedom'] else 'chi²'} {one['statistic']:.2f}",
                f"{one['among']}{', {}'.format(one['freedom']) if one['freedom'] else ''}",
                p_text(one["p"]),
            )
        )
        for one in found
    )
    note = "F of linear models, else twice the difference of the log-likelihoods."
    return Table("nested models", "Nested models", ("", "Test", "df", "p"), rows, (note,))


def _checked(name: str, statistic: float, freedom: float, p: float) -> TableRow:
    return TableRow((name, f"{statistic:.2f}", f"{freedom:g}", p_text(p)))


# -- rows at each step


def flow(result: Unchecked) -> Table:
    """From the rows of all sites to those of each model."""
    rows, kept = result["rows"], (result.get("clipped") or {}).get("rows")
    lines = []
    if rows is None:
        lines.append(TableRow(("rows that the model was trained on", "hidden by noise")))
    else:
        left, held_out = result["left_out"], kept - rows if kept else 0
        whole = kept + left if isinstance(left, int) and kept else None
        lines.append(
            TableRow(("rows of the sites that took part", count_text(whole) if whole else "not given exactly"))
        )
        lines.append(TableRow(("left out for missing values, or without a target", count_text(left)), INNER))
        if held_out:
            lines.append(TableRow(("held out for scores", count_text(held_out)), INNER))
        lines.append(TableRow(("rows that models were fitted to", count_text(rows))))
    for model in models_of(result):
        fit = {**model, **((model.get("inference") or {}).get("fit") or {})}
        if model["name"] and rows is not None and isinstance(fit.get("rows"), int) and fit["rows"] != rows:
            lines.append(TableRow((f"of them in {model['name']}", count_text(fit["rows"])), INNER))
        if fit.get("lost"):
            lines.append(TableRow((f"events never at risk in {model['name']}", count_text(fit["lost"])), INNER))
    notes = []
    if result["without"]:
        notes.append(f"Without the rows of {', '.join(result['without'])}.")
    return Table(FLOW, "Rows left out at each step", ("", "n"), tuple(lines), tuple(notes))


def count_text(value: object) -> str:
    """A count with thousands set apart, or the word that stands for a small one.

    >>> count_text(12345), count_text("few")
    ('12,345', 'few')
    """
    return f"{value:,}" if isinstance(value, int) else str(value)


# -- Table 1


def table_one(model: Unchecked) -> Table:
    """Counts with per cent, means with SD, medians with quartiles."""
    whole, rows = model["rows"], []
    if model.get("arms"):
        return _by_arm(model)
    for one in model["columns"]:
        if one["kind"] == "number":
            quartiles = [one["quantiles"][share] for share in ("0.5", "0.25", "0.75")]
            rows.append(TableRow((one["name"],), HEADING))
            rows.append(TableRow(("mean (SD)", _pair(one["mean"], one["deviation"])), INNER))
            rows.append(TableRow(("median [IQR]", _median(quartiles)), INNER))
            if one["missing"]:
                rows.append(TableRow(("missing, n (%)", share_text(one["missing"], whole)), INNER))
        else:
            rows.append(TableRow((f"{one['name']}, n (%)",), HEADING))
            rows += [TableRow((level, share_text(count, whole)), INNER) for level, count in one["counts"].items()]
    notes = ("Counts of small cells are given as few; means and SD are rounded.",)
    return Table(
        TABLE_ONE, named(model["name"], "characteristics"), ("", f"All, n = {count_text(whole)}"), tuple(rows), notes
    )


def _by_arm(model: Unchecked) -> Table:
    """All, each arm, and the largest standardised difference of two."""
    parts = [{"level": "All", "rows": model["rows"], "columns": model["columns"]}, *model["arms"]]
    columns = [{one["name"]: one for one in part["columns"]} for part in parts]
    rows = []
    for name, first in columns[1].items():
        apart = model["differences"].get(name)
        far = (NOTHING if apart is None else f"{apart:.2f}", p_text(model["tests"].get(name)) or NOTHING)
        there = [(of[name], part["rows"]) for of, part in zip(columns, parts, strict=True)]
        if first["kind"] == "number":
            rows.append(TableRow((name, *[""] * len(parts), *far), HEADING))
            means = (_pair(one["mean"], one["deviation"]) for one, _ in there)
            rows.append(TableRow(("mean (SD)", *means, "", ""), INNER))
            medians = (_median([one["quantiles"][share] for share in ("0.5", "0.25", "0.75")]) for one, _ in there)
            rows.append(TableRow(("median [IQR]", *medians, "", ""), INNER))
            continue
        rows.append(TableRow((f"{name}, n (%)", *[""] * len(parts), *far), HEADING))
        for level in first["counts"]:
            counts = [one["counts"].get(level) for one, _ in there]
            counts[0] = counts[0] if None in counts[1:] else sum(counts[1:])  # arms have the levels that are left
            shares = (share_text(one, whole) for one, (_, whole) in zip(counts, there, strict=True))
            rows.append(TableRow((level, *shares, "", ""), INNER))
    notes = (
        "Counts of small cells are given as few; means and SD are rounded.",
        "SMD: the largest standardised difference of two arms.",
        "p: analysis of variance of means, Pearson's chi² of counts.",
    )
    head = ("", *(f"{part['level']}, n = {count_text(part['rows'])}" for part in parts), "SMD", "p")
    return Table(TABLE_ONE, named(model["name"], "characteristics"), head, tuple(rows), notes)


def share_text(count: object, whole: int) -> str:
    """A count with its share.

    >>> share_text(470, 1880), share_text(None, 1880)
    ('470 (25.0 %)', 'few')
    """
    return f"{count_text(count)} ({100 * count / whole:.1f} %)" if isinstance(count, int) and whole else _FEW


def _pair(mean: float | None, deviation: float | None) -> str:
    if mean is None or deviation is None:
        return NOTHING
    digits = max(0, min(6, 2 - math.floor(math.log10(deviation)))) if deviation > 0 else 2
    return f"{mean:,.{digits}f} ({deviation:,.{digits}f})"


def _median(quartiles: Sequence[float | None]) -> str:
    middle, low, high = (NOTHING if one is None else _short(one) for one in quartiles)
    return f"{middle} [{low} to {high}]"


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


# -- models


def effect_table(name: str, kind: str, found: Unchecked, result: Unchecked) -> Table:
    """Ratios, or coefficients, with intervals; levels below their category."""
    fit = found.get("fit") or found
    level = f"{100 * found.get('level', 0.95):g} %"
    what = str(found.get("ratio") or "") or "coefficient"
    measure = f"{what[0].upper()}{what[1:]}"
    effects = effects_of(found)
    rows, current = [], ""
    if not effects:  # a penalty leaves no errors
        rows = [TableRow((one["name"], f"{one['coefficient']:.4g}", "")) for one in found["coefficients"]]
    crude = _crude(name, result)
    for one in effects:
        if one.level and one.column != current:
            rows.append(TableRow((one.column,), HEADING))
        current = one.column if one.level else ""
        cells: tuple[str, ...] = (one.level or one.label, one.text, p_text(one.p))
        if crude is not None:
            alone = crude.get(one.name)
            beside = (NOTHING, "") if alone is None else (alone.text, p_text(alone.p))
            cells = (cells[0], *beside, *cells[1:])
        rows.append(TableRow(cells, INNER if one.level else ""))
    title = named(name, f"{kind} model" if fit.get("kind") else fit.get("model") or kind)
    modelled = f"{fit['target']} = {fit['modelled']}" if fit.get("modelled") else fit.get("target", result["target"])
    head: tuple[str, ...] = ("", f"{measure} ({level} interval)" if effects else "Coefficient", "p" if effects else "")
    notes = tuple(_about(found, fit))
    if crude is not None and effects:
        level = f"{what} ({level} interval)"
        head = ("", f"Crude {level}", "p", f"Adjusted {level}", "p")
        notes = (*notes, "Crude: of a model of the term alone; adjusted: of all terms together.")
    return Table(f"effects {name}", f"{title}: {modelled}", head, tuple(rows), notes)


def _crude(name: str, result: Unchecked) -> dict[str, Effect] | None:
    """Effects by name of the models that have one term each of this one; None where there are none."""
    names = (result.get("crude") or {}).get(name)
    found = [one.get("inference") or one for one in result["models"] if one["name"] in (names or ())]
    return names and {one.name: one for part in found if part.get("coefficients") for one in effects_of(part)}


_FACTS: Mapping[str, str] = {
    "rows": "n = {:,}",
    "events": "{:,} events",
    "clusters": "{:,} clusters",
    "r_squared": "R² {:.3f}",
    "residual_deviation": "residual SD {:.4g}",
    "dispersion": "dispersion {:.3g}",
    "alpha": "alpha {:.3g}",
    "log_likelihood": "log-likelihood {:.1f}",
    "aic": "AIC {:.1f}",
    "constants": "{} site effects",
    "difference": "difference {:.4g}",
    "intraclass": "intraclass correlation {:.3f}",
}


def _about(found: Unchecked, fit: Unchecked) -> Iterator[str]:
    """What stands below: the model as a whole, its constant."""
    known = {key: fit.get(key) for key in _FACTS}
    facts = [
        text.format(known[key])
        for key, text in _FACTS.items()
        if isinstance(known[key], int | float) and (key, known[key]) != ("constants", 1)
    ]
    constant = next((one for one in found["coefficients"] if one["name"] == "constant" and "low" in one), None)
    if constant is not None:
        ends = (constant["coefficient"], constant["low"], constant["high"])
        facts.append(f"{'constant, as coefficient' if found.get('ratio') else 'constant'} {estimate_text(*ends)}")
    if facts:
        yield f"{'; '.join(facts)}."


def _survival(model: Unchecked) -> Table:
    """Median times with intervals."""
    rows = []
    for one in model["curves"]:
        median, low, high = (one["median"][key] for key in ("time", "low", "high"))
        ends = " to ".join(_NOT_REACHED if end is None else f"{end:g}" for end in (low, high))
        events = sum(row["events"] for row in one["curve"])
        shown = _NOT_REACHED if median is None else f"{median:g}"
        shown = shown if median is low is high is None else f"{shown} ({ends})"
        last = one["curve"][-1]
        share = estimate_text(last["share"], last["low"], last["high"])
        rows.append(
            TableRow(
                (
                    str(one["group"]),
                    count_text(one["curve"][0]["at_risk"]),
                    count_text(events),
                    count_text(one["curve"][0]["at_risk"] - events),
                    shown,
                    share,
                )
            )
        )
    test, end = model["log_rank"], model["curves"][0]["curve"][-1]["time"]
    p = p_text(test["p"])
    notes = [f"Log-rank test: chi² {test['chi_squared']:.2f} on {test['freedom']} df, p {p if '<' in p else f'= {p}'}."]
    if model["merged"]:
        times = ", ".join(f"{one:g}" for one in model["merged"])
        notes.append(f"Times merged into the next one, since too few rows end there: {times}.")
    head = ("", "n", "Events", "Censored", "Median (95 % interval)", f"Share at {end:g} (95 % interval)")
    return Table(f"survival {model['name']}", named(model["name"], "survival"), head, tuple(rows), tuple(notes))


def _plain(model: Unchecked) -> Table:
    """Rows and facts of what a total alone says: correlations, components, tests."""
    facts = {key: value for key, value in model.items() if key not in ("name", "kind", "table")}
    said = "; ".join(
        f"{key.replace('_', ' ')} {value:.4g}" for key, value in facts.items() if isinstance(value, int | float)
    )
    columns = [key for key in (model["table"] or [{}])[0] if key != "name"]
    rows = tuple(TableRow((one["name"], *(f"{one[key]:.4g}" for key in columns))) for one in model["table"])
    if not rows:
        rows = tuple(
            TableRow((key.replace("_", " "), f"{value:.4g}"))
            for key, value in facts.items()
            if not isinstance(value, str)
        )
        columns, said = ["value"], ""
    notes = (f"{said}.",) if said else ()
    return Table(f"{model['kind']} {model['name']}", named(model["name"], model["kind"]), ("", *columns), rows, notes)


def _confusion(name: str, score: Unchecked, classes: Sequence[object]) -> Table:
    rows = tuple(
        TableRow((str(one), *map(str, counts))) for one, counts in zip(classes, score["confusion"], strict=True)
    )
    kept = "held-out rows" if score["held_out"] else "the rows of the fit, which flatters"
    title = named(name, f"predictions on {kept}")
    head = ("true class", *(f"as {one}" for one in classes))
    return Table(f"predictions {name}", title, head, rows)

"""The page of a study's results, made of result.json alone: tables, forest plots, curves, and what was revealed.

It needs nothing else: its own style, pictures in it, no script and no request. It is for people who read a paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from codedfl.report.drawings import Chart, interval
from codedfl.typing import Unchecked

_ALONE = ("model", "target", "columns")  # facts of a fit that stand elsewhere
_NAMES = {
    "modelled": "class modelled",
    "constants": "site effects",  # one constant per site; a model with a single one does not say so
    "r_squared": "R²",
    "adjusted_r_squared": "adjusted R²",
    "freedom": "degrees of freedom",
    "f": "F",
    "f_p": "p of F",
    "aic": "AIC",
    "bic": "BIC",
}


@cache
def _template() -> Template:
    return Template(files("codedfl.report").joinpath("study_page.html").read_text(encoding="utf-8"))


def study_page(result: Unchecked) -> str:
    """The page of what ``study_files.result_json`` made."""
    models = [{**result, "name": ""}, *result["models"]]
    gone = result["terms_left_out"]
    owners = sorted({name for who in result["owners"].values() for name in who})
    head = [
        f"<h1>{escape(result['study'])}</h1>",
        f'<p class="soft">{escape(result["purpose"])}</p>' if result["purpose"] else "",
        _facts(
            [
                ("predicted", result["target"]),
                ("class modelled", result["class_modelled"]),
                ("rows to train on", "hidden by noise" if result["rows"] is None else result["rows"]),
                *_score_facts(result.get("score"), result["no_score"]),
                ("whose rows", f"{len(owners)}: {', '.join(owners)}" if owners else ""),
                ("without the rows of", ", ".join(result["without"])),
                ("formula", result["formula"]),
            ]
        ),
    ]
    head += [f"<p><strong>{escape(one)}</strong></p>" for one in result["cautions"]]
    head += [f"<p><strong>left out: {escape(one['term'])}</strong>, since {escape(one['why'])}</p>" for one in gone]
    shown = [part for one in models for part in (_model(one), _score(one, result["classes"]))]
    body = [*head, *shown, _prepared(result), _revealed(result)]
    foot = f"study {result['digest']}, edition {result['edition']}, codedfl {result['codedfl']}"
    body.append(f"<footer>{escape(foot)}</footer>")
    return _template().substitute(title=escape(result["study"]), body="\n".join(filter(None, body)))


def _facts(facts: Sequence[tuple[str, object]]) -> str:
    said = [(name, _number(value)) for name, value in facts if value not in ("", None)]
    return "<dl>" + "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in said) + "</dl>"


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:.4g}"


def _score_facts(score: Unchecked | None, why_none: str) -> list[tuple[str, object]]:
    if score is None:
        return [("score", f"none: {why_none}")]
    rows = f"on {score['rows']} held-out rows"
    if "r_squared" in score:
        return [("R² of the prediction", f"{score['r_squared']:.3f} {rows}")]
    area = [("area under the ROC curve", score["auc"])] if score.get("auc") is not None else []
    return [("accuracy", f"{'at least ' * bool(score['withheld'])}{100 * score['accuracy']:.1f} % {rows}"), *area]


# -- coefficients


def _model(model: Unchecked) -> str:
    """The table of one model with its forest plot, and the curves that it has; nothing where it has none of these."""
    found = model.get("inference") or model
    parts = []
    if found.get("coefficients"):
        fit = found.get("fit") or {}
        title = fit.get("model") or str(model.get("kind", "coefficients")).capitalize()
        parts.append(f"<h2>{escape(': '.join(filter(None, (model['name'], title))))}</h2>")
        told = {key: value for key, value in fit.items() if key not in _ALONE and (key, value) != ("constants", 1)}
        parts.append(_facts([(_NAMES.get(key, key.replace("_", " ")), value) for key, value in told.items()]))
        parts.append(_forest(found["coefficients"], found.get("level", 0.95)))
        spreads = ", ".join(
            f"{row['name']} {row['per']:g}" for row in found["coefficients"] if row.get("per", 1.0) != 1.0
        )
        if spreads:
            parts.append(f'<p class="soft">Drawn per about one deviation of a number: {escape(spreads)}.</p>')
        if found.get("references"):
            levels = "; ".join(f"{column} = {level}" for column, level in found["references"].items())
            parts.append(f'<p class="soft">Compared with the reference level of each category: {escape(levels)}.</p>')
    if "left_out" in model and "columns" in model:
        parts.append(_table_one(model))
    if model.get("curves"):
        parts.append(_survival(model))
    if model.get("qq"):
        parts.append(_residuals(model))
    parts += [f"<p>{escape(model['name'])}: none, {escape(model[why])}</p>" for why in _WHY if model.get(why)]
    return "\n".join(parts)


_WHY = ("no_model", "no_inference", "why_none")


def _forest(rows: Sequence[Unchecked], level: float) -> str:
    """Coefficients, and each interval on one axis, per spread of the column so that they can be compared."""
    shown = [row for row in rows if row["name"] != "constant" and "low" in row]
    reach = max((abs(row[end]) * row.get("per", 1.0) for row in shown for end in ("low", "high")), default=1.0) or 1.0
    body = []
    for row in rows:
        plot = ""
        if row in shown:
            low, middle, high = (row[key] * row.get("per", 1.0) for key in ("low", "coefficient", "high"))
            label = f"{row['name']}: {low:.3g} to {high:.3g} per {row.get('per', 1.0):g}"
            plot = interval((low, middle, high), reach, label)
        texts = [row["name"], f"{row['coefficient']:.4g}"]
        if "standard_error" in row:
            p = "<0.001" if row["p"] < 0.001 else f"{row['p']:.3f}"
            texts += [f"{row['standard_error']:.3g}", f"{row.get('t', row.get('z')):.2f}", p]
            texts.append(f"{row['low']:.4g} to {row['high']:.4g}")
        cells = (f"<td{kind}>{escape(text)}</td>" for text, kind in zip(texts, _CELLS, strict=False))
        body.append(f'<tr>{"".join(cells)}<td class="plot">{plot}</td></tr>')
    heads = ("", "coefficient", "std. error", "t or z", "p", f"{100 * level:g} % interval", "interval per spread")
    return _table(heads, body, "forest")


_CELLS = ("", "", ' class="less"', ' class="less"', ' data-name="p"', "")


def _table(heads: Sequence[str], body: Sequence[str], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _table_one(model: Unchecked) -> str:
    """Numbers with mean, deviation and quartiles, categories with the counts of their levels."""
    body = []
    for one in model["columns"]:
        if one["kind"] == "number":
            quartiles = [one["quantiles"][share] for share in ("0.5", "0.25", "0.75")]
            told = (one["rows"], one["missing"], one["mean"], one["deviation"], *quartiles)
            body.append(_row((one["name"], *("-" if value is None else _number(value) for value in told))))
        else:
            counts = ((f"{one['name']} = {level}", count) for level, count in one["counts"].items())
            body += [_row((name, "few" if count is None else _number(count), *[""] * 6)) for name, count in counts]
    heads = ("", "n", "missing", "mean", "deviation", "median", "25 %", "75 %")
    rows = f"<p>{_number(model['rows'])} rows; {escape(str(model['left_out']))} left out without a target.</p>"
    return f'<h2>Table 1</h2>{rows}<div class="scrolls">{_table(heads, body)}</div>'


def _survival(model: Unchecked) -> str:
    """Kaplan and Meier's curves of all groups, each from 1 at time 0, and the test that they are one."""
    test, kinds = model["log_rank"], ("curve", "other", "even")
    last = max(row["time"] for one in model["curves"] for row in one["curve"])
    chart = Chart("time", "share without the event", (0.0, last), (0.0, 1.0))
    for place, one in enumerate(model["curves"]):
        times, shares = ([row[key] for row in one["curve"]] for key in ("time", "share"))
        chart.steps([0.0, *times], [1.0, *shares], kinds[place % 3], str(one["group"]))
    about = f"log-rank test: chi² {test['chi_squared']:.4g} on {test['freedom']}, p {test['p']:.3g}"
    merged = ", ".join(f"{one:g}" for one in model["merged"])
    if merged:
        about += f". Times merged into the next one, since too few rows end there: {merged}"
    return f"<h2>{escape(model['name'])}: survival</h2><p>{about}</p>" + _figures([("Kaplan and Meier", chart)])


def _residuals(model: Unchecked) -> str:
    """A histogram in residual deviations, whose open ends are drawn one deviation wide, and a normal QQ plot."""
    edges = [model["edges"][0] - 1.0, *model["edges"], model["edges"][-1] + 1.0]
    heights = [count / (high - low) for count, low, high in zip(model["counts"], edges, edges[1:], strict=False)]
    bars = Chart("residual, in deviations", "rows per deviation", (edges[0], edges[-1]), (0.0, max(heights)))
    bars.bars(edges, heights)
    normal, found = zip(*model["qq"], strict=True)
    reach = max(map(abs, (*normal, *found))) * 1.05
    points = Chart("normal quantile", "residual, in deviations", (-reach, reach), (-reach, reach))
    points.curve((-reach, reach), (-reach, reach), "even")
    points.points(normal, found)
    head = f"<h2>{escape(model['name'])}: residuals</h2>"
    return head + _figures([("Residuals", bars), ("Normal QQ plot", points)])


# -- the score


def _score(model: Unchecked, classes: Sequence[object]) -> str:
    """How often which class was taken for which, and how often the score of the second of two was right."""
    score = model.get("score") or {}
    if "confusion" not in score:
        return ""
    rows = "held-out rows" if score["held_out"] else "the rows of the fit, which flatters"
    title = ": ".join(filter(None, (model["name"], f"Score on {rows}")))
    if score["withheld"]:
        return f"<h2>{escape(title)}</h2>\n<p>{escape(score['withheld'])}</p>"
    body = [_row((name, *counts)) for name, counts in zip(classes, score["confusion"], strict=True)]
    parts = [f"<h2>{escape(title)}</h2>", _table(("true class", *(f"as {one}" for one in classes)), body)]
    if score.get("calibration"):
        bands = [(*map(float, band.split(" to ")), share) for band, _, share in score["calibration"]]
        known = [
            ((low + high) / 2, float(share.removesuffix(" %")) / 100) for low, high, share in bands if share != "-"
        ]
        chart = Chart(f"score of {classes[1]}", f"share of {classes[1]}", (0.0, 1.0), (0.0, 1.0))
        chart.curve((0.0, 1.0), (0.0, 1.0), "even")
        chart.points([x for x, _ in known], [y for _, y in known])
        figures = [("Calibration", chart)]
        if score.get("roc"):
            roc = Chart("false positive rate", "true positive rate", (0.0, 1.0), (0.0, 1.0))
            roc.curve((0.0, 1.0), (0.0, 1.0), "even")
            roc.curve([x for x, _ in score["roc"]], [y for _, y in score["roc"]])
            figures.append(("ROC curve", roc))
        parts.append(_figures(figures))
    return "\n".join(parts)


def _row(cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<td>{escape(str(one))}</td>" for one in cells) + "</tr>"


def _figures(charts: Sequence[tuple[str, Chart]]) -> str:
    drawn = (f"<figure><figcaption>{escape(name)}</figcaption>{chart.svg()}</figure>" for name, chart in charts)
    return f'<div class="charts">{"".join(drawn)}</div>'


# -- what was done to the rows, and who knows what now


def _prepared(result: Unchecked) -> str:
    """Clipped values, levels that were merged, and whose rows are in which total."""
    parts = ["<h2>Rows and columns</h2>"]
    if not result["clipped"]["rows"]:
        parts.append("<p>How many values lay beyond their public ranges is known to each site alone.</p>")
    elif result["clipped"]["values"]:
        body = [_row(one) for one in result["clipped"]["values"].items()]
        parts.append(_table(("column", f"clipped to its public range, of {result['clipped']['rows']} values"), body))
    else:
        parts.append("<p>No value lay beyond its public range.</p>")
    if result["steps"]:
        steps = ", ".join(f"{name} {step:g}" for name, step in result["steps"].items())
        parts.append(f"<p>Numbers are rounded to whole steps: {escape(steps)}.</p>")
    said = {f"left out: {one['term']}, since {one['why']}" for one in result["terms_left_out"]}
    parts += [f"<p>{escape(line)}</p>" for line in result["merged_words"] if line not in said]
    body = [_row((name, len(who), ", ".join(who))) for name, who in result["owners"].items()]
    if body:
        parts.append(_table(("total", "sites", "whose rows are in it"), body))
    return "\n".join(parts)


def _revealed(result: Unchecked) -> str:
    parts = ["<h2>What was revealed to whom</h2>"]
    for question, answers in result["revealed"].items():
        items = "".join(f"<li>{escape(one)}</li>" for one in answers)
        parts.append(f"<h3>{escape(question)}</h3><ul>{items}</ul>")
    return "\n".join(parts)

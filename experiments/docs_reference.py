"""Reference pages of the site, made of the code itself: commands, public names, files that are read and written.

``python -m experiments.docs_reference`` writes them to docs/reference, where they are kept so that links work in a
checkout too; a test makes them again and compares. Nothing is written by hand but the sentence on top of each page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import numpy as np
import typer

from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.study_text import study_text
from codedfl.cli.app import app
from codedfl.cli.exit_codes import MEANINGS
from codedfl.cli.settings import settings_of
from codedfl.contract import policy as policy_config
from codedfl.contract import toml_file
from codedfl.contract.models import MODELS
from codedfl.contract.policy import Policy
from codedfl.contract.study import Study
from codedfl.data.columns import COLUMN_KEYS, CategoryColumn, ClassTarget, DerivedColumn, NumberColumn, NumberTarget
from codedfl.data.tables import as_raw_table
from codedfl.files import write_text
from codedfl.privacy.budget import Budget
from codedfl.report import event_log
from codedfl_lab.comparing import results
from codedfl_lab.fleet import fleet
from experiments.docs_api import api_pages

# Both dialects of the docstrings: "name: what it is", and NumPy's "name : type" with what it is below.
_SAID = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*)(?:: (.*)| : .*)((?:\n {4}.*)*)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Path in the site -> Markdown."""
    return {
        "reference/cli.md": command_line(),
        **api_pages(_markdown),
        "reference/fleet-file.md": fleet_file(),
        "reference/study-file.md": study_file(),
        "reference/policy-file.md": policy_file(),
        "reference/results-json.md": results_json(),
        "reference/event_log.md": event_log_file(),
    }


def command_line() -> str:
    """Every command with its arguments and options, as its own help has them."""
    lines = [
        "# Command line",
        "",
        "Results go to stdout, progress and remarks to stderr.",
        "",
        "| exit code | what it means |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()),
        "",
    ]
    root = typer.main.get_command(app)
    for path, command in _commands(root, ("codedfl",)):
        lines += [f"## {' '.join(path)}", "", _markdown(command.help or ""), ""]
        arguments = [one for one in command.params if isinstance(one, click.Argument)]
        options = [one for one in command.params if isinstance(one, click.Option)]
        names = [one.metavar or (one.name or "").upper() for one in arguments]
        shown = [name if one.required else f"[{name}]" for name, one in zip(names, arguments, strict=True)]
        lines += ["```", " ".join([*path, *shown, *(["[OPTIONS]"] if options else [])]), "```", ""]
        settings = settings_of(command)
        options = [one for one in options if one not in settings.values()]
        if options:
            lines += ["| option | what it does | default |", "|---|---|---|"]
            lines += [_option_row(one) for one in options]
            lines.append("")
        if settings:
            lines += ["| setting, typed `--set KEY=VALUE` | what it is | default |", "|---|---|---|"]
            lines += [_option_row(one, key) for key, one in sorted(settings.items())]
            lines.append("")
    return "\n".join(lines)


def _commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                yield from _commands(below, (*path, name))
    else:
        yield path, command


def _option_row(option: click.Option, key: str = "") -> str:
    names = f"`{key}`" if key else ", ".join(f"`{name}`" for name in option.opts)
    choice = option.type.choices if isinstance(option.type, click.Choice) else ()
    kind = " or ".join(map(str, choice)) if choice else option.metavar or ""
    default = getattr(option, "show_default", None)
    shown = default if isinstance(default, str) else option.default
    plain = "" if shown in (None, False, (), "") or callable(shown) else f"{shown}"
    kind = f" {kind}" if kind else ""
    return f"| {names}{_cell(kind)} | {_cell(_markdown(option.help or ''))} | {_cell(plain)} |"


def fleet_file() -> str:
    """The keys of a fleet file with their rules."""
    lines = [
        "# The fleet file",
        "",
        "Who the devices are, for `--fleet`: TOML, one table per class of devices. `codedfl lab fleet show --toml`"
        " prints one. A key that nobody reads is refused.",
        "",
        "| section | key | what it is | must be | without it |",
        "|---|---|---|---|---|",
        "| | `name` | of the fleet | text | the file's name |",
        "| | `like` | a shipped fleet, whose devices these are: `[server]` and all below are then left out | a name |"
        " this file says all itself |",
        "| | `latency_models` | models on top of these times, in this order; [your own](../extend.md#a-latency-model)"
        ' among them | a list of names, such as `["pareto:shape=1.2"]` | none |',
        "| `[server]` | `mac_rate` | multiply-adds a second | positive | refused |",
        "| `[costs]` | `pad_macs_per_number` | what expanding one number of a pad costs a device, in multiply-adds |"
        f" zero or positive | {fleet.PAD_MACS_PER_NUMBER:g} |",
        "| `[costs]` | `seal_macs_per_number` | what sealing or opening one number costs | zero or positive |"
        f" {fleet.SEAL_MACS_PER_NUMBER:g} |",
    ]
    words = _said(fleet.DeviceClass)
    rules = {"name": "text", "count": "a whole number from 1"} | {k: r for k, (r, _) in fleet.CLASS_RULES.items()}
    defaults = {"name": "class 0, 1, ...", "latency": f"{fleet.DEFAULT_LATENCY:g}"}
    for key, rule in rules.items():
        where = "`[[device]]`, `[defaults]`" if key in fleet.CLASS_RULES else "`[[device]]`"
        lines.append(f"| {where} | `{key}` | {_cell(words[key])} | {rule} | {defaults.get(key, 'refused')} |")
    lines += ["", "What `[defaults]` says holds for every class that does not say otherwise.", ""]
    lines += ["## The paper's fleet", "", "```toml"]
    return "\n".join([*lines, files("codedfl_lab.fleet").joinpath("paper.toml").read_text(encoding="utf-8"), "```", ""])


def study_file() -> str:
    """The sections and keys of a study file."""
    lines = [
        "# The study file",
        "",
        f'What all participants agree on: TOML, `format = "{toml_file.FORMAT}"`. `codedfl study new` drafts one from a'
        " sample with a comment on every choice. It is the only agreement, and approvals are of its digest. A key that"
        " nobody reads is refused: a misspelt wish must not pass for a granted one. None, below, is a key that is left"
        " out.",
        "",
    ]
    of_field = {one.name: one for one in fields(Study)}
    words = _said(Study)
    for section, keys in toml_file.SECTIONS.items():
        lines += [f"## [{section}]" if section else "## Top of the file", "", "| key | default | what it is |"]
        lines += ["|---|---|---|"]
        for key, name in keys.items():
            lines.append(f"| `{key}` | {_default(of_field[name])} | {_cell(words.get(name, ''))} |")
        lines.append("")
    columns: dict[str, type] = {"number": NumberColumn, "category": CategoryColumn, "derived": DerivedColumn}
    for kind, column_keys in COLUMN_KEYS.items():
        words = {**_said(NumberColumn), **_said(columns[kind]), "kind": f'"{kind}"'}
        default = {one.name: _default(one) for one in fields(columns[kind])}
        default |= dict.fromkeys(("kind", "range", "step"), "must be said")
        lines += [f'## [[column]] with kind = "{kind}"', "", "| key | default | what it is |", "|---|---|---|"]
        lines += [f"| `{key}` | {default[key]} | {_cell(words[key])} |" for key in column_keys]
        lines.append("")
    lines += [
        "## label and unit",
        "",
        "In any `[[column]]` and in `[target]`. They are not in the digest, since no sum depends on them: a word may be"
        " corrected after everybody has approved. A kit's fingerprint, which sites compare, has them.",
        "",
        "| key | default | what it is |",
        "|---|---|---|",
        "| `label` | its name | what tables, figures and the methods paragraph call it, such as `Age at entry` |",
        "| `unit` | none | what its numbers are in, such as `years` |",
        "",
        "## [matrix]",
        "",
        "In place of columns, for pixels and any matrix of numbers: as many number columns, named x0, x1, ...",
        "",
        "| key | default | what it is |",
        "|---|---|---|",
        "| `columns` | must be said | how many there are |",
        "| `range`, `step` | must be said | of each of them, as for a column |",
        "",
    ]
    sections: tuple[tuple[str, type], ...] = (
        ("[target] with a range", NumberTarget),
        ("[target] with classes", ClassTarget),
        *((f'[[model]] with kind = "{kind}"', made) for kind, made in sorted(MODELS.items())),
        ("[noise]", Budget),
    )
    for heading, made in sections:
        lines += [f"## {heading}", "", *_dataclass_table(made), ""]
    lines += ["## A whole one", "", "As `codedfl study new` writes it for a table of two columns and a target:", ""]
    sample = {"age": np.array([34.0, 58.0, 71.0]), "sex": np.array(["f", "m", "f"]), "days": np.array([3.5, 6.2, 7.1])}
    often = {name: np.tile(values, 5) for name, values in sample.items()}  # rare texts are not told
    draft = study_text(draft_of_table(as_raw_table(often, "hospital.csv"), "days", "days"))
    return "\n".join([*lines, "```toml", draft.rstrip(), "```", ""])


def policy_file() -> str:
    """The keys of a device's policy."""
    lines = [
        "# The policy of a device",
        "",
        "What a device allows, whatever the study: TOML for `codedfl site approve --policy`. Only its operator sets"
        " it, and everything is judged when a study is approved. 0 is no limit; without a file each key has its"
        " default. A refusal says in one line which key it was.",
        "",
        "| key | default | what it is |",
        "|---|---|---|",
    ]
    words, of_field = _said(Policy), {one.name: one for one in fields(Policy)}
    for key in policy_config.KEYS:
        name = key.replace("-", "_")
        lines.append(f"| `{key}` | {_default(of_field[name])} | {_cell(words[name])} |")
    return "\n".join([*lines, ""])


def results_json() -> str:
    """Every object that results.json holds."""
    lines = [
        "# results.json",
        "",
        f"What `codedfl lab compare` and `lab reproduce` found, schema {results.SCHEMA}; `traces.csv` beside it has a"
        " line for each scored epoch (`TraceRow`), `summary.csv` one for each scheme at the headline target. A median"
        " of null means: the median seed never got there. Types are Python's: in the file a tuple is a list, a mapping"
        " an object, None null.",
        "",
    ]
    kinds = (
        results.Results, results.SchemeResult, results.Summary, results.Times, results.Speedups, results.Gain,
        results.ExposureResult, results.Claim, results.Racer, results.Timed, results.Preparation,
        results.AtSize, results.TimedScheme, results.PaperValue, results.Took, results.TraceRow,
    )  # fmt: skip
    for kind in kinds:
        lines += [f"## {kind.__name__}", "", *_dataclass_table(kind), ""]
    return "\n".join(lines)


def event_log_file() -> str:
    """Every event of a run's log."""
    lines = ["# The event log of a run", "", _markdown(inspect.getdoc(event_log) or ""), ""]
    for kind in event_log.Event.known:
        lines += [f"## {kind.event}", "", *_dataclass_table(kind), ""]
    return "\n".join(lines)


def _dataclass_table(kind: type) -> list[str]:
    assert is_dataclass(kind)
    words = _said(kind)
    text = re.sub(r"^(Parameters|Attributes)\n-+\n?", "", inspect.getdoc(kind) or "", flags=re.MULTILINE)
    lines = [_markdown(_SAID.sub("", text).strip()), ""]
    described = any(one.name in words for one in fields(kind))
    if fields(kind):
        lines += ["| field | type | default |" + " what it is |" * described, "|---|---|---|" + "---|" * described]
    for one in fields(kind):
        shown = one.type if isinstance(one.type, str) else getattr(one.type, "__name__", str(one.type))
        row = f"| `{one.name}` | `{_cell(shown)}` | {_default(one)} |"
        lines.append(row + f" {_cell(words.get(one.name, ''))} |" * described)
    return lines


def _said(kind: type) -> dict[str, str]:
    """What a docstring says of each field, its base classes' included."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        for names, first, more in _SAID.findall(inspect.cleandoc(one.__doc__ or "")):
            found |= dict.fromkeys(names.split(", "), _markdown(" ".join(f"{first} {more}".split())))
    return found


def _default(one: Field[Any]) -> str:
    if one.default is MISSING and one.default_factory is MISSING:
        return "must be said"
    if one.default is MISSING:
        return "empty"
    if is_dataclass(one.default) or one.default in ("", ()):
        return "empty"
    words = {"None": "none", "True": "true", "False": "false"}
    return words.get(repr(one.default), f"`{one.default}`")


def _markdown(text: str) -> str:
    """Docstrings are reStructuredText of two backticks; NumPy's sections become bold words, examples become blocks."""
    parts = re.split(r"^(>>> .*(?:\n.+)*)", text, flags=re.MULTILINE)
    return "".join(f"```pycon\n{part}\n```" if i % 2 else _plain_markdown(part) for i, part in enumerate(parts))


def _plain_markdown(text: str) -> str:
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"^(\w+)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    # Arguments as a list: "name : type" or "name: text", with what belongs to it indented.
    text = re.sub(r"^([a-zXy_]\w*(?:, [a-zXy_]\w*)*) ?: (?=\S)", r"\n- `\1`: ", text, flags=re.MULTILINE)
    return text.replace("<", "&lt;") if "<" in text and "`" not in text else text


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main() -> None:
    """Write the pages where they are kept."""
    docs = Path(__file__).parents[1] / "docs"
    for name, text in pages().items():
        (docs / name).parent.mkdir(exist_ok=True)
        write_text(docs / name, text)


if __name__ == "__main__":
    main()

"""``--set``: what a command can be asked beyond its options, as KEY=VALUE or as a TOML file of such keys.

A command has at most twenty options. What few people need is declared with ``in_settings`` beside them, is read and
checked as an option is, and is typed ``--set blocks=5`` or kept in a file: ``--set run.toml``.
"""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from codedfl.cli.panels import PANEL
from codedfl.errors import InvalidInput

HELP = "help"

in_settings = partial(typer.Option, hidden=True, rich_help_panel=PANEL)
"""As ``typer.Option``, for a value that ``--set`` takes."""


def settings_of(command: click.Command) -> dict[str, click.Option]:
    """What ``--set`` takes, by key."""
    return {key_of(one): one for one in command.params if isinstance(one, click.Option) and is_setting(one)}


def key_of(option: click.Option) -> str:
    """How ``--set`` calls it: as its option would be, with underscores."""
    return option.opts[0].lstrip("-").replace("-", "_")


def is_setting(option: click.Option) -> bool:
    """Whether it is declared with ``in_settings``."""
    return option.hidden and getattr(option, "rich_help_panel", None) == PANEL


def kept_off_the_line(command: click.Command) -> click.Command:
    """Settings are no options: the parser does not learn their names."""
    for key, one in settings_of(command).items():
        vars(one).update(add_to_parser=_never_typed, get_error_hint=partial(_hint, key))
    return command


def _never_typed(_parser: object, _context: click.Context) -> None:
    """In place of what tells the parser an option's name."""


def _hint(key: str, _context: click.Context) -> str:
    return f"'--set {key}'"


def _take(context: click.Context, _option: click.Parameter, given: list[str] | None) -> list[str]:
    """Before any other option is read: what is set becomes the default of what nobody typed."""
    found: dict[str, Any] = {}
    for one in given or ():
        if one == HELP:
            _show(context)
        found |= _read(context, one)
    context.default_map = {**(context.default_map or {}), **found}
    return list(given or ())


def _read(context: click.Context, text: str) -> dict[str, Any]:
    key, is_pair, value = text.partition("=")
    if is_pair and not Path(text).is_file():
        return {_known(context, key.strip()): value.strip()}
    try:
        pairs = tomllib.loads(Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--set must be KEY=VALUE or a TOML file of such, got {text!r} ({error})") from None
    return {_known(context, key): value for key, value in pairs.items()}


def _known(context: click.Context, key: str) -> str:
    """The name of the parameter that the key is for."""
    options = [one for one in context.command.params if isinstance(one, click.Option) and "--set" not in one.opts]
    for one in options:
        if key_of(one) == key.replace("-", "_"):
            return str(one.name)
    known = ", ".join(sorted(settings_of(context.command)))
    raise InvalidInput(f"--set must have a key of {known}, or of an option, got {key!r}")


def _show(context: click.Context) -> None:
    for name, one in sorted(settings_of(context.command).items()):
        choice = " or ".join(map(str, one.type.choices)) if isinstance(one.type, click.Choice) else ""
        words = " ".join(f"{one.help or ''} {choice and f'One of: {choice}.'}".split())
        default = one.show_default if isinstance(one.show_default, str) else one.default
        shown = "" if default in (None, False) else f" [default: {default}]"
        click.echo(f"{name}: {words}{shown}")
    context.exit()


SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        is_eager=True,
        callback=_take,
        help="A further setting, or a TOML file of such; may be repeated. --set help lists them.",
    ),
]
"""The option that a command with settings gets (``option_groups``)."""

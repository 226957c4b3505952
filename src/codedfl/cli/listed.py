"""The tree of commands as the help lists it: each is imported when it is run, so a device loads its own only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
import typer
from typer.core import TyperGroup

from codedfl.cli.option_groups import command
from codedfl.cli.panels import PANEL
from codedfl.on_demand import loading

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class ListedCommand:
    """A command, or a group of them, that is not loaded yet.

    name: as it is typed.
    summary: its line in the help, the first sentence of its own.
    target: ``module:name`` of the function that is the command; empty for a group.
    commands: those of a group.

    >>> ListedCommand("ledger", "Show what this site approved.", "codedfl.cli.ledger:show_ledger").load().name
    'ledger'
    """

    name: str
    summary: str
    target: str = ""
    commands: tuple[ListedCommand, ...] = field(default=())

    def line(self) -> click.Command:
        """What the help of the group above shows of it."""
        return click.Command(self.name, help=self.summary)

    def load(self) -> click.Command:
        """The command itself."""
        if self.commands:
            return Group(self.name, self.commands, help=self.summary)
        module, _, name = self.target.partition(":")
        with loading():
            found = getattr(import_module(module), name)
        alone = typer.Typer(rich_markup_mode="markdown", add_completion=False)
        alone.command(self.name, context_settings=SETTINGS)(command(found))
        made = typer.main.get_command(alone)
        if any(getattr(one, "rich_help_panel", None) == PANEL for one in made.params):
            from codedfl.cli.settings import kept_off_the_line

            return kept_off_the_line(made)
        return made


class Group(TyperGroup):
    """Loads the command that is run; an unknown name is answered by the nearest, a former one by the present one."""

    def __init__(self, name: str | None, listed: Iterable[ListedCommand] = (), **settings: Any) -> None:
        common: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown", "context_settings": SETTINGS}
        super().__init__(name=name, **{**common, **settings})
        self._listed = {one.name: one for one in listed}
        self._lines_only = False

    def listed(self) -> dict[str, ListedCommand]:
        """What it has, by name."""
        return self._listed

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        del ctx
        return [*self.listed()]

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        del ctx
        found = self.listed().get(cmd_name)
        if found is None:
            return None
        return found.line() if self._lines_only else found.load()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line per command, of which none is loaded for it."""
        self._lines_only = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lines_only = False

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(self._unknown(ctx, args[0]))
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: click.Context, name: str) -> str:
        """The new name of a command that was renamed, or the nearest ones of all."""
        from codedfl.cli.renamed import RENAMED

        typed = " ".join([*words_of(ctx), name])
        if new := RENAMED.get(typed):
            return f"codedfl {typed} is now: codedfl {new}"
        root = ctx.find_root().command
        assert isinstance(root, Group)
        every = root.paths()
        ends = {path.rpartition(" ")[2]: path for path in every}
        near = [path for path in every if path.endswith(f" {name}")]
        near += [match for match in get_close_matches(typed, every, 3, 0.75) if match not in near]
        near += [ends[match] for match in get_close_matches(name, ends, 2, 0.75) if ends[match] not in near]
        hint = f"; did you mean {' or '.join(f'codedfl {path}' for path in near[:3])}?" if near else ""
        return f"no command codedfl {typed}{hint or ': codedfl --help lists them'}"

    def paths(self) -> list[str]:
        """Every group and command below, in the words that call it; nothing is loaded."""
        found = []
        for one in self.listed().values():
            below = one.load() if one.commands else None
            found += [one.name, *(f"{one.name} {path}" for path in (below.paths() if isinstance(below, Group) else ()))]
        return found


def words_of(ctx: click.Context) -> list[str]:
    """The words between ``codedfl`` and what is being read."""
    words: list[str] = []
    here: click.Context | None = ctx
    while here is not None and here.parent is not None:
        words.insert(0, here.info_name or "")
        here = here.parent
    return words

"""A command as the help lists it: it is imported when it is run, so that a device loads its own and no other."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import click
import typer

from codedfl.cli.option_groups import command
from codedfl.on_demand import loading

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class Listed:
    """A command that is not loaded yet.

    name: as it is typed.
    summary: its line in the help of ``codedfl``, the first sentence of its own.
    target: ``module:name`` of a function, or of a ``typer.Typer`` with commands of its own.
    panel: the heading under which the help lists it.
    """

    name: str
    summary: str
    target: str
    panel: str

    def line(self) -> click.Command:
        """What the help of ``codedfl`` shows of it."""
        shown = click.Command(self.name, help=self.summary)
        shown.rich_help_panel = self.panel  # type: ignore[attr-defined]  # where typer looks for it
        return shown

    def load(self) -> click.Command:
        """The command itself."""
        module, _, name = self.target.partition(":")
        with loading():
            found = getattr(import_module(module), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(rich_markup_mode="markdown", add_completion=False)
            alone.command(self.name)(command(found))
            return typer.main.get_command(alone)
        group = typer.main.get_group(found)
        group.name = self.name
        return group

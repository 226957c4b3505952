"""Arguments as far as the command line reads them, without running anything."""

from __future__ import annotations

import click
import typer

from codedfl.cli.app import app


def parsed(arguments: list[str]) -> click.Context:
    """Raises what the command line would say of them."""
    group: click.Command = typer.main.get_command(app)
    while isinstance(group, click.Group):
        group = group.commands[arguments.pop(0)]
    return group.make_context(group.name, arguments)

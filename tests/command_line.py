"""All commands, and arguments as far as the command line reads them, without running anything."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
import typer

from codedfl.cli.app import app


def all_commands(group: click.Group | None = None) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command by the words that call it, loaded."""
    group = group or whole()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (((name, *below), one) for below, one in all_commands(command))
        else:
            yield (name,), command


def whole() -> click.Group:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return group


def parsed(arguments: list[str]) -> click.Context:
    """Raises what the command line would say of them."""
    command: click.Command = whole()
    while isinstance(command, click.Group):
        name = arguments.pop(0)
        command = command.get_command(click.Context(command), name) or pytest.fail(f"no command {name}")
    return command.make_context(command.name, arguments)

"""Every option of every command is read by somebody, or refused: none passes for a wish that was granted."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest

import codedfl.cli
import codedfl_lab.cli
from command_line import all_commands

ROOTS = [Path(package.__file__).parent for package in (codedfl.cli, codedfl_lab.cli)]


COMMANDS = dict(all_commands())


def function_of(command: click.Command) -> Callable[..., Any]:
    callback = command.callback
    while hasattr(callback, "__wrapped__"):
        callback = callback.__wrapped__
    assert callback is not None
    return callback


def names_read(function: Callable[..., Any]) -> set[str]:
    """Names that the body of a function reads."""
    (definition,) = ast.parse(inspect.getsource(function).lstrip()).body
    assert isinstance(definition, ast.FunctionDef)
    return {node.id for part in definition.body for node in ast.walk(part) if isinstance(node, ast.Name)}


def attributes_read() -> set[str]:
    """Attributes that anything in the command line reads."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for root in ROOTS for path in root.glob("*.py"))
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_of_a_command_is_read(path: tuple[str, ...]):
    function = function_of(COMMANDS[path])
    hints, read = get_type_hints(function), names_read(function)
    for name in inspect.signature(function).parameters:
        assert name in read, f"{' '.join(path)} must read {name}"
        if is_dataclass(hints[name]):
            unread = {one.name for one in fields(hints[name])} - attributes_read()
            assert not unread, f"{' '.join(path)} must read {unread}"

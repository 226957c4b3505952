"""Every option of every command is read by somebody, or refused: none passes for a wish that was granted."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest
import typer
from command_runner import Run

import codedfl.cli
import codedfl_lab.cli
from codedfl.cli.app import app
from codedfl_lab.cli.train import _OF_A_STUDY

ROOTS = [Path(package.__file__).parent for package in (codedfl.cli, codedfl_lab.cli)]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from commands(one, (*path, name))
        else:
            yield (*path, name), one


GROUP = typer.main.get_command(app)
assert isinstance(GROUP, click.Group)
COMMANDS = dict(commands(GROUP))


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


def a_value(parameter: click.Parameter) -> list[str]:
    kind = parameter.type
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return []
    if isinstance(kind, click.Choice):
        return [str(kind.choices[0])]
    return ["1"] if isinstance(kind, click.types.IntParamType | click.types.FloatParamType) else ["no-such"]


BESIDE_A_STUDY = [
    one
    for one in COMMANDS[("train",)].params
    if isinstance(one, click.Option) and one.name not in (*_OF_A_STUDY, "help")
]


@pytest.mark.parametrize("option", BESIDE_A_STUDY, ids=lambda one: one.opts[0])
def test_what_a_study_says_is_not_said_beside_it(run: Run, tmp_path: Path, option: click.Option):
    """The audit's case was ``train study.toml --epsilon 0.1 --scheme no-such``: it trained without noise."""
    (tmp_path / "study.toml").write_text("nothing of it is read before the options are refused", encoding="utf-8")
    found = run("train", "study.toml", "--tables", tmp_path, option.opts[0], *a_value(option))
    assert found.exit_code == 2
    assert f"{option.opts[0]} must be left out" in " ".join(found.output.split())


@pytest.mark.parametrize("option", ["--tables", "--gone", "--roster", "--policy"])
def test_what_belongs_to_a_study_is_refused_without_one(run: Run, option: str):
    found = run("train", "digits", option, "0.5")
    assert found.exit_code == 2 and f"{option} must go with a study file" in found.output

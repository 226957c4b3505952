"""Names on the command line: one meaning each, former ones say the present one, and mistyped ones the nearest."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import click
import pytest
from command_runner import Run

from codedfl.cli.renamed import RENAMED, RENAMED_OPTIONS
from codedfl.cli.settings import settings_of
from command_line import all_commands, parsed

COMMANDS = dict(all_commands())
MOST_OPTIONS = 20


def options_of(command: click.Command) -> list[click.Option]:
    """What can be typed behind it."""
    every = [one for one in command.params if isinstance(one, click.Option)]
    return [one for one in every if one not in settings_of(command).values()]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_at_most_twenty_options(path: tuple[str, ...]):
    assert len(options_of(COMMANDS[path])) <= MOST_OPTIONS


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_ends_with_an_example_that_the_command_takes(path: tuple[str, ...]):
    last = (COMMANDS[path].help or "").split("\n\n")[-1]
    words = shlex.split(" ".join(last.removeprefix("Example: `").removesuffix("`").split()))
    assert words[: len(path) + 1] == ["codedfl", *path], last
    parsed(words[1:])


# Options whose value is of one kind everywhere, with the kind that their placeholder says.
KINDS = {
    "--target": {"COLUMN"},
    "--device-column": {"COLUMN"},
    "--policy": {"FILE"},
    "--host": {"NAME"},
    "--listen": {"ADDRESS"},
    "--name": {"NAME"},
    "--roster": {"FILE"},
    "--table": {"FILE"},
    "--tables": {"PATH"},
    "--devices": {"D"},
    "--fleet": {"FLEET"},
    "--state": {"FOLDER"},
}


def test_one_meaning_per_option():
    kinds = defaultdict(set)
    for command in COMMANDS.values():
        for one in options_of(command):
            kinds[one.opts[0]].add(one.metavar)
    assert {name: kinds[name] for name in KINDS} == KINDS
    assert not {"--device", "--key", "--step", "--check", "--server", "--targets"} & set(kinds)


def exists(words: list[str]) -> bool:
    return any(list(path[: len(words)]) == words for path in COMMANDS)


@pytest.mark.parametrize("former", RENAMED)
def test_a_former_command_says_the_present_one(run: Run, former: str):
    result = run(*former.split(), "study.toml")
    assert (result.exit_code, result.stderr) == (2, f"error: codedfl {former} is now: codedfl {RENAMED[former]}\n")
    for said in RENAMED[former].split(", or codedfl "):
        assert exists(said.removesuffix(" for the server's").split())


@pytest.mark.parametrize(("command", "option"), [(c, o) for c, one in RENAMED_OPTIONS.items() for o in one])
def test_a_former_option_says_the_present_one(run: Run, command: str, option: str):
    result = run(*command.split(), option, "x")
    present = RENAMED_OPTIONS[command][option]
    assert (result.exit_code, result.stderr) == (2, f"error: {option} of codedfl {command} is now: {present}\n")
    words = [word for word in present.split() if word not in ("codedfl", "...")]
    if words[0] == "--set":
        key = words[1].partition("=")[0]
        assert key in settings_of(COMMANDS[tuple(command.split())])
    elif words[0].startswith("--"):
        assert words[0] in [one.opts[0] for one in options_of(COMMANDS[tuple(command.split())])]
    else:
        assert tuple(words[:2]) in COMMANDS


MISTYPED = {
    "sit": "no command codedfl sit; did you mean codedfl site?",
    "study rehersal": "no command codedfl study rehersal; did you mean codedfl study rehearse?",
    "approve study.toml": "no command codedfl approve; did you mean codedfl site approve?",
    "site run": "no command codedfl site run; did you mean codedfl server run?",
    "lab trian digits": "no command codedfl lab trian; did you mean codedfl lab train?",
    "nonsense": "no command codedfl nonsense: codedfl --help lists them",
    "study check study.toml t.csv --jsn x": "no option --jsn of codedfl study check; did you mean --json?",
    "study check study.toml t.csv --zzz": "no option --zzz of codedfl study check: --help lists them",
    "lab train digits --blocks 4": "--blocks is a setting: --set blocks=...",
}


@pytest.mark.parametrize("typed", MISTYPED)
def test_a_mistyped_name_says_the_nearest(run: Run, typed: str):
    result = run(*typed.split())
    assert (result.exit_code, result.stderr) == (2, f"error: {MISTYPED[typed]}\n")


def test_settings_are_read_as_options_are(run: Run):
    Path("run.toml").write_text("blocks = 3\nreach = 0.5\n")
    context = parsed(["lab", "train", "digits", "--set", "run.toml", "--set", "reserve=1", "--set", "narrow=true"])
    taken = {name: context.params[name] for name in ("blocks", "reserve", "narrow", "target")}
    assert taken == {"blocks": 3, "reserve": 1, "narrow": True, "target": 0.5}
    typed = parsed(["lab", "train", "digits", "--set", "run.toml", "--reach", "0.9"])
    assert typed.params["target"] == 0.9  # what is typed counts before what a file says
    listed = run("lab", "train", "--set", "help")
    assert listed.exit_code == 0
    assert [line.partition(":")[0] for line in listed.stdout.splitlines()] == sorted(
        settings_of(COMMANDS["lab", "train"])
    )


WRONG_SETTINGS = {
    "blocks=x": "Invalid value for '--set blocks': 'x' is not a valid integer range.",
    "none.toml": "--set must be KEY=VALUE or a TOML file of such, got 'none.toml' ([Errno 2] No such file or directory:"
    " 'none.toml')",
    "block=3": "--set must have a key of alpha, or of an option, got 'block'",
}


@pytest.mark.parametrize("given", WRONG_SETTINGS)
def test_settings_that_are_wrong(run: Run, given: str):
    known = ", ".join(sorted(settings_of(COMMANDS["lab", "train"])))
    result = run("lab", "train", "digits", "--set", given)
    message = WRONG_SETTINGS[given].replace("a key of alpha", f"a key of {known}")
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


COMPLETED = {
    "codedfl s": {"study", "site", "server"},
    "codedfl site ": {"enrol", "encode", "approve", "accept", "sign-roster", "withdraw", "check", "join", "ledger"},
    "codedfl lab t": {"train"},
    "codedfl study check --j": {"--json"},
}


@pytest.mark.parametrize("typed", COMPLETED)
def test_a_shell_completes(typed: str):
    """As bash asks for it, once ``codedfl --install-completion`` was typed."""
    words = typed.split(" ")
    asked = {"_CODEDFL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    program = [str(Path(sys.executable).with_name("codedfl"))]
    done = subprocess.run(program, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == COMPLETED[typed], done.stderr

"""What a newcomer does first, run as programs from an installation: every help, a study, a comparison, a training.

``experiments.dist`` and ``experiments.installs`` take these steps where this checkout is not on the path.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SMALL = ("--devices", "5", "--n-features", "60")
_EVERY_COMMAND = """
import click
import typer
from codedfl.cli.app import app

def walk(command, words):
    print(*words)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            walk(command.get_command(context, name), [*words, name])

walk(typer.main.get_command(app), [])
"""


def run(command: list[str], folder: Path) -> str:
    """What a program prints, without this checkout on the path; ``SystemExit`` where it fails or Python warns."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode or "Warning:" in done.stderr:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def every_help(program: Path, folder: Path) -> int:
    """Ask each command, and each command in it, for its help; returns how many there are."""
    lines = run([str(program / "python"), "-c", _EVERY_COMMAND], folder).splitlines()
    for line in lines:
        said = run([str(program / "codedfl"), *line.split(), "--help"], folder)
        if "Usage" not in said:
            raise SystemExit(f"codedfl {line} --help must say how it is used, got {said!r}")
    return len(lines)


def run_a_study(program: Path, folder: Path) -> None:
    """From a table to predictions, in a new folder."""
    folder.mkdir()
    rows = "\n".join(f"{i % 17},{(7 * i) % 11},{3 * (i % 17) - (7 * i) % 11 + i % 3}" for i in range(300))
    (folder / "t.csv").write_text(f"a,b,y\n{rows}\n", encoding="utf-8")
    for words in (
        "study new t.csv --target y",
        "study check study.toml t.csv",
        "study show study.toml",
        "study rehearse study.toml --tables t.csv --out rehearsal",
        "study predict rehearsal/model.safetensors t.csv --out said.csv",
    ):
        run([str(program / "codedfl"), *words.split()], folder)


def compare_and_train(program: Path, folder: Path) -> None:
    """The laboratory's first steps."""
    codedfl = str(program / "codedfl")
    run([codedfl, "lab", "compare", "digits", *SMALL, "--seeds", "1", "--draws", "10", "--out", "race"], folder)
    run([codedfl, "lab", "train", "digits", *SMALL, "--out", "first"], folder)
    run([codedfl, "lab", "privacy"], folder)

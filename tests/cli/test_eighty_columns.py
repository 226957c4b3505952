"""On a terminal of 80 columns nothing is cut and nothing sticks out, and the live view is gone before the results."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from command_runner import Run
from kit_files import enrol, kit_of, server_key
from rich.console import Console
from typer.testing import CliRunner

from codedfl.cli import serve
from codedfl.cli.app import app
from codedfl.report.run_watch import RunWatch
from codedfl.sum.events import Connected, DeviceState, Replied, RepliedLate

pytestmark = pytest.mark.hospitals

WARDS = ("cardiology and vascular surgery", "internal medicine", "intensive care unit")
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def at_a_terminal(*arguments: str) -> str:
    """What a person sees in 80 columns."""
    runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm"})
    result = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return STYLES.sub("", result.stdout)


@pytest.fixture
def study(run: Run) -> None:
    lines = ["age,ward,crp,days", *(f"{20 + i % 60},{WARDS[i % 3]},{i % 17}.5,{i % 23}" for i in range(120))]
    Path("tables").mkdir()
    for name in ("a", "b", "c"):
        Path(f"tables/clinic-{name}.csv").write_text("\n".join(lines) + "\n")
    enrol(*(f"clinic-{name}" for name in "abc"))


@pytest.mark.usefixtures("study")
def test_every_screen_of_a_study():
    texts = [at_a_terminal("roster", "new", "requests"), at_a_terminal("roster", "show", "roster.toml")]
    roster = next(line for line in texts[0].splitlines() if line.startswith("roster = "))
    at_a_terminal("study", "new", "tables/clinic-a.csv", "--target", "days", "--participants", "3")
    text = re.sub("(?m)^# roster = .*", roster, Path("study.toml").read_text())
    text = re.sub("(?m)^# server_key = .*", server_key(), text).replace("inference = false", "inference = true")
    Path("study.toml").write_text(text)
    asked = ("--requests", "requests")
    texts += [
        at_a_terminal("study", "show", "study.toml", "--roster", "roster.toml"),
        at_a_terminal("study", "check", "study.toml", "tables/clinic-a.csv"),
        at_a_terminal(
            "site",
            "approve",
            kit_of("clinic-a"),
            "--state",
            "state",
            "--table",
            "tables/clinic-a.csv",
            "--who",
            "Dr. Augusta Ada King, Countess of Lovelace",
        ),
        at_a_terminal("study", "rehearse", "study.toml", "--tables", "tables", "--roster", "roster.toml", "--out", "r"),
        at_a_terminal("site", "ledger", "clinic-a", "--state", "state"),
        at_a_terminal("lab", "privacy", "role-keys"),
        at_a_terminal("site", "enrol", "clinic-a", "--state", "state"),
        at_a_terminal("study", "kit", "study.toml", *asked, "--roster", "roster.toml", "--out", "kits"),
        at_a_terminal("study", "evaluate", "r/model.safetensors", "tables/clinic-a.csv", "--label", "days"),
    ]
    for text in texts:
        lines = text.splitlines()
        assert lines and max(map(len, lines)) <= 80, max(lines, key=len)
        assert "…" not in text, [line for line in lines if "…" in line]
    assert "clipped" in texts[3] and "cardiology and vascular surgery" in " ".join(texts[3].split())
    ledger = " ".join(texts[6].split())
    assert "rows contributions" in ledger and re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d ", ledger), texts[6]
    assert "virtual" not in texts[5]  # no time is promised that nobody has


def screen_after(written: str) -> list[str]:
    """The lines that a terminal shows after all of this was written to it."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            column = 0
        elif token == "\x1b[1A":
            row -= 1
        elif token == "\x1b[2K":
            lines[row] = ""
        elif not token.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + len(token) :]
            column += len(token)
    return [line.rstrip() for line in lines if line.strip()]


def test_the_live_view_is_gone_before_the_results():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, legacy_windows=False)
    watch = RunWatch()
    with serve._shown(watch, console) as shown:
        shown.take(Connected("hospital-of-the-holy-spirit"))
        shown.take(DeviceState("hospital-of-the-holy-spirit", "uploaded"))
        shown.take(Replied("hospital-of-the-holy-spirit", 1, 100))
        shown.take(RepliedLate("hospital-of-the-holy-spirit", 2, 100))
    console.print("R^2 0.19")
    assert "hospital-of-the-holy-spirit" in written.getvalue()
    assert "late" not in written.getvalue()
    assert screen_after(written.getvalue()) == ["R^2 0.19"]


def test_a_planner_speaks_of_the_score_that_it_has():
    shown = " ".join(
        STYLES.sub("", CliRunner(env={"COLUMNS": "200"}).invoke(app, ["lab", "plan", "--help"]).stdout).split()
    )
    assert "Score to reach on test rows: accuracy, or R² of a number." in shown

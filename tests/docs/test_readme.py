"""README is short, its first screen says what it is, its code gives its output, and its figures are those of a run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from command_line import parsed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
SHOWN = re.sub(r"\]\([^)]*\)", "]", README)  # without the targets of links
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
NUMBER = r"(?<![\w.])\d+(?:\.\d+)?"


def prose() -> str:
    """What is neither code nor table, heading or picture."""
    without_blocks = re.sub(r"^```.*?^```$", "", SHOWN, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in without_blocks.splitlines() if not line.startswith(("|", "#", "!["))]
    return re.sub(r"[`*\[\]]", "", "\n".join(lines))


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every row of a section's tables."""
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return [row for row in found if set(row[0]) != {"-"}]


def test_it_is_read_in_a_minute():
    sentences = [one for one in re.split(r"[.:?!](?=\s)|\n\n", prose()) if len(one.split()) > 2]
    assert len(README.splitlines()) <= 130
    assert len(prose().split()) <= 700
    assert len(re.findall(NUMBER, SHOWN)) <= 60
    assert sum(len(one.split()) for one in sentences) / len(sentences) <= 20


def test_the_first_screen_says_what_it_is_and_how_to_get_it():
    screen = "\n".join(README.splitlines()[:25])
    wanted = (
        "](docs/drawings/",
        "Coding for Straggler\nMitigation in Federated Learning",
        "pip install",
        "not audited",
    )
    assert [one for one in wanted if one not in screen] == []
    assert screen.index("](docs/drawings/") < screen.index("pip install")


def test_its_code_gives_its_output():
    code, output = (text for language, text in BLOCKS if language in ("python", "text"))
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, "README.md", "exec"), names)
    assert said.getvalue() == output
    pooled = sm.Logit(names["ill"], sm.add_constant(names["X"].astype(float))).fit(disp=0)
    assert np.exp(pooled.params[1:]) == pytest.approx(names["odds"], abs=5e-4), "as statsmodels has it"
    assert np.exp(pooled.conf_int()[1:]) == pytest.approx(names["ends"], abs=5e-4)


def test_its_commands_are_those_of_the_command_line_and_of_make():
    lines = [line.partition("#")[0] for language, text in BLOCKS if language != "python" for line in text.splitlines()]
    for line in lines:
        if line.startswith("codedfl "):
            parsed(shlex.split(line)[1:])
    for command in re.findall(r"`(codedfl \w+ [^`]+)`", README):
        parsed(shlex.split(command)[1:])
    targets = {line.split()[1] for line in lines if line.startswith("make ")}
    assert targets == {"run", "test"}
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in targets)


def test_what_it_installs_is_there():
    (install,) = (text for _, text in BLOCKS if text.startswith("pip install"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extra,) = re.findall(r"'\.\[(\w+)\]'", install)
    assert extra in project["optional-dependencies"]
    assert (ROOT / "lab" / "pyproject.toml").exists() and "./lab" in install
    assert project["requires-python"] == f">={re.findall(r'Python ([0-9.]+)', install)[0]}"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]*)\)", README))))
def test_its_links_lead_somewhere(target: str):
    if target.startswith("https://"):
        return
    name, _, anchor = target.partition("#")
    assert (ROOT / name).exists()
    headings = re.findall(r"^#+ (.*)$", (ROOT / name).read_text(), re.MULTILINE) if anchor else []
    assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_its_figures_are_those_of_the_methods_page():
    """Which ``experiments.race_tables`` holds against a run."""
    speeds = {row[0]: row[1:] for row in rows(section(README, "How fast"))[1:]}
    goals = {(row[0], row[1]): row for row in rows(section(METHODS, "The race")) if len(row) == 11}
    reached = [[row[place].split(" ")[0] for place in (3, 7)] for row in goals.values()]
    assert 1 <= len(speeds) <= 6
    assert [one for one in speeds.values() if one not in reached] == []
    role_keys = next(row for (where, name), row in goals.items() if where == "MNIST, 25" and "z = 1" in name)
    assert speeds["role keys"] == [role_keys[place].split(" ")[0] for place in (3, 7)]

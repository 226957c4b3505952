"""Reference pages are made of the code: every key and field has words of its own, and none is left out."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from codedfl.cli import exit_codes
from codedfl.contract.policy import Policy
from codedfl.private_files import STATE_DIR, default_state_dir
from codedfl_lab.comparing import results, timed_scheme
from experiments import docs_reference

PAGES = docs_reference.pages()
WRITTEN_OUT = ("study-file", "policy-file", "fleet-file", "results-json")


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_every_row_says_what_it_is(name: str):
    table = [line for line in PAGES[f"reference/{name}.md"].splitlines() if line.startswith("| `")]
    assert len(table) > 8
    assert [line for line in table if "|  |" in line] == []


@pytest.mark.parametrize("name", ["study-file", "policy-file"])
def test_no_two_rows_of_a_table_share_a_description(name: str):
    """Three keys of a study file had one sentence about all of them, and nobody knew which part of it was whose."""
    for table in PAGES[f"reference/{name}.md"].split("\n## "):
        said = [line.rsplit("|", 2)[1].strip() for line in table.splitlines() if line.startswith("| `")]
        shared = [one for one in said if said.count(one) > 1 and "|" not in one]
        assert shared == [], table.splitlines()[0]


def test_every_exit_code_is_documented():
    codes = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert codes | {0} == exit_codes.MEANINGS.keys()
    page = PAGES["reference/cli.md"]
    assert all(f"\n| {code} | {meaning} |\n" in page for code, meaning in exit_codes.MEANINGS.items())


def test_the_folder_of_states_is_where_help_texts_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    home, variable = re.fullmatch(r"(\S+), or codedfl in (\w+)", STATE_DIR).groups()
    assert default_state_dir() == Path(home).expanduser()
    monkeypatch.setenv(variable, str(tmp_path))
    assert default_state_dir() == tmp_path / "codedfl"
    assert PAGES["reference/cli.md"].count(STATE_DIR) == 10


def test_every_object_of_the_results_has_its_table():
    ours = {results.__name__, timed_scheme.__name__}
    made = {
        kind.__name__
        for kind in vars(results).values()
        if dataclasses.is_dataclass(kind) and isinstance(kind, type) and kind.__module__ in ours
    }
    headings = {line[3:] for line in PAGES["reference/results-json.md"].splitlines() if line.startswith("## ")}
    assert made == headings


def test_every_limit_of_a_policy_can_be_set():
    keys = {line.split("`")[1] for line in PAGES["reference/policy-file.md"].splitlines() if line.startswith("| `")}
    assert {key.replace("-", "_") for key in keys} == {one.name for one in dataclasses.fields(Policy)}

"""Reference pages are made of the code: every key and field has words of its own, and none is left out."""

from __future__ import annotations

import dataclasses

import pytest

from codedfl.contract.policy import Policy
from codedfl_lab.comparing import results, timed_scheme
from experiments import docs_reference

PAGES = docs_reference.pages()
WRITTEN_OUT = ("study-file", "policy-file", "fleet-file", "results-json")


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_every_row_says_what_it_is(name: str):
    table = [line for line in PAGES[f"reference/{name}.md"].splitlines() if line.startswith("| `")]
    assert len(table) > 8
    assert [line for line in table if "|  |" in line] == []


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

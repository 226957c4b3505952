"""`fleet show` printed no fleet file, and eleven links to docs/reference led nowhere in a checkout."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from codedfl_lab.fleet.fleet import Fleet
from experiments import docs_reference

Run = Callable[..., Result]
ROOT = Path(__file__).parents[2]
MADE_BY_THE_SITE = {"threat-model.md", "design.md", "changelog.md", "notebooks"}  # experiments/docs_site.py


def test_fleet_show_prints_the_fleet_file(run: Run) -> None:
    result = run("lab", "fleet", "show", "--toml", "--devices", "7")
    assert (result.exit_code, result.stderr) == (0, "")
    Path("mine.toml").write_text(result.stdout)
    assert Fleet.load("mine.toml").classes == Fleet.load("paper").scaled_to(7).classes
    assert run("lab", "fleet", "show", "mine.toml").exit_code == 0
    refused = run("lab", "fleet", "show", "--toml", "--json", "-")
    assert refused.stderr == "error: --json must be left out with --toml, which prints a file, got -\n"


@pytest.mark.parametrize("name", docs_reference.pages())
def test_the_reference_in_the_repository_is_what_the_code_says(name: str) -> None:
    kept = ROOT / "docs" / name
    assert kept.exists() and kept.read_text(encoding="utf-8") == docs_reference.pages()[name], (
        "run python -m experiments.docs_reference"
    )


def test_no_page_is_left_from_before() -> None:
    folder = ROOT / "docs"
    kept = {str(path.relative_to(folder)) for path in (folder / "reference").rglob("*") if path.is_file()}
    assert kept == set(docs_reference.pages())


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]+?\.(?:md|png|svg|toml|py))(?:#[\w-]*)?\)", page.read_text(encoding="utf-8"))
    dead = [link for link in links if not (page.parent / link).exists() and link.split("/")[0] not in MADE_BY_THE_SITE]
    assert dead == []

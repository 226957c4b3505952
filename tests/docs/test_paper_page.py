"""From each place of the paper to its code: nothing is left out, what is named exists, and what shows it can be run."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from experiments.paper_page import MARK, NAMES, PLACES, Mark, marks

from command_line import parsed
from experiments import paper_page

ROOT = Path(__file__).parents[2]
FOUND = marks()
SHOWN = sorted({mark.shown for mark in FOUND})


def test_the_page_and_the_table_of_the_readme_are_those_that_are_made():
    assert paper_page.PAGE.read_text("utf-8") == paper_page.page()
    readme = paper_page.README.read_text("utf-8")
    assert paper_page.readme_with_table(readme) == readme


@pytest.mark.parametrize("place", NAMES)
def test_every_place_of_the_paper_has_its_code(place: str):
    assert [mark for mark in FOUND if place in mark.places]


def test_all_equations_and_labels_are_in_the_list():
    assert [name for name in NAMES if name.startswith("eq.")] == [f"eq. {number}" for number in range(1, 12)]
    assert sum(name.startswith("Proposition") for name in NAMES) == 3
    assert len({place.label for place in PLACES if place.label}) == 17


def test_every_mark_is_read_and_names_a_place():
    """A line that is misspelt would be left out in silence."""
    for folder in paper_page.SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            text = " ".join(path.read_text("utf-8").split())
            assert text.count("Paper: ") == len(MARK.findall(text)), path
    assert {place for mark in FOUND for place in mark.places} == set(NAMES)


def test_a_mark_belongs_to_the_innermost_function():
    text = '''
class A:
    """An A.

    Paper: II-A. Shown by ``make run``.
    """

    def b(self):
        """A b.

        Paper: IV-B, eq. 6. Shown by ``pytest tests/x.py
        -k long``.
        """
'''
    assert list(paper_page._marks_of("x.py", ast.parse(text))) == [
        Mark("x.py", "A", ("II-A",), "make run"),
        Mark("x.py", "A.b", ("IV-B", "eq. 6"), "pytest tests/x.py -k long"),
    ]


@pytest.mark.parametrize("shown", SHOWN)
def test_what_shows_it_can_be_run(shown: str):
    program, *arguments = shlex.split(shown)
    if program == "codedfl":
        parsed(arguments)
    elif program == "make":
        assert f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text("utf-8")
    else:
        assert program == "pytest"
        assert len(arguments) in (1, 3)
        tests = re.findall(r"^def (test_\w+)", (ROOT / arguments[0]).read_text("utf-8"), re.MULTILINE)
        assert arguments[1:2] in ([], ["-k"])
        assert [name for name in tests if len(arguments) == 1 or arguments[2] in name]


def test_labels_are_read_off_a_source_without_its_comments():
    tex = r"\label{eq:C} x \label{Eq: One} % \label{gone}" + "\n" + r"50\% \label{kept}"
    assert paper_page.labels_of(tex) == {"eq:C", "Eq: One", "kept"}


def test_another_source_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tex = tmp_path / "paper.tex"
    tex.write_text("\n".join(rf"\label{{{place.label}}}" for place in PLACES if place.label), encoding="utf-8")
    assert paper_page.main(["--against", str(tex)]) == 0
    tex.write_text(tex.read_text() + r"\label{eq:new}", encoding="utf-8")
    assert paper_page.main(["--against", str(tex)]) == 1
    assert "not in the list: eq:new\n" in capsys.readouterr().out

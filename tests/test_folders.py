"""Each folder of tests says at its head what its tests show, so that a reader knows where to look."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDERS = sorted({path.relative_to(HERE).parts[0] for path in HERE.glob("*/**/test_*.py")})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_what_its_tests_show(folder: str):
    said = ast.get_docstring(ast.parse((HERE / folder / "conftest.py").read_text(encoding="utf-8"))) or ""
    first = said.splitlines()[0] if said else ""
    assert first.endswith(".") and len(first.split()) >= 8, "one sentence at least"


def test_no_two_folders_say_the_same():
    said = [ast.get_docstring(ast.parse((HERE / one / "conftest.py").read_text(encoding="utf-8"))) for one in FOLDERS]
    assert len(set(said)) == len(FOLDERS) > 25

"""The specification is small, plain, and knows nothing of the package; nor does the package know of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from experiments.code_lines import ROOT, code_lines

SPEC = sorted((ROOT / "spec").glob("*.py"))
MOST_LINES = 450


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("path", SPEC, ids=lambda path: path.stem)
def test_it_imports_primitives_only(path: Path) -> None:
    ours = {"spec", "cryptography", "msgspec"}
    library = {"__future__", "collections", "dataclasses", "hashlib", "hmac", "json"}
    library |= {"pathlib", "typing"}
    assert imported(path) <= ours | library


def test_nothing_of_the_package_imports_it() -> None:
    for folder in ("src", "lab/src"):
        for path in (ROOT / folder).rglob("*.py"):
            assert "spec" not in imported(path), path


def test_it_has_no_class_hierarchy() -> None:
    for path in SPEC:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert [ast.unparse(base) for base in node.bases] in ([], ["Protocol"]), node.name


def test_it_can_be_read_in_an_hour() -> None:
    assert sum(code_lines(path) for path in SPEC if path.stem != "make_vectors") <= MOST_LINES

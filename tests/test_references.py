"""Modules and files that documents and docstrings name are there: what moves takes its references along."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [
    *(ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md", "THREAT_MODEL.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted((ROOT / "lab").rglob("*.py")),
    *sorted((ROOT / "experiments").rglob("*.py")),
]
ENTRY_POINT_GROUPS = {
    f"codedfl.{name}" for name in ("commands", "datasets", "features", "latencies", "schemes", "solvers", "timings")
}
LOGGERS = re.compile(r'getLogger\("[^"]*"\)')
DOTTED = re.compile(r"\bcodedfl(?:_lab)?(?:\.[a-z_]+)+(?:\.[A-Za-z_]+)?\b")
PATH = re.compile(r"\b(?:src|lab|tests|experiments|docs|apps)/[\w/]+\.(?:py|md|toml)\b")


def exists(dotted: str) -> bool:
    """A module, or a name of one."""
    try:
        importlib.import_module(dotted)
        return True
    except ImportError as error:
        if error.name and not error.name.startswith("codedfl"):  # a package of an extra that is not installed here
            return True
        parent, _, name = dotted.rpartition(".")
        return bool(parent) and exists(parent) and hasattr(importlib.import_module(parent), name)


def stale(text: str) -> set[str]:
    dotted = set(DOTTED.findall(LOGGERS.sub("", text))) - ENTRY_POINT_GROUPS
    return {name for name in dotted if not exists(name)} | {
        path for path in PATH.findall(text) if not (ROOT / path).exists()
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_is_named_is_there(file: Path):
    assert stale(file.read_text(encoding="utf-8")) == set()


def test_what_is_not_there_is_found():
    text = "see ``codedfl.solvers.Nesterov``, ``codedfl.sum.layout.Layout`` and tests/test_nothing.py, tests/oracle.py"
    assert stale(text) == {"codedfl.solvers.Nesterov", "tests/test_nothing.py"}

"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "lab" / "src")
MODULES = sorted(
    ".".join(path.relative_to(source).with_suffix("").parts)
    for source in SOURCES
    for path in source.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_give_what_they_say(module: str):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed

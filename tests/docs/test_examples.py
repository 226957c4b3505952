"""Every public name has an example, and every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import codedfl
import codedfl_lab

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "lab" / "src")
MODULES = sorted(
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
    for source in SOURCES
    for path in source.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", [codedfl, codedfl_lab], ids=lambda package: package.__name__)
def test_every_public_name_has_an_example(package: ModuleType):
    documented = {name: inspect.getdoc(getattr(package, name)) for name in package.__all__ if name != "__version__"}
    assert [name for name, text in documented.items() if "Examples\n--------\n" not in (text or "")] == []


@pytest.mark.parametrize("module", MODULES)
def test_examples_give_what_they_say(module: str):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed


def test_numbers_have_names():
    """Where a text means a number, it names the parameter: a reader cannot look "so many" up."""
    texts = [*(path for source in SOURCES for path in source.rglob("*.py")), *(ROOT / "docs").rglob("*.md")]
    assert [path.name for path in texts if "so many" in path.read_text(encoding="utf-8").lower()] == []

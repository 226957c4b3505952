"""What a file imports is declared where it is installed, with bounds; what is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from codedfl.version import __version__

ROOT = Path(__file__).parents[1]
OURS = {"codedfl", "codedfl_lab"}
IMPORTED_BY_TORCH = "onnxscript"
DEVELOPERS = {"test", "docs", "dist"}  # extras of those who work on the project


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(folder: str) -> tuple[dict[str, Requirement], dict[str, Requirement]]:
    """What always comes along, and what a user may ask for, by name."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {})
    asked = [line for name, lines in extras.items() if name not in DEVELOPERS for line in lines]
    required, optional = ([Requirement(line) for line in lines] for lines in (project["dependencies"], asked))
    return {plain(one.name): one for one in required}, {plain(one.name): one for one in optional}


def min_of(requirement: Requirement) -> str:
    """Its lower bound."""
    (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
    return bound


def imports(source: str) -> Iterator[str]:
    """Every package that a file may import, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


def imported(folder: str) -> set[str]:
    """The distributions that the files of a folder import, except Python itself and ours."""
    found = {name for file in (ROOT / folder).rglob("*.py") for name in imports(file.read_text())}
    providers = packages_distributions()
    # What is not installed here is known by the name that is imported.
    return {plain(providers.get(name, [name])[0]) for name in found - sys.stdlib_module_names - OURS}


def test_what_codedfl_imports_is_declared_and_the_other_way_round():
    required, optional = declared(".")
    assert imported("src") == required.keys() | optional.keys()


def test_what_the_laboratory_imports_is_declared_and_the_other_way_round():
    """Its extras name those of codedfl, whose packages they bring."""
    required, optional = declared("lab")
    codedfl, brought = declared(".")
    ours, found = required.keys() | optional.keys(), imported("lab/src")
    assert found - ours <= codedfl.keys() | brought.keys()
    assert not imported("lab/src") & codedfl.keys() - ours - {"safetensors"}  # which only exports read
    assert ours - found == {"codedfl", IMPORTED_BY_TORCH}


def test_an_import_in_a_function_is_found():
    assert list(imports("import a.b\ndef f():\n    from c import d\n    from . import e\n")) == ["a", "c"]


@pytest.mark.parametrize("folder", [".", "lab"], ids=["codedfl", "codedfl-lab"])
def test_each_requirement_has_one_lower_and_one_upper_bound(folder: str):
    for requirements in declared(folder):
        for requirement in requirements.values():
            assert sorted(one.operator for one in requirement.specifier) == ["<", ">="], str(requirement)


def test_both_distributions_have_the_same_bounds():
    required, optional = declared(".")
    ours = optional | required
    laboratory, _ = declared("lab")
    shared = laboratory.keys() & ours.keys()
    assert {"numpy", "typer", "click", "scikit-learn"} <= shared
    assert {name: laboratory[name].specifier for name in shared} == {name: ours[name].specifier for name in shared}


def test_the_laboratory_takes_the_codedfl_that_it_is_released_with():
    laboratory, _ = declared("lab")
    assert laboratory["codedfl"].specifier.contains(__version__, prereleases=True)


def test_the_tested_versions_are_allowed():
    """constraints.txt has what make installs; a requirement that excludes one of them would be refused by pip."""
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    versions = {plain(name): version for name, version in pinned.items()}
    for required, optional in map(declared, (".", "lab")):
        assert required.keys() - {"codedfl"} <= versions.keys()
        for name, requirement in (optional | required).items():
            assert requirement.specifier.contains(versions.get(name, min_of(requirement))), name

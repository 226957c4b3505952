"""The names one imports from ``codedfl``: all there, none of them loaded before it is asked for."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import codedfl
import codedfl.flower
import codedfl_lab
from codedfl.solve.solver import Solver
from codedfl.version import __version__
from codedfl_lab.comparing.comparison import compare
from codedfl_lab.fleet.latency import LatencyModel
from codedfl_lab.planning.planner import plan
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from wording import exactly

ROOT = Path(__file__).parents[1]


def names_for_type_checkers(package: ModuleType) -> set[str]:
    tree = ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    return {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}


@pytest.mark.parametrize("package", [codedfl, codedfl.flower], ids=lambda package: package.__name__)
def test_type_checkers_readers_and_python_see_the_same_names(package: ModuleType):
    public = set(package.__all__) - {"__version__"}
    assert len(package.__all__) == len(set(package.__all__))
    assert names_for_type_checkers(package) == public
    assert set(dir(package)) == public
    assert {name for name in public if getattr(package, name).__name__ != name} == set()


@pytest.mark.parametrize("package", [codedfl, codedfl.flower], ids=lambda package: package.__name__)
def test_another_name_is_an_attribute_error(package: ModuleType):
    message = f"module {package.__name__!r} has no attribute 'Rnig'"
    with pytest.raises(AttributeError, match=exactly(message)):
        package.Rnig  # noqa: B018


def test_they_are_few_and_those_of_the_laboratory_are_its_own():
    product, laboratory = set(codedfl.__all__) - {"__version__"}, set(codedfl_lab.__all__) - {"__version__"}
    assert len(codedfl.__all__) <= 40 and len(codedfl_lab.__all__) <= 40
    assert not product & laboratory


def test_the_doors_are_public():
    assert (codedfl.Solver, codedfl_lab.Scheme, codedfl_lab.CodedScheme) == (Solver, Scheme, CodedScheme)
    assert (codedfl_lab.LatencyModel, codedfl_lab.compare, codedfl_lab.plan) == (LatencyModel, compare, plan)


def test_the_version_has_one_place():
    """What cannot read it there, a citation, the changelog and an app of Flower's, is compared with it."""
    assert codedfl.__version__ == __version__
    release, development = re.fullmatch(r"(\d+\.\d+\.\d+)(\.dev\d+)?", __version__).groups()
    assert f"\nversion: {release}{development or ''}\n" in (ROOT / "CITATION.cff").read_text()
    package, app = (tomllib.loads((ROOT / name / "pyproject.toml").read_text()) for name in (".", "apps/flower"))
    assert package["project"]["dynamic"] == ["version"]
    assert package["tool"]["hatch"]["version"]["path"] == "src/codedfl/version.py"
    assert app["project"]["version"] == release
    topmost = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert re.fullmatch(rf"{re.escape(release)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", topmost)
    assert ("unreleased" in topmost) == (development is not None)

"""What a release carries: a bill of materials in each wheel, an app that Flower Hub takes, workflows that can run."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from codedfl.version import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def project(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
    return found


def bill(folder: str) -> dict[str, Any]:
    pytest.importorskip("hatchling", reason="make dist installs what builds wheels")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    found: dict[str, Any] = hook.bill_of_materials(project(folder)["project"], __version__)
    return found


@pytest.mark.parametrize("folder", [".", "lab"])
def test_the_bill_of_materials_has_every_requirement(folder: str):
    said = project(folder)["project"]
    extras = {
        name: lines for name, lines in said["optional-dependencies"].items() if name not in ("test", "docs", "dist")
    }
    needed = {Requirement(line).name.lower().replace("_", "-") for line in said["dependencies"]}
    optional = {Requirement(line).name.lower().replace("_", "-") for lines in extras.values() for line in lines}
    found = bill(folder)
    assert {one["name"] for one in found["components"] if one["scope"] == "required"} == needed
    assert {one["name"] for one in found["components"] if one["scope"] == "optional"} == optional - needed
    assert found["metadata"]["component"]["purl"] == f"pkg:pypi/{said['name']}@{__version__}"
    assert bill(folder) == found, "the same sources give the same bytes"
    (numpy,) = (one for one in bill(".")["components"] if one["name"] == "numpy")
    assert numpy["properties"] == [{"name": "python:requirement", "value": ">=1.26,<3"}]


def test_both_wheels_are_built_with_it():
    hooks = [
        project(folder)["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"] for folder in (".", "lab")
    ]
    assert hooks == [{}, {"path": "../hatch_build.py"}]
    assert (ROOT / "lab" / hooks[1]["path"]).exists()


# Flower calls its patterns of files by an old name.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_flower_hub_takes_the_app():
    publish = pytest.importorskip("flwr.cli.app_cmd.publish", reason="flwr is an extra")
    from flwr.cli.config_utils import load_and_validate

    app = ROOT / "apps" / "flower"
    config, warnings = load_and_validate(app / "pyproject.toml", check_module=False)
    assert warnings == []
    assert 0 < len(config["project"]["description"]) <= 200
    publish._validate_description(config["project"]["description"])
    publish._validate_app_name(app.name, "Flower App directory name")
    files = publish._collect_file_paths(app)
    publish._validate_files(files)
    assert {"README.md", "LICENSE", "pyproject.toml", "client.py", "server.py"} <= {one.name for one in files}
    keys = set(config["tool"]["flwr"]["app"]["config"])
    guide = (ROOT / "docs" / "deploy-flower.md").read_text()
    assert [key for key in keys if f"`{key}`" not in guide] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_what_there_is(path: Path):
    text, makefile = path.read_text(), (ROOT / "Makefile").read_text()
    assert "\npermissions:\n  contents: read\n" in text, "no job has more than it asks for"
    assert [one for one in re.findall(r"run: make (\S+)", text) if f"\n{one}:" not in makefile] == []
    assert [
        one for one in re.findall(r"python -m (\S+)", text) if not (ROOT / f"{one.replace('.', '/')}.py").exists()
    ] == []
    assert re.findall(r"secrets\.", text) == [], "the index trusts the workflow: no token is stored"


def test_a_release_is_tried_attested_and_only_then_published():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    steps = ["make test", "make dist", "attest-build-provenance", "attest-sbom", "gh-action-pypi-publish"]
    places = [text.index(one) for one in steps]
    assert places == sorted(places)


def test_supported_versions_have_this_one():
    series = ".".join(__version__.split(".")[:2])
    assert f"| {series}.x | yes" in (ROOT / "SECURITY.md").read_text()

"""The bill of materials of a wheel, written when it is built: CycloneDX 1.6, in ``.dist-info/sboms`` (PEP 770).

Both distributions use it (``tool.hatch.build.targets.wheel.hooks.custom``). It says what the wheel is and what it
needs: each requirement with its bounds, and the extra that wants it. Nothing is bundled. The same sources give the
same bytes.
"""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/codedfl/codedfl")
DEVELOPERS = ("test", "docs", "dist")  # extras of those who work on the project
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<extras>[^]]*)\])?(?P<bounds>.*)")


def bill_of_materials(project: dict[str, Any], version: str) -> dict[str, Any]:
    """What ``[project]`` of a pyproject.toml needs, as CycloneDX.

    >>> found = bill_of_materials({"name": "x", "license": "Apache-2.0", "dependencies": ["numpy>=1.26,<3"]}, "1.0")
    >>> [(one["purl"], one["properties"][0]["value"]) for one in found["components"]]
    [('pkg:pypi/numpy', '>=1.26,<3')]
    """
    whole = f"pkg:pypi/{project['name']}@{version}"
    wanted = [("", line) for line in project["dependencies"]]
    for extra, lines in project.get("optional-dependencies", {}).items():
        wanted += [(extra, line) for line in lines if extra not in DEVELOPERS]
    components: dict[str, dict[str, Any]] = {}
    for extra, line in wanted:
        found = _REQUIREMENT.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"a requirement must be a name with bounds, got {line!r}")
        name = found["name"].lower().replace("_", "-")
        scope = "optional" if extra else "required"
        one = components.setdefault(name, _component(name, scope))
        said = {"name": "python:requirement", "value": found["bounds"]}
        extras = [{"name": "python:extra", "value": extra}] if extra else []
        one["properties"] += [item for item in (said, *extras) if item not in one["properties"]]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMES, whole)}",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "library",
                "bom-ref": whole,
                "name": project["name"],
                "version": version,
                "purl": whole,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": list(components.values()),
        "dependencies": [{"ref": whole, "dependsOn": [one["bom-ref"] for one in components.values()]}],
    }


def _component(name: str, scope: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}"
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "scope": scope, "properties": []}


class CustomBuildHook(BuildHookInterface):
    """Adds the file to every wheel but that of an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        project = self.metadata.config["project"]
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / f"{project['name']}.cdx.json"
        path.write_text(
            json.dumps(bill_of_materials(project, self.metadata.version), indent=1) + "\n", encoding="utf-8"
        )
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version != "editable":
            self._folder.cleanup()

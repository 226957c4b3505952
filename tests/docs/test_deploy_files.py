"""The units and the container file: every command and option in them exists, every variable is explained."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from command_line import parsed

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
VARIABLES = dict(
    line.split("=", 1)
    for line in (ROOT / "deploy" / "systemd" / "machine.env").read_text().splitlines()
    if not line.startswith("#")
)


def unit(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text(encoding="utf-8").replace("\\\n", " "))
    return parser


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_closed_and_starts_what_there_is(path: Path):
    found = unit(path)
    service = found["Service"]
    assert found["Install"]["WantedBy"] == "multi-user.target" and service["User"] == "codedfl"
    assert service["NoNewPrivileges"] == "yes" and service["ProtectSystem"] == "strict"
    command = service["ExecStart"]
    used = set(re.findall(r"\$\{(\w+)\}", command))
    assert used <= set(VARIABLES) and ("EnvironmentFile" in service) == bool(used)
    for name in used:
        command = command.replace("${" + name + "}", VARIABLES[name])
    program, *arguments = shlex.split(command)
    if program.endswith("/codedfl"):
        parsed(arguments)
    else:
        assert Path(program).name in ("flower-superlink", "flower-supernode")


def test_units_are_all_named_in_the_guide_and_the_other_way_round():
    guide = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "docs").glob("deploy*.md"))
    assert set(re.findall(r"codedfl-\w+\.service", guide)) == {path.name for path in UNITS}


def test_the_container_starts_the_command_as_a_user_of_its_own():
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    assert 'ENTRYPOINT ["codedfl"]' in lines and "USER codedfl" in lines
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.nightly
def test_the_container_is_built_where_there_is_a_builder():
    found = (name for name in ("podman", "docker") if shutil.which(name) and succeeds(name, "info"))
    builder = next(found, None)
    if builder is None:
        pytest.skip("no builder: neither podman nor docker with a daemon")
    for base in set(re.findall(r"^FROM (\S+)", (ROOT / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)):
        if not succeeds(builder, "pull", base):
            pytest.skip(f"no network: {base} cannot be pulled")
    assert succeeds(builder, "build", "--file", "Containerfile", "--tag", "codedfl-test", ".")
    assert succeeds(builder, "run", "--rm", "codedfl-test", "--version")


def succeeds(*command: str) -> bool:
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0

"""The probe as a run of its own: what ``codedfl fleet probe`` does.

Flower runs apps only, and ships an app's files to all nodes. So a few lines around ``codedfl``, which the nodes have
installed, are written as an app, run, and forgotten. The server app may be on another machine than the user; the fleet
comes back in its log.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import tomli_w

from codedfl.engine.learning import Config
from codedfl.engine.probe import FLEET_LINE, ProbeConfig
from codedfl.fleet.fleet import Fleet
from codedfl.flower.flwr_program import FlowerFailed, FlowerProgram
from codedfl.version import __version__

_PYPROJECT = """\
[project]
name = "codedfl-probe"
version = "{version}"
description = "Measure the nodes of a federation."
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41,<1.42"]

[tool.flwr.app]
publisher = "codedfl"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "codedfl_probe:server_app"
clientapp = "codedfl_probe:client_app"

[tool.flwr.app.config]
{config}
"""
_APP = '''\
"""Measure the nodes; there is no training in this app, so it never loads rows."""

from codedfl.flower import make_client_app, make_server_app

client_app = make_client_app(lambda context: ((), ()))
server_app = make_server_app()
'''
_MEASURED = re.compile(r"^(.+): \S+ MAC/s, ")


def probe_fleet(
    flwr: FlowerProgram, config: Config, on_device: Callable[[str, int], None] = lambda _line, _measured: None
) -> Fleet:
    """Measure the nodes of a SuperLink.

    config: as ``ProbeConfig`` reads it, without mode and fleet-file.
    on_device: told every line of the server's log about a device, and how many are measured so far.
    """
    ProbeConfig.from_config(config)  # what is wrong with it is said here, not in a log far away
    with tempfile.TemporaryDirectory(prefix="codedfl-probe-") as folder:
        run = flwr.start_run(write_probe_app(Path(folder), config), {})
    lines, measured = [], 0
    try:
        for line in flwr.follow(run):
            lines.append(line)
            if (fleet := _fleet_in(line)) is not None:
                return fleet
            if _MEASURED.match(line) or "cannot" in line:
                measured += bool(_MEASURED.match(line))
                on_device(line, measured)
    except KeyboardInterrupt:
        flwr.stop(run)  # or the nodes would go on
        raise
    raise FlowerFailed(f"the probe must end with a fleet, got {' / '.join(lines[-3:]) or 'an empty log'}")


def _fleet_in(line: str) -> Fleet | None:
    """A device may be called as the line with the fleet begins: what follows a name is no JSON."""
    if not line.startswith(FLEET_LINE):
        return None
    try:
        text = json.loads(line.removeprefix(FLEET_LINE))
    except ValueError:
        return None
    return Fleet.loads(text, source="the probed fleet")


def write_probe_app(folder: Path, config: Config) -> Path:
    """The app's files in a folder; returns it."""
    settings = {"mode": "probe", "fleet-file": "", **config}
    lines = tomli_w.dumps(settings)
    release = __version__.partition(".dev")[0]  # Flower takes digits only
    (folder / "pyproject.toml").write_text(_PYPROJECT.format(version=release, config=lines), encoding="utf-8")
    (folder / "LICENSE").write_text("Apache-2.0, as codedfl itself.\n")
    (folder / "codedfl_probe").mkdir()
    (folder / "codedfl_probe" / "__init__.py").write_text(_APP)
    return folder

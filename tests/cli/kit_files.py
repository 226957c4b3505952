"""Kits of the study and roster in the current folder, as the coordinator would have made them."""

from __future__ import annotations

from pathlib import Path

from command_runner import invoke

from codedfl.contract.enrolment import ENDING as ENDING_OF_REQUESTS
from codedfl.contract.kit import ENDING, Kit
from codedfl.contract.roster import load_roster
from codedfl.crypto.key_files import SERVER_KEY, load_identity

REQUESTS = Path("requests")
NOBODY = "mqtt://127.0.0.1:1"  # where no broker is


def kit_of(name: str, study: str = "study.toml", roster: str = "roster.toml", broker: str = NOBODY) -> str:
    """The kit's file."""
    path = Path(f"{name}{ENDING}")
    Kit(name, Path(study).read_text(), load_roster(roster), broker).save(path)
    return str(path)


def enrol(*names: str, state: str = "state") -> list[str]:
    """The requests of devices whose keys are made below ``state``."""
    paths = [str(REQUESTS / f"{name}{ENDING_OF_REQUESTS}") for name in names]
    for name, path in zip(names, paths, strict=True):
        assert invoke("site", "enrol", name, "--state", state, "--out", path).exit_code == 0
    return paths


def server_key(state: str = "state") -> str:
    """The line of a study that names the server with this state."""
    return f'server_key = "{load_identity(Path(state) / SERVER_KEY).public.hex()}"'

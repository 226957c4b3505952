"""Kits of the study and roster in the current folder, as the coordinator would have made them."""

from __future__ import annotations

from pathlib import Path

from codedfl.contract.kit import ENDING, Kit
from codedfl.contract.roster import load_roster

NOBODY = "mqtt://127.0.0.1:1"  # where no broker is


def kit_of(name: str, study: str = "study.toml", roster: str = "roster.toml", broker: str = NOBODY) -> str:
    """The kit's file."""
    path = Path(f"{name}{ENDING}")
    Kit(name, Path(study).read_text(), load_roster(roster), broker).save(path)
    return str(path)

"""Protocol 3 is gone: a device keeps no state of a run, so nothing of a conversation is left in either distribution.

Its letters, checkpoints and journals were some 8 600 lines. What comes back under one of their names is seen here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from experiments.code_lines import DISTRIBUTIONS, ROOT

FOLDERS = ("protocol", "engine")  # sum/ and engines/ took their places
# Whole words of identifiers: Checkpointed and checkpoint_fields are both.
OF_A_CONVERSATION = (
    *("checkpoint", "invitation", "complaint", "conductor", "agreement", "letterbox", "run_key", "encrypt_bulk"),
    *("roll_call", "owner_list", "prepared_pad", "device_host", "resident_host", "state_journal", "role_key_round"),
)
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_of(identifier: str) -> str:
    """Snake case of any identifier, between underscores."""
    return "_" + "_".join(word.lower() for word in WORDS.findall(identifier)) + "_"


def identifiers(text: str) -> set[str]:
    """What is defined, imported, or named anywhere."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        for field in ("name", "id", "attr", "arg", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found


def of_the_old_path(text: str) -> set[str]:
    """Identifiers that speak of it."""
    wanted = re.compile("_(" + "|".join(OF_A_CONVERSATION) + ")(s|ed|ing)?_")
    return {one for one in identifiers(text) if wanted.search(words_of(one))}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_nothing_of_it_is_left(distribution: str) -> None:
    files = sorted((ROOT / distribution).rglob("*.py"))
    assert len(files) > 50
    for path in files:
        assert path.parent.name not in FOLDERS, path
        assert of_the_old_path(path.read_text(encoding="utf-8")) == set(), path


def test_it_would_be_seen() -> None:
    text = "class OwnerListChecker(Checkpointed):\n    checkpoint_fields = RunKey(agreement=1)"
    seen = {"OwnerListChecker", "Checkpointed", "checkpoint_fields", "RunKey", "agreement"}
    assert of_the_old_path(text) == seen
    assert Path(ROOT / "src/codedfl/sum").is_dir() and Path(ROOT / "src/codedfl/engines").is_dir()

"""A register loads the file of the name that it is asked for, and all files only for a name that no file has."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from codedfl.statistics.statistic import STATISTICS
asked = sys.argv[1]
print(asked in STATISTICS, sum(name.startswith("codedfl.statistics.") for name in sys.modules))
"""


def asked(name: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=True, timeout=60)
    known, modules = done.stdout.split()
    return known == "True", int(modules)


def test_a_name_loads_its_own_file():
    assert asked("histogram") == (True, 3)  # itself, what every statistic is, and the Gram matrix that it is made with


@pytest.mark.parametrize(("name", "known"), [("survival", True), ("weighted-times", True), ("mean", False)])
def test_every_name_is_found_and_no_other(name: str, known: bool):
    assert asked(name)[0] is known


@pytest.mark.parametrize("name", ["../errors", "gram.GramSum", "", "os", "__init__", "statistic"])
def test_a_name_is_never_a_path(name: str):
    """It may be a stranger's text: nothing outside of the folder is imported, nor anything that is no statistic."""
    assert asked(name)[0] is False

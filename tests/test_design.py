"""DESIGN.md's table of folders is the one the folders make, in the order of the layers."""

from __future__ import annotations

import pytest
from experiments.design_table import HEADING, ROOT, first_line, folder_table

from test_layers import LAYERS


def shown_table() -> list[str]:
    lines = (ROOT / "DESIGN.md").read_text(encoding="utf-8").splitlines()
    begin = lines.index(HEADING[0]) if HEADING[0] in lines else len(lines)
    shown = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        shown.append(line)
    return shown


def test_the_table_in_the_design_is_that_of_the_folders():
    assert shown_table() == folder_table(LAYERS)


@pytest.mark.parametrize(("package", "folder"), [(package, name) for package in LAYERS for name in LAYERS[package]])
def test_every_folder_says_in_one_sentence_what_it_is(package: str, folder: str):
    line = first_line(package, folder)
    assert line.endswith(".") and 20 < len(line) <= 120 and "|" not in line

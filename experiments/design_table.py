"""DESIGN.md's table of folders, made from the folders themselves: one row each, bottom to top.

    python -m experiments.design_table

What stands in a row is the first line of the folder's docstring; ``tests/test_design.py`` compares.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADING = ["| folder | what it is |", "|---|---|"]


SOURCES = {"codedfl": ROOT / "src" / "codedfl", "codedfl_lab": ROOT / "lab" / "src" / "codedfl_lab"}


def folder_table(layers: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines of Markdown; ``layers`` are the folders of each distribution in order."""
    return HEADING + [
        f"| `{package}/{name}/` | {first_line(package, name)} |" for package, names in layers.items() for name in names
    ]


def first_line(package: str, folder: str) -> str:
    source = (SOURCES[package] / folder / "__init__.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return docstring.partition("\n")[0].replace("``", "`")


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))  # the order of the layers is written down where it is tested
    from test_layers import LAYERS

    print("\n".join(folder_table(LAYERS)))


if __name__ == "__main__":
    main()

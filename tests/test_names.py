"""A type name has one meaning over both distributions: whoever searches for a class finds it, and no other."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import codedfl
import codedfl_lab


def classes() -> dict[str, set[Path]]:
    """Public classes, and the modules that define them."""
    found: dict[str, set[Path]] = defaultdict(set)
    for package in (codedfl, codedfl_lab):
        for path in Path(package.__file__ or "").parent.rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].add(path)
    return found


def test_a_type_name_has_one_meaning():
    found = classes()
    assert {"Study", "Device", "CodedSession"} <= found.keys()
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}

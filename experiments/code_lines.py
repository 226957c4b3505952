"""Lines of code, without blank lines, comments and docstrings (``python -m experiments.code_lines``)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = ["src/codedfl", "lab/src/codedfl_lab"]


def code_lines(path: Path) -> int:
    """Lines of one file on which there is code."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(
        1 for number, line in lines if number not in docstrings and line.strip() and not line.strip().startswith("#")
    )


def by_folder(root: Path) -> dict[str, int]:
    """Lines of each folder below a package, its flat modules under "."."""
    found: dict[str, int] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        folder = parts[0] if len(parts) > 1 else "."
        found[folder] = found.get(folder, 0) + code_lines(path)
    return found


def main(folders: list[str]) -> None:
    """Print them for each folder of the repository that is named; for both distributions if none is."""
    total = 0
    for folder in folders or DISTRIBUTIONS:
        counts = by_folder(ROOT / folder)
        total += sum(counts.values())
        for name, lines in sorted(counts.items(), key=lambda one: -one[1]):
            print(f"{lines:7d}  {folder}/{name}")
        print(f"{sum(counts.values()):7d}  {folder}")
    print(f"{total:7d}  together")


if __name__ == "__main__":
    main(sys.argv[1:])

"""docs/protocol.md, made of the specification: ``python -m experiments.docs_protocol`` writes it, a test compares.

The sentences are in spec/page.md. Code is cut out of spec/ by name (``<<numbers.places>>``), and sizes are those of the
test vectors (``<<bytes draw>>``).
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

from spec import make_vectors, wire

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "protocol.md"


@cache
def sizes() -> dict[str, tuple[int, int]]:
    """The first request of each kind in the vectors that is answered, and its reply."""
    found: dict[str, tuple[int, int]] = {}
    for step in make_vectors.exchange()[0]["steps"]:
        if step["kind"] == "ok":
            found.setdefault(step["what"], (len(step["receives"]) // 2, len(step["sends"]) // 2))
    return found


def shapes() -> str:
    """The table of shapes, as it stands in spec/wire.py."""
    text = inspect.getsource(wire)
    return text[text.index("# A dict is") : text.index("\n\ndef ")].strip()


def filled(wanted: str) -> str:
    """What stands in the page for ``<<wanted>>``."""
    first, *names = wanted.split()
    if wanted == "wire shapes":
        return f'```python title="from the specification"\n{shapes()}\n```'
    if first == "bytes":
        return "{} / {}".format(*sizes()[names[0]])
    found = []
    for name in (first, *names):
        module, _, attribute = name.partition(".")
        found.append(inspect.getsource(getattr(importlib.import_module(f"spec.{module}"), attribute)).rstrip())
    return '```python title="from the specification"\n' + "\n\n\n".join(found) + "\n```"


def page() -> str:
    """The whole page."""
    template = (ROOT / "spec" / "page.md").read_text(encoding="utf-8")
    return re.sub(r"<<(.+?)>>", lambda found: filled(found[1]), template)


def main() -> None:
    """Write it."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

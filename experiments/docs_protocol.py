"""docs/protocol.md, made of the specification: ``python -m experiments.docs_protocol`` writes it, a test compares.

The sentences are in spec/page.md. Code is cut out of spec/ by name (``<<numbers.pack>>``), and sizes are measured on a
run of the specification (``<<bytes share>>``).
"""

from __future__ import annotations

import importlib
import inspect
import random
import re
from functools import cache
from pathlib import Path

from spec import coded_padded, fixed_point, parties, role_keys, secrets, wire

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "protocol.md"
SCHEMES = ("coded-padded", "role-keys")


class _TwoProducts:
    """The plainest solver."""

    def __init__(self, d: int, outputs: int) -> None:
        self._left, self._e = 2, [[0.5] * outputs for _ in range(d)]

    def __call__(self, e: fixed_point.Reals, total: list[float]) -> fixed_point.Reals | None:
        del e, total
        self._left -= 1
        return self._e if self._left >= 0 else None


@cache
def sizes(scheme: str) -> dict[str, int]:
    """The largest message of each kind in a run with D = 5, d = 10 and two outputs."""
    names, d, outputs = [f"device-{i}" for i in range(5)], 10, 2
    alpha, z = (3, 0) if scheme == "coded-padded" else (1, 1)
    terms = fixed_point.Parameters(scheme, alpha, d, outputs, 1.0, 1.0, 100, 20, epochs=3, colluders=z)
    server_public = secrets.identity_of(bytes(32))
    roster = {name: secrets.identity_of(name.encode().ljust(32)) for name in names}
    found: dict[str, int] = {}

    def seen(data: bytes) -> bytes:
        kind = wire.decode(data).kind
        found[kind] = max(found.get(kind, 0), len(data))
        return data

    def line(name: str) -> parties.Send:
        drawn = random.Random(name)
        X, Y = ([[drawn.uniform(-1, 1) for _ in range(width)] for _ in range(4)] for width in (d, outputs))
        pods, secret = [frozenset(names)], name.encode().ljust(32)
        device = parties.Device(name, secret, server_public, terms, roster, pods, 2, X, Y, drawn.randbytes)
        receive = coded_padded.receive if scheme == "coded-padded" else role_keys.receive
        return lambda data: [seen(reply) for reply in receive(device, seen(data))]

    server = parties.Server(bytes(32), {name: line(name) for name in names}, random.Random(1).randbytes)
    if scheme == "coded-padded":
        coded_padded.run(server, terms, _TwoProducts(d, outputs), frozenset())
    else:
        role_keys.run(server, terms, _TwoProducts(d, outputs), {name: i % (z + 1) for i, name in enumerate(names)}, {})
    return found


def filled(wanted: str) -> str:
    """What stands in the page for ``<<wanted>>``."""
    first, *names = wanted.split()
    if first == "version":
        return str(wire.VERSION)
    if first == "bytes":
        return " / ".join(str(sizes(scheme).get(names[0], "–")) for scheme in SCHEMES)
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

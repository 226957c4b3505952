"""Layers import downwards only, state machines do no I/O, and only ``codedfl.flower`` knows flwr.

Read from the source, not from what happens to be imported. A new module or package at the top of ``codedfl`` must be
given a place in ``LAYERS``, or the first test fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import codedfl

ROOT = Path(codedfl.__file__).parent

# Bottom to top: what is in a layer, and which layers it may import besides itself.
BELOW_SCHEMES = ("foundation", "arithmetic", "code", "protocol", "data", "time")
BELOW_DRIVERS = (*BELOW_SCHEMES, "schemes")
BELOW_REPORT = (*BELOW_DRIVERS, "drivers", "views")
LAYERS: dict[str, tuple[set[str], tuple[str, ...]]] = {
    "foundation": ({"errors", "matrix_check", "resumable"}, ()),
    "arithmetic": (
        {"ring_loops", "ring_kernels", "ring", "fixed_point", "paper_arithmetic", "row_reduction"},
        ("foundation",),
    ),
    "code": ({"gradient_code", "answer_check", "pads", "sealed", "solvers"}, ("foundation", "arithmetic")),
    "protocol": ({"protocol"}, ("foundation", "arithmetic", "code")),
    "data": (
        {"datasets", "features", "labels", "partition", "preprocessing", "problem", "model"},
        ("foundation", "arithmetic"),  # the public bounds of ``fixed_point``
    ),
    "time": ({"fleet", "latency", "load_allocation"}, ("foundation",)),
    "schemes": ({"central", "schemes"}, BELOW_SCHEMES),
    "drivers": (
        {"liar_log", "in_process", "simulator", "comparison", "planner", "secure_sum", "missing_devices", "estimators"},
        BELOW_DRIVERS,
    ),
    "views": ({"views", "baseline_views", "privacy"}, BELOW_DRIVERS),  # who sees what, for attacks and tables
    "flower": ({"flower"}, BELOW_REPORT),
    "report": ({"report", "claims", "trace"}, BELOW_REPORT),
    "studies": ({"reproduce", "beyond"}, (*BELOW_REPORT, "report")),
    "command line": ({"cli", "__main__"}, (*BELOW_REPORT, "flower", "report", "studies")),
}
LAYER_OF = {module: layer for layer, (modules, _) in LAYERS.items() for module in modules}

# What a state machine has no business with: clocks, files, networks, other processes, hidden randomness.
IO_MODULES = {
    *("time", "datetime", "socket", "ssl", "select", "selectors", "asyncio", "threading", "multiprocessing"),
    *("os", "io", "pathlib", "shutil", "tempfile", "subprocess", "signal", "logging", "random"),
    *("http", "urllib", "requests", "sqlite3", "pickle", "shelve", "uuid"),
}
IO_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint"}


@cache
def modules() -> dict[str, Path]:
    """Dotted name below ``codedfl`` -> file; a package is named by its folder."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path
    return found


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def imports(name: str) -> Iterator[tuple[str, int]]:
    """Absolute dotted names a module imports, wherever in it, with the line."""
    package = modules()[name].name == "__init__.py"
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = ["codedfl", *name.split(".")] if name else ["codedfl"]
                kept = here[: len(here) - node.level + package]
                base = ".".join([*kept, base] if base else kept)
            # "from codedfl import pads" imports a module; "from codedfl.pads import expand" a name of one.
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield (full if full.removeprefix("codedfl.") in modules() else base), node.lineno


def internal_imports(name: str) -> Iterator[tuple[str, int]]:
    """Modules of codedfl itself, as dotted names below it; "" is the package itself."""
    for target, line in imports(name):
        if target == "codedfl" or target.startswith("codedfl."):
            yield target.removeprefix("codedfl").removeprefix("."), line


def test_every_module_has_a_layer():
    unplaced = {name.split(".")[0] for name in modules() if name} - set(LAYER_OF)
    assert not unplaced, f"give these a place in LAYERS of {Path(__file__).name}: {sorted(unplaced)}"


def test_no_module_is_in_two_layers():
    assert sum(len(members) for members, _ in LAYERS.values()) == len(LAYER_OF)


def test_layers_are_listed_bottom_to_top():
    seen: list[str] = []
    for layer, (_, below) in LAYERS.items():
        assert set(below) <= set(seen), layer
        seen.append(layer)


@pytest.mark.parametrize("name", [name for name in modules() if name])
def test_imports_go_downwards_only(name: str):
    layer = LAYER_OF.get(name.split(".")[0])
    assert layer is not None, "see test_every_module_has_a_layer"
    allowed = {layer, *LAYERS[layer][1]}
    wrong = [
        f"line {line}: {target or 'codedfl itself'}"
        for target, line in internal_imports(name)
        if LAYER_OF.get(target.split(".")[0]) not in allowed
    ]
    assert not wrong, f"{name} ({layer}) must import only from {sorted(allowed)}"


def test_there_are_no_import_cycles():
    graph = {name: {target for target, _ in internal_imports(name) if target != name} for name in modules()}
    # A package's __init__ re-exports its modules; that they live in it is no dependency.
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle
    assert order.index("errors") < order.index("ring") < order.index("pads") < order.index("protocol.device")


@pytest.mark.parametrize("name", [name for name in modules() if name.split(".")[0] in ("protocol", "schemes")])
def test_state_machines_do_no_io(name: str):
    imported = {target.split(".")[0] for target, _ in imports(name)}
    assert not imported & IO_MODULES
    called = {
        node.func.id for node in ast.walk(tree(name)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & IO_CALLS


@pytest.mark.parametrize("name", [name for name in modules() if name.split(".")[0] == "protocol"])
def test_the_protocol_draws_no_randomness_of_its_own(name: str):
    """``secrets.token_bytes`` is the default of an argument and nothing else; numpy's generators are never used."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("np", "random"), ("numpy", "random")}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in {"token_bytes", "token_hex", "randbelow", "urandom"}, ast.unparse(node)


@pytest.mark.parametrize("name", list(modules()))
def test_only_flower_knows_flwr(name: str):
    if name.split(".")[0] != "flower":
        assert not [target for target, _ in imports(name) if target.split(".")[0] == "flwr"]


def test_pickle_is_used_nowhere():
    for name in modules():
        assert not {target.split(".")[0] for target, _ in imports(name)} & {"pickle", "shelve", "marshal", "dill"}


# -- the reader itself


def test_the_reader_sees_all_forms_of_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = "import os.path\nfrom codedfl import pads\nfrom codedfl.ring import Ring\nfrom . import masks\n"
    source += "from ..errors import InvalidInput\ndef f():\n    import time\n"
    file = tmp_path / "example.py"
    file.write_text(source)
    monkeypatch.setitem(modules(), "protocol.example", file)
    seen = {target for target, _ in imports("protocol.example")}
    assert seen == {"os.path", "codedfl.pads", "codedfl.ring", "codedfl.protocol.masks", "codedfl.errors", "time"}
    tree.cache_clear()

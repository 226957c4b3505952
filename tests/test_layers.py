"""A folder is a layer: folders import downwards only, in both distributions, and the product never imports the lab.

State machines do no I/O; only ``codedfl.flower`` knows flwr, only ``codedfl.mqtt`` the MQTT client.

Read from the source, not from what happens to be imported. This test knows folders, never modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import codedfl
import codedfl_lab

# Bottom to top; a folder may import what stands above it in this list, and itself. The lab may import all of codedfl.
FOUNDATION = {
    *("errors", "typing", "typed", "checks", "files", "logs", "private_files", "version", "on_demand"),
    *("additions", "registry"),
}
LAYERS = {
    "codedfl": [
        "exact",
        "crypto",
        "sum",
        "privacy",
        "data",
        "solve",
        "contract",
        "statistics",
        "mqtt",
        "engines",
        "device",
        "analyses",
        "authoring",
        "report",
        "run",
        "flower",
        "estimators",
        "cli",
    ],
    "codedfl_lab": [
        "problems",
        "primes",
        "code",
        "privacy",
        "coded",
        "parties",
        "schemes",
        "fleet",
        "costs",
        "baselines",
        "datasets",
        "encoders",
        "training",
        "comparing",
        "planning",
        "paper",
        "reproduce",
        "report",
        "cli",
    ],
}
ROOTS = {"codedfl": Path(codedfl.__file__).parent, "codedfl_lab": Path(codedfl_lab.__file__).parent}
TOP = {"__main__", "__init__"}

# What a state machine has no business with: clocks, files, networks, other processes, hidden randomness.
IO_MODULES = {
    *("time", "datetime", "socket", "ssl", "select", "selectors", "asyncio", "threading", "multiprocessing"),
    *("os", "io", "pathlib", "shutil", "tempfile", "subprocess", "signal", "logging", "random"),
    *("http", "urllib", "requests", "sqlite3", "pickle", "shelve", "uuid"),
}
IO_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint"}


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file; a package is named by its folder."""
    found = {}
    for package, root in ROOTS.items():
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return found


def folder(name: str) -> str:
    """The folder of a module, such as "protocol", or its own name where it lies flat; "" is the package itself."""
    return (*name.split("."), "")[1]


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
                here = name.split(".")
                kept = here[: len(here) - node.level + package]
                base = ".".join([*kept, base] if base else kept)
            # "from codedfl import pads" imports a module; "from codedfl_lab.primes.pads import expand" a name of one.
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield (full if full in modules() else base), node.lineno


def internal_imports(name: str) -> Iterator[tuple[str, int]]:
    """Modules of the two distributions."""
    for target, line in imports(name):
        if target.split(".")[0] in ROOTS:
            yield target, line


def rank(name: str) -> tuple[int, int]:
    """The distribution, then 0 for the foundation or the place of the folder among the layers."""
    package = name.split(".")[0]
    at = 0 if folder(name) in FOUNDATION else 1 + LAYERS[package].index(folder(name))
    return list(ROOTS).index(package), at


@pytest.mark.parametrize("package", ROOTS)
def test_every_folder_is_a_layer(package: str):
    folders = {path.name for path in ROOTS[package].iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders == set(LAYERS[package])


@pytest.mark.parametrize("package", ROOTS)
def test_only_the_foundation_lies_flat(package: str):
    flat = {path.stem for path in ROOTS[package].glob("*.py")} - TOP
    assert flat == (FOUNDATION if package == "codedfl" else set())


@pytest.mark.parametrize("name", [name for name in modules() if folder(name) not in {"", *TOP}])
def test_imports_go_downwards_only(name: str):
    wrong = [
        f"line {line}: {target}"
        for target, line in internal_imports(name)
        if not folder(target) or rank(target) > rank(name)
    ]
    assert not wrong, f"{name} must import only what lies below it"


def test_there_are_no_import_cycles():
    graph = {name: {target for target, _ in internal_imports(name) if target != name} for name in modules()}
    # A package's __init__ re-exports its modules; that they live in it is no dependency.
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle
    places = [order.index(f"codedfl.{name}") for name in ("errors", "crypto.sealed", "sum.device")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", [name for name in modules() if folder(name) in ("coded", "costs", "baselines")])
def test_state_machines_do_no_io(name: str):
    imported = {target.split(".")[0] for target, _ in imports(name)}
    assert not imported & IO_MODULES
    called = {
        node.func.id for node in ast.walk(tree(name)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & IO_CALLS


@pytest.mark.parametrize("name", [name for name in modules() if folder(name) == "coded"])
def test_the_protocol_draws_no_randomness_of_its_own(name: str):
    """``secrets.token_bytes`` is the default of an argument and nothing else; numpy's generators are never used."""
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("np", "random"), ("numpy", "random")}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in {"token_bytes", "token_hex", "randbelow", "urandom"}, ast.unparse(node)


@pytest.mark.parametrize("name", list(modules()))
def test_only_an_engine_knows_its_library(name: str):
    owned = {"flwr": "flower", "paho": "mqtt", "mqtt5": "mqtt"}
    for target, _ in imports(name):
        assert owned.get(target.split(".")[0], folder(name)) == folder(name)


def test_engines_do_not_know_each_other():
    for name in modules():
        if folder(name) in ("flower", "mqtt"):
            known = {folder(target) for target, _ in internal_imports(name)}
            assert known & {"flower", "mqtt"} <= {folder(name)}


def test_pickle_is_used_nowhere():
    for name in modules():
        assert not {target.split(".")[0] for target, _ in imports(name)} & {"pickle", "shelve", "marshal", "dill"}


# -- the reader itself


def test_the_reader_sees_all_forms_of_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = "import os.path\nfrom codedfl_lab.primes import pads\nfrom codedfl_lab.primes.ring import Ring\n"
    source += "from . import device\nfrom ..errors import InvalidInput\ndef f():\n    import time\n"
    file = tmp_path / "example.py"
    file.write_text(source)
    monkeypatch.setitem(modules(), "codedfl.sum.example", file)
    seen = {target for target, _ in imports("codedfl.sum.example")}
    assert seen == {
        "os.path",
        "codedfl_lab.primes.pads",
        "codedfl_lab.primes.ring",
        "codedfl.sum.device",
        "codedfl.errors",
        "time",
    }
    tree.cache_clear()

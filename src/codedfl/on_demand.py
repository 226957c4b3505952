"""Names of a package that are imported when they are first asked for (PEP 562): a node loads only what it runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def names_on_demand(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        Module -> the names of the package that it defines.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    def names() -> list[str]:
        return sorted(home_of)

    return get, names


def load_all(package: str, path: Sequence[str]) -> None:
    """Import every module of a package, each of which makes something known: a new file is found by being there."""
    for one in sorted(iter_modules(path), key=lambda found: found.name):
        import_module(f"{package}.{one.name}")


@contextmanager
def loading() -> Iterator[None]:
    """For imports of many modules: what they make stays, and looking for garbage in it takes a tenth of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

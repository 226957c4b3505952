"""Names of a package that are imported when they are first asked for (PEP 562): a node loads only what it runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

Kind = TypeVar("Kind")


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


class Register(MutableMapping[str, Kind]):
    """What the files of a package make known, by name. A file is found by being there, and loaded when it is needed.

    A name that is not known yet is looked for in the file of that name first, and in all others after that: so a
    process loads what it asks for and little else. Going through all names loads all files.

    >>> statistics = Register[type]("codedfl.statistics")
    >>> "no-such-statistic" in statistics
    False
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self.known: dict[str, Kind] = {}
        """What was made known so far; no file is loaded for it."""

    def __getitem__(self, name: str) -> Kind:
        path = import_module(self._package).__path__ if name not in self.known else []
        # The name may be anybody's text: it is compared with the names of files, and never made into a path.
        if (file := name.replace("-", "_")) in {one.name for one in iter_modules(path)}:
            import_module(f"{self._package}.{file}")
        if name not in self.known:
            load_all(self._package, path)
        return self.known[name]

    def __setitem__(self, name: str, made: Kind) -> None:
        self.known[name] = made

    def __delitem__(self, name: str) -> None:
        del self.known[name]

    def __iter__(self) -> Iterator[str]:
        load_all(self._package, import_module(self._package).__path__)
        return iter(sorted(self.known))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@contextmanager
def loading() -> Iterator[None]:
    """For imports of many modules: what they make stays, and looking for garbage in it takes a tenth of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

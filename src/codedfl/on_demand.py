"""Names of a package that are imported when they are first asked for (PEP 562): a node loads only what it runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeVar

from codedfl.additions import additions, load_addition
from codedfl.errors import InvalidInput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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

    A name that is not known yet is looked for in the file of that name first, in all others after that, and among the
    entry points of other packages last: so a process loads what it asks for and little else. Going through all names
    loads all of them; an entry point that cannot be loaded is left out, and says why when its name is asked for.

    Parameters
    ----------
    package : str
        Whose files these are.
    others : pair of str, optional
        The group of the entry points, and what errors call one of them; without it no other package adds any.

    >>> statistics = Register[type]("codedfl.statistics")
    >>> "no-such-statistic" in statistics
    False
    """

    def __init__(self, package: str, others: tuple[str, str] | None = None) -> None:
        self._package, self._others = package, others
        self.known: dict[str, Kind] = {}
        """What was made known so far; no file is loaded for it."""

    def __getitem__(self, name: str) -> Kind:
        self.look_in(name, name)
        if name not in self.known:
            load_all(self._package, import_module(self._package).__path__)
        if name not in self.known:
            self._load_entry(name)
        return self.known[name]

    def look_in(self, name: str, *files: str) -> None:
        """Load the first files of these names, until ``name`` is known; for names that have no file of their own."""
        if name in self.known:
            return
        there = {one.name for one in iter_modules(import_module(self._package).__path__)}
        for one in files:
            # A name may be anybody's text: it is compared with the names of files, and never made into a path.
            if name not in self.known and (file := one.replace("-", "_")) in there:
                import_module(f"{self._package}.{file}")

    def __setitem__(self, name: str, made: Kind) -> None:
        self.known[name] = made

    def __delitem__(self, name: str) -> None:
        del self.known[name]

    def __iter__(self) -> Iterator[str]:
        load_all(self._package, import_module(self._package).__path__)
        for name in self._entries():
            with suppress(InvalidInput):
                self._load_entry(name)
        return iter(sorted(self.known))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _entries(self) -> Mapping[str, EntryPoint]:
        return {} if self._others is None else additions(self._others[0])

    def _load_entry(self, name: str) -> None:
        """Its module makes the name known, like one of our files."""
        if self._others is None or name in self.known or name not in (entries := self._entries()):
            return

        def accept(found: object) -> None:
            if name not in self.known:
                raise InvalidInput(f"its module must make {name!r} known, got {found!r:.80} alone")

        load_addition(entries[name], self._others[1], accept)


@contextmanager
def loading() -> Iterator[None]:
    """For imports of many modules: what they make stays, and looking for garbage in it takes a tenth of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()

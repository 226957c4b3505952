"""What has a name: ours, what was registered in this process, and what other packages offer by entry points.

A name may be followed by parameters of its own, as in ``pareto:shape=1.5`` (``named``). Feature maps are in a
``codedfl.on_demand.Register`` instead, which finds our files by their names before it looks at entry points.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_type_hints

from codedfl.additions import additions, load_addition
from codedfl.errors import InvalidInput

T = TypeVar("T")
Made = TypeVar("Made")


class Registry(Mapping[str, T]):
    """What has a name, in the order in which it was added.

    Entry points are looked for once a process, when all names are wanted or one is not known yet; one that cannot be
    loaded is left out, stands in ``broken``, and says why when it is asked for.

    Parameters
    ----------
    group : str
        Of the entry points.
    what : str
        It is called this in errors.
    check : callable
        Raises ``InvalidInput`` for what is none of them.
    known : object
        Ours; each has a ``name``.
    """

    def __init__(self, group: str, what: str, check: Callable[[Any], None], *known: T) -> None:
        self._group, self._what, self._check = group, what, check
        self._known: dict[str, T] = {}
        self._broken: dict[str, str] = {}
        self._looked = False
        for one in known:
            self.add(one)

    @property
    def known(self) -> Mapping[str, T]:
        """Without looking for what other packages offer."""
        return self._known

    @property
    def broken(self) -> Mapping[str, str]:
        """Why entry points could not be loaded, one line each, by name."""
        self._look()
        return self._broken

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            self._look()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._look()
        return iter(self._known)

    def __len__(self) -> int:
        self._look()
        return len(self._known)

    def add(self, one: T) -> None:
        """Make it known by its name; a name is given once."""
        self._check(one)
        name: str = one.name  # type: ignore[attr-defined]
        if self._known.get(name, one) is not one:
            raise InvalidInput(f"a {self._what}'s name must be new, got {name!r}, which is registered")
        self._known[name] = one

    def take(self, name: str, among: Callable[[T], bool] = lambda _one: True) -> T:
        """By its name; one that is unknown, or not ``among`` those that serve, is refused in one line."""
        if name in self and among(self[name]):
            return self[name]
        if name in self.broken:
            raise InvalidInput(self.broken[name])
        serve = ", ".join(key for key, one in self.items() if among(one))
        raise InvalidInput(f"{self._what} must be one of {serve}, got {name!r}")

    def _look(self) -> None:
        if self._looked:
            return
        self._looked = True
        for name, entry in additions(self._group).items():
            try:
                load_addition(entry, self._what, self.add)
            except InvalidInput as error:
                self._broken[name] = str(error)


Parameters = Mapping[str, str]


def named(text: str) -> tuple[str, Parameters]:
    """A name and the parameters behind it, as they were typed.

    >>> from codedfl.registry import named
    >>> named("pareto:shape=1.5,of=links")
    ('pareto', {'shape': '1.5', 'of': 'links'})
    >>> named("cg")
    ('cg', {})
    """
    name, colon, rest = text.partition(":")
    given: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not (key and equals and value) or key in given:
            raise InvalidInput(f"parameters must be written as NAME:KEY=VALUE,KEY=VALUE, got {text!r}")
        given[key.strip()] = value.strip()
    return name, given


def with_parameters(made: Made, given: Parameters, fixed: Collection[str] = ()) -> Made:
    """A dataclass with those of its numbers and texts changed that a user typed; ``fixed`` ones are not for users.

    >>> from codedfl.registry import with_parameters
    >>> from codedfl_lab import RoleKeys
    >>> with_parameters(RoleKeys(), {"colluders": "2", "narrow": "true"})
    RoleKeys(colluders=2, holders=0, spare=0, narrow=True, blocks=1, reserve=0)
    """
    if not given:
        return made
    whole: Any = made
    hints = get_type_hints(type(whole))
    names = [one.name for one in fields(whole) if one.name not in fixed] if is_dataclass(whole) else []
    known = {name: hints[name] for name in names if hints[name] in _READ}
    for key, value in given.items():
        if key not in known:
            raise InvalidInput(f"parameter must be one of {', '.join(known) or 'none'}, got {key!r}")
        try:
            read = _READ[known[key]](value)
        except (KeyError, ValueError):
            raise InvalidInput(f"{key} must be of type {known[key].__name__}, got {value!r}") from None
        whole = replace(whole, **{key: read})
    changed: Made = whole
    return changed


_READ: dict[object, Callable[[str], object]] = {
    int: int,
    float: float,
    bool: {"true": True, "false": False}.__getitem__,
    str: str,
}

"""Schemes by name: those of this package, those registered, and those of other packages.

Another package adds a scheme by ``register_scheme``, or by an entry point of the group ``codedfl.schemes`` that names a
subclass of ``Scheme``. Entry points are looked for when all names are wanted or one is not known yet; one that cannot
be loaded is left out of the list, stands in ``SCHEMES.broken`` and says why when it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codedfl.additions import SCHEMES as GROUP
from codedfl.additions import additions, load_addition
from codedfl.errors import InvalidInput
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from codedfl_lab.schemes.role_keys import RoleKeys, RoleSums


class SchemeRegistry(Mapping[str, type[Scheme]]):
    """Classes of schemes by name, in the order in which they were added."""

    def __init__(self, *schemes: type[Scheme]) -> None:
        self._known = {scheme.name: scheme for scheme in schemes}
        self._looked = False
        self._broken: dict[str, str] = {}

    @property
    def broken(self) -> Mapping[str, str]:
        """Why entry points could not be loaded, one line each, by name."""
        self._look()
        return self._broken

    def __getitem__(self, name: str) -> type[Scheme]:
        if name not in self._known:
            self._look()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._look()
        return iter(self._known)

    def __len__(self) -> int:
        self._look()
        return len(self._known)

    def add(self, scheme: type[Scheme]) -> None:
        if not (isinstance(scheme, type) and issubclass(scheme, Scheme)):
            raise InvalidInput(f"a scheme must be a subclass of codedfl_lab.Scheme, got {scheme!r:.80}")
        if self._known.get(scheme.name, scheme) is not scheme:
            raise InvalidInput(f"a scheme's name must be new, got {scheme.name!r}, which is registered")
        self._known[scheme.name] = scheme

    def _look(self) -> None:
        """Once a process: what other packages offer. A broken one must not keep the others from working."""
        if self._looked:
            return
        self._looked = True
        for name, entry in additions(GROUP).items():
            try:
                load_addition(entry, "scheme", self.add)
            except InvalidInput as error:
                self._broken[name] = str(error)


SCHEMES = SchemeRegistry(CodedPadded, CodedKeys, OneShot, RoleKeys, RoleSums)


def register_scheme(scheme: type[Scheme]) -> None:
    """Make a scheme known by its name, for this process: to plans, comparisons and the command line.

    Examples
    --------
    >>> from codedfl_lab import CodedKeys, register_scheme
    >>> class Pairs(CodedKeys): pass  # it has the name of coded-keys
    >>> register_scheme(Pairs)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a scheme's name must be new, got 'coded-keys', which is registered
    """
    SCHEMES.add(scheme)


def scheme_type(name: str) -> type[Scheme]:
    """The class of a scheme by its name."""
    if name in SCHEMES:
        return SCHEMES[name]
    if name in SCHEMES.broken:
        raise InvalidInput(SCHEMES.broken[name])
    raise InvalidInput(f"scheme must be one of {', '.join(SCHEMES)}, got {name!r}")


def make_scheme(scheme: str | Scheme, n_devices: int) -> Scheme:
    """A scheme by its name, as it is best for ``n_devices`` when nothing else is known; an object as it is."""
    return scheme if isinstance(scheme, Scheme) else scheme_type(scheme).default_for(n_devices)


def coded_type(name: str) -> type[CodedScheme]:
    """The class of a scheme that runs as requests and replies, by its name."""
    kind = SCHEMES.get(name)
    if kind is not None and issubclass(kind, CodedScheme):
        return kind
    if name in SCHEMES.broken:
        raise InvalidInput(SCHEMES.broken[name])
    coded = [other for other, kind in SCHEMES.items() if issubclass(kind, CodedScheme)]
    raise InvalidInput(f"scheme must be one of {', '.join(coded)}, got {name!r}")


def coded_scheme(
    scheme: str | CodedScheme, alpha: int = 1, groups: int = 1, spare: int = 0, colluders: int = 1
) -> CodedScheme:
    """A scheme that runs as requests and replies, by name and parameters; an object as it is, whatever they say."""
    if isinstance(scheme, CodedScheme):
        return scheme
    return coded_type(scheme).from_options(alpha=alpha, groups=groups, colluders=colluders, spare=spare)

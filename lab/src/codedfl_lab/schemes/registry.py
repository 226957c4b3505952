"""Schemes by name: those of this package, those registered, and those of other packages.

Another package adds a scheme by ``register_scheme``, or by an entry point of the group ``codedfl.schemes`` that names a
subclass of ``Scheme``. Behind a name its parameters may stand, as in ``role-keys:colluders=2,narrow=true``.
"""

from __future__ import annotations

from typing import Any, cast

from codedfl.additions import SCHEMES as GROUP
from codedfl.errors import InvalidInput
from codedfl.registry import Registry, named, with_parameters
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from codedfl_lab.schemes.role_keys import RoleKeys, RoleSums


def check_scheme(scheme: Any) -> None:
    """Refuse what is no class of schemes."""
    if not (isinstance(scheme, type) and issubclass(scheme, Scheme)):
        raise InvalidInput(f"a scheme must be a subclass of codedfl_lab.Scheme, got {scheme!r:.80}")


SCHEMES: Registry[type[Scheme]] = Registry(
    GROUP, "scheme", check_scheme, CodedPadded, CodedKeys, OneShot, RoleKeys, RoleSums
)


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
    return SCHEMES.take(name)


def make_scheme(scheme: str | Scheme, n_devices: int) -> Scheme:
    """A scheme by its name, as it is best for ``n_devices`` but for parameters behind the name; an object as it is."""
    if isinstance(scheme, Scheme):
        return scheme
    name, parameters = named(scheme)
    return with_parameters(scheme_type(name).default_for(n_devices), parameters)


def coded_type(name: str) -> type[CodedScheme]:
    """The class of a scheme that runs as requests and replies, by its name."""
    return cast(type[CodedScheme], SCHEMES.take(name, lambda kind: issubclass(kind, CodedScheme)))


def coded_scheme(
    scheme: str | CodedScheme, alpha: int = 1, groups: int = 1, spare: int = 0, colluders: int = 1
) -> CodedScheme:
    """A scheme that runs as requests and replies, by name and parameters; an object as it is, whatever they say."""
    if isinstance(scheme, CodedScheme):
        return scheme
    return coded_type(scheme).from_options(alpha=alpha, groups=groups, colluders=colluders, spare=spare)

"""What a party or a solver must remember to go on after its process has ended, as plain values.

A class names the attributes that make up its state in ``_kept``; ``state`` turns them into a dict of bytes, numbers,
text, lists and arrays, and ``restore`` puts them back into a fresh object, which then goes on bit for bit as the old
one would have. Nothing here does I/O: where a state is kept, and when, is the driver's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.typing import Unchecked

State = dict[str, Any]


class Kept(NamedTuple):
    """How one attribute becomes plain values, and how it comes back."""

    save: Callable[[Any], Any]
    load: Callable[[Any], Any]


def optional(kept: Kept) -> Kept:
    """The same for an attribute that may be None."""
    return Kept(
        lambda value: None if value is None else kept.save(value),
        lambda value: None if value is None else kept.load(value),
    )


PLAIN = Kept(lambda value: value, lambda value: value)
TUPLE = Kept(list, tuple)
PAIRS = Kept(lambda pairs: [list(pair) for pair in pairs], lambda pairs: [tuple(pair) for pair in pairs])
SET = Kept(sorted, set)
MAP = Kept(lambda table: [list(item) for item in table.items()], dict)  # a list, since keys need not be text


class Resumable:
    """Gives ``state`` and ``restore`` to a class that names its attributes in ``_kept``."""

    _kept: ClassVar[Mapping[str, Kept]]

    @property
    def _owner(self) -> list[Any]:
        """Whose state it is, so that no other takes it."""
        return [type(self).__name__]

    def state(self) -> State:
        """Everything that makes this object differ from a fresh one with the same arguments.

        Arrays are the object's own, not copies: write them out, or copy them, before it takes another message.
        """
        kept = {name: kept.save(getattr(self, name, None)) for name, kept in self._kept.items()}
        return {"owner": self._owner, **kept}

    def restore(self, state: Unchecked) -> None:
        """Go on from a state of an object of the same class, made with the same arguments."""
        if not isinstance(state, Mapping):
            raise InvalidInput(f"state must be a table, got {type(state).__name__}")
        if state.get("owner") != self._owner:
            raise InvalidInput(f"state must be that of {self._owner!r:.80}, got one of {state.get('owner')!r:.80}")
        odd = {"owner", *self._kept} ^ set(state)
        if odd:
            raise InvalidInput(f"state must be of this version, got one that differs in {', '.join(sorted(odd))}")
        found = {}
        for name, kept in self._kept.items():
            try:
                found[name] = kept.load(state[name])
            except (TypeError, ValueError, AttributeError, OverflowError, CodedFLError):
                raise InvalidInput(f"{name} must be as it was saved, got another kind of value") from None
        for name, value in found.items():  # all of it or nothing
            setattr(self, name, value)

"""Checkpoints: what a party or a solver must remember to go on after its process has ended, as plain values.

A class names the attributes that make up its state in ``checkpoint_fields``; ``saved`` turns them into a dict of bytes,
numbers, text, lists and arrays, and ``restore_parts`` puts them back into fresh objects, which then go on bit for bit
as the old ones would have. Nothing here does I/O: where a checkpoint is kept, and when, is the driver's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.typing import Unchecked

State = dict[str, Any]


class Codec(NamedTuple):
    """How one attribute becomes plain values, and how it comes back."""

    save: Callable[[Any], Any]
    load: Callable[[Any], Any]


def optional(codec: Codec) -> Codec:
    """The codec for an attribute that may be None."""
    return Codec(
        lambda value: None if value is None else codec.save(value),
        lambda value: None if value is None else codec.load(value),
    )


PLAIN = Codec(lambda value: value, lambda value: value)
TUPLE = Codec(list, tuple)
PAIRS = Codec(lambda pairs: [list(pair) for pair in pairs], lambda pairs: [tuple(pair) for pair in pairs])
SET = Codec(sorted, set)
MAP = Codec(lambda table: [list(item) for item in table.items()], dict)  # a list, since keys need not be text
# By position, each under a key of its own: what is kept as a journal then grows by what is new.
TABLE = Codec(
    lambda table: {str(place): value for place, value in table.items()},
    lambda saved: {int(place): value for place, value in saved.items()},
)

CheckpointFields = Mapping[str, Codec]


class Shelved(Protocol):
    """Bytes that lie elsewhere until they are wanted."""

    def read(self) -> bytes:
        """All of them."""
        ...


Shelf = Callable[[bytes], bytes | Shelved]  # puts bytes away that are not wanted for long, or gives them back


def in_memory(data: bytes) -> bytes | Shelved:
    """The shelf of a party that has no disk."""
    return data


def taken_down(kept: bytes | Shelved) -> bytes:
    """What was put on a shelf."""
    return kept if isinstance(kept, bytes) else kept.read()


class Checkpointable(Protocol):
    """An object with a state, such as one phase of a party."""

    checkpoint_fields: ClassVar[CheckpointFields]


def saved(part: Checkpointable) -> State:
    """Everything that makes this object differ from a fresh one with the same arguments.

    Arrays are the object's own, not copies: write them out, or copy them, before it takes another message.
    """
    return {name: codec.save(getattr(part, name, None)) for name, codec in part.checkpoint_fields.items()}


def loaded(part: Checkpointable, state: Any) -> State:
    """The attributes that ``saved`` made this state of."""
    if not isinstance(state, Mapping):
        raise InvalidInput(f"state must be a table, got {type(state).__name__}")
    odd = set(part.checkpoint_fields) ^ set(state)
    if odd:
        raise InvalidInput(f"state must be of this version, got one that differs in {', '.join(sorted(odd))}")
    found = {}
    for name, codec in part.checkpoint_fields.items():
        try:
            found[name] = codec.load(state[name])
        except (TypeError, ValueError, AttributeError, OverflowError, CodedFLError):
            raise InvalidInput(f"{name} must be as it was saved, got another kind of value") from None
    return found


def part_codec(make: Callable[[], Any]) -> Codec:
    """For an attribute that is a part itself; ``make`` gives a fresh one."""

    def load(state: Any) -> Any:
        part = make()
        vars(part).update(loaded(part, state))
        return part

    return Codec(saved, load)


def restore_parts(owner: list[Any], parts: Mapping[str, Checkpointable], state: Any) -> None:
    """Go on from a state of the same ``owner``, made of the same parts: all of it or nothing."""
    content = _of_owner(owner, state)
    if odd := set(parts) ^ set(content):
        raise InvalidInput(f"state must be of this version, got one that differs in {', '.join(sorted(odd))}")
    found = {name: loaded(part, content[name]) for name, part in parts.items()}
    for name, values in found.items():
        vars(parts[name]).update(values)


def _of_owner(owner: list[Any], state: Any) -> State:
    """What is in a state beside its owner, which must be this one."""
    if not isinstance(state, Mapping):
        raise InvalidInput(f"state must be a table, got {type(state).__name__}")
    if state.get("owner") != owner:
        raise InvalidInput(f"state must be that of {owner!r:.80}, got one of {state.get('owner')!r:.80}")
    return {name: value for name, value in state.items() if name != "owner"}


class Checkpointed:
    """Gives ``state`` and ``restore`` to a class that names its attributes in ``checkpoint_fields``."""

    checkpoint_fields: ClassVar[CheckpointFields]

    def state(self) -> State:
        """See ``saved``."""
        return {"owner": [type(self).__name__], **saved(self)}

    def restore(self, state: Unchecked) -> None:
        """Go on from a state of an object of the same class, made with the same arguments."""
        vars(self).update(loaded(self, _of_owner([type(self).__name__], state)))

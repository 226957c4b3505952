"""From items to embeddings: block by block, with a cache, and without those that are damaged.

A block is known by the model, the recipe and the content of its items: whoever changes a picture or the recipe gets
another block. Memory holds one block of inputs at a time, whatever the number of items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.encoders.encoder import DamagedItem, Encoder
from codedfl.data.encoders.sources import Items
from codedfl.errors import InvalidInput
from codedfl.files import write_whole

BLOCK = 256
_STEP = 32  # items at a time in the model: what it holds of each may be a thousand times the item

Done = Callable[[int, int], None]


@dataclass(frozen=True)
class Damaged:
    """An item that was left out: what it is called, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Encoded:
    """Embeddings of the items that could be encoded.

    values: one row each, on the encoder's grid.
    kept: places of these items among all.
    labels: theirs.
    damaged: the others.
    clipped: how many numbers lay beyond the grid and were clipped to it.
    """

    values: NDArray[np.float32]
    kept: NDArray[np.int64]
    labels: NDArray[Any] | None
    damaged: tuple[Damaged, ...]
    clipped: int

    def columns(self, target: str | None = None) -> dict[str, NDArray[Any]]:
        """A table for a study of a [matrix]: x0, x1, ... and the target, if it has one."""
        found: dict[str, NDArray[Any]] = {f"x{place}": one for place, one in enumerate(self.values.T)}
        if target is not None:
            if self.labels is None:
                raise InvalidInput(f"the target {target!r} must be known of each item, got items without labels")
            found[target] = self.labels
        return found


def encode(encoder: Encoder, items: Items, cache: Path | None = None, progress: Done | None = None) -> Encoded:
    """Embeddings of all items, rounded to the encoder's grid; damaged items are left out, named and counted.

    cache: a folder that keeps blocks between calls; they are as private as the items.
    progress: called with the number of items that are done, and of all.

    Examples
    --------
    See docs/pretrained.md, which encodes a folder of pictures.
    """
    if not len(items):
        raise InvalidInput("items must be at least one, got none")
    blocks, places, damaged = [], [], list[Damaged]()
    for start in range(0, len(items), BLOCK):
        stop = min(start + BLOCK, len(items))
        values, reasons = _block(encoder, [items.items[place] for place in range(start, stop)], cache)
        damaged += [Damaged(items.names[start + place], reason) for place, reason in reasons.items()]
        whole = [place for place in range(stop - start) if place not in reasons]
        blocks.append(values[whole])
        places += [start + place for place in whole]
        if progress is not None:
            progress(stop, len(items))
    if not places:
        raise InvalidInput(f"items must have one that is whole, got {damaged[0].name}: {damaged[0].reason}")
    values, kept = np.concatenate(blocks), np.array(places, dtype=np.int64)
    beyond = int(((values < encoder.low) | (values > encoder.high)).sum())
    labels = None if items.labels is None else np.asarray(items.labels)[kept]
    return Encoded(_on_grid(encoder, values), kept, labels, tuple(damaged), beyond)


def _on_grid(encoder: Encoder, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """In place, and block by block: a float64 copy of all would be twice as large."""
    for start in range(0, len(values), BLOCK):
        part = np.clip(values[start : start + BLOCK].astype(np.float64), encoder.low, encoder.high)
        steps = np.rint((part - encoder.low) / encoder.step)
        values[start : start + BLOCK] = encoder.low + steps * encoder.step
    return values


def _block(encoder: Encoder, items: list[Any], cache: Path | None) -> tuple[NDArray[np.float32], dict[int, str]]:
    """Outputs for a block, not a number for damaged items; and by place why they are."""
    if cache is None:
        return _run(encoder, items)
    path = cache / encoder.inputs_digest()[:16] / f"{_known_by(encoder, items)}.npy"
    values = _kept(path, (len(items), encoder.width))
    if values is not None:
        return values, _reasons(encoder, items, values)
    values, reasons = _run(encoder, items)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, lambda partial: _save(partial, values))
    return values, reasons


def _known_by(encoder: Encoder, items: list[Any]) -> str:
    known = hashlib.sha256(encoder.inputs_digest().encode())
    for item in items:
        known.update(hashlib.sha256(_content(encoder, item)).digest())
    return known.hexdigest()


def _content(encoder: Encoder, item: Any) -> bytes:
    try:
        return encoder.content(item)
    except OSError as error:
        return str(error).encode()  # the item is damaged, which is found when it is prepared


def _kept(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """What the cache has; a damaged file of it is made again."""
    try:
        values: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return values if values.shape == shape and values.dtype == np.float32 else None


def _save(path: Path, values: NDArray[np.float32]) -> None:
    with path.open("wb") as stream:
        np.save(stream, values, allow_pickle=False)


def _reasons(encoder: Encoder, items: list[Any], values: NDArray[np.float32]) -> dict[int, str]:
    """Of the damaged items of a block that was kept: they are looked at again."""
    found = {}
    for place in np.flatnonzero(np.isnan(values[:, 0])).tolist():
        prepared = _prepared(encoder, items[place])
        found[place] = prepared if isinstance(prepared, str) else "it was damaged when it was encoded"
    return found


def _prepared(encoder: Encoder, item: Any) -> Any:
    """The model's input, or a text that says why there is none."""
    try:
        return encoder.prepared(item)
    except (DamagedItem, OSError) as error:
        return str(error)


def _run(encoder: Encoder, items: list[Any]) -> tuple[NDArray[np.float32], dict[int, str]]:
    values = np.full((len(items), encoder.width), np.nan, dtype=np.float32)
    reasons = dict[int, str]()
    for start in range(0, len(items), _STEP):
        prepared = {place: _prepared(encoder, items[place]) for place in range(start, min(start + _STEP, len(items)))}
        reasons |= {place: one for place, one in prepared.items() if isinstance(one, str)}
        whole = [place for place in prepared if place not in reasons]
        values[whole] = encoder.run([prepared[place] for place in whole])
    return values, reasons

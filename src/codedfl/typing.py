"""Types that every layer speaks of. Named here once, so that signatures read alike from the ring to the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers: models, updates, scores."""

Singles = NDArray[np.float32]
"""Features as they are kept, and what the baselines compute with."""

Integers = NDArray[np.int64]
Wholes = NDArray[Any]
"""Exact whole numbers: of 64 bits, or Python's own where they may be larger."""

Seconds = NDArray[np.float64]
"""Virtual time, usually (draws, devices)."""

Rows = NDArray[Any]
"""Raw rows or labels as a table has them."""

RandomBytes = Callable[[int], bytes]
"""A source of secrets: ``secrets.token_bytes``, or a repeatable one in tests."""

Progress = Callable[[str, float], None]
"""Called with what is being done, and which fraction of the whole is over."""

FileProgress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are here, and the bytes in all (None where that is not known)."""

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]
"""What a JSON file can hold, as it is written."""

JsonObject = Mapping[str, Json]
"""A record of a JSON or TOML file, as it is written."""

Unchecked = Mapping[str, Any]
"""A record as it was read from a file or a message: whoever takes a field out of it has to check it."""

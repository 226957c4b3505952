"""One digest for one meaning: the same on every machine, whatever the order of keys and the spelling of numbers."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_digest(domain: str, meaning: Any) -> bytes:
    """SHA-256 over numbers, text, truth values, None, lists and mappings; ``domain`` keeps kinds of meaning apart."""
    text = json.dumps(_canonical(meaning), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(f"{domain}\n{text}".encode()).digest()


def _canonical(value: Any) -> Any:
    """``value`` with its floats in hexadecimal: text that no JSON writer can round or spell in two ways."""
    if isinstance(value, float):
        return {"float": (value + 0.0).hex()}  # + 0.0: minus zero means zero
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(entry) for entry in value]
    return value

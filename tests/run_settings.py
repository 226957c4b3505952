"""A run's flat configuration, as small as it can be."""

from __future__ import annotations

from typing import Any

CONFIG: dict[str, Any] = {
    "devices": 4,
    "scheme": "coded-keys",
    "alpha": 2,
    "epochs": 5,
    "columns": 3,
    "x-low": -1,
    "x-high": 1.0,
    "classes": "yes, no",
    "features": "linear",
    "max-samples": 100,
    "max-samples-per-device": 50,
}

"""The whole of a message: tests match errors from the first letter to the last."""

from __future__ import annotations

import re


def exactly(message: str) -> str:
    """A pattern that only this message fits."""
    return f"^{re.escape(message)}$"

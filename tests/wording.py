"""Words: the whole of a message, which tests match from the first letter to the last; and those of the field."""

from __future__ import annotations

import re
from collections.abc import Mapping


def exactly(message: str) -> str:
    """A pattern that only this message fits."""
    return f"^{re.escape(message)}$"


# What the project said among itself, and the field's word for it (docs/glossary.md): none of them is in prose.
PRIVATE = {
    r"told as": "recoded as", r"told": "reported, distinguished",
    r"(?:goes|go|going|went) on": "continues",
    r"anew": "again", r"lets? in": "admitted", r"cut short": "censored, interrupted", r"gaps?": "missing value",
    r"liars?": "malicious device", r"parcels?": "batch", r"row rule": "differencing rule",
    r"fair rivals?": "strongest baseline", r"virtual seconds?": "simulated seconds", r"in pods": "in disclosure groups",
}  # fmt: skip


def private_words(prose: str, words: Mapping[str, str] = PRIVATE) -> dict[str, str]:
    """Those of ``words`` that are in a text, each with the field's word.

    >>> private_words("Gaps are told as the mean.")
    {'told as': 'recoded as', 'told': 'reported, distinguished', 'gaps?': 'missing value'}
    """
    return {word: words[word] for word in words if re.search(rf"\b(?:{word})\b", prose, re.IGNORECASE)}

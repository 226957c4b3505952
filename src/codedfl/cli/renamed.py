"""Commands and options that had another name in 0.3: whoever types the former is told the present one, in one line."""

from __future__ import annotations

from collections.abc import Mapping

_OF_THE_LAB = ("compare", "data", "demo", "fleet", "plan", "privacy", "reproduce", "train")

RENAMED: Mapping[str, str] = {
    "encode": "site encode",
    "key": "site key, or codedfl server key for the server's",
    "join": "site join",
    "ledger": "site ledger",
    "serve": "server run",
    "watch": "server watch",
    "predict": "study predict",
    "evaluate": "study evaluate",
    "study approve": "site approve",
    "study withdraw": "site withdraw",
    **{name: f"lab {name}" for name in _OF_THE_LAB},
}
"""Words after ``codedfl`` -> those that took their place."""

_CERTIFICATE = {"--key": "--cert-key"}
_SCORE = {"--target": "--reach", "--targets": "--reach", "--device": "--device-column"}

RENAMED_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "site join": {**_CERTIFICATE, "--check": "codedfl site check", "--table": "codedfl site check --table"},
    "site check": _CERTIFICATE,
    "site key": {"--server": "codedfl server key"},
    "server run": _CERTIFICATE,
    "server watch": {"--host": "--listen"},
    "lab compare": {**_SCORE, "--policy": "--set stragglers=..."},
    "lab plan": _SCORE,
    "lab train": _SCORE,
}
"""By command: option -> what took its place."""

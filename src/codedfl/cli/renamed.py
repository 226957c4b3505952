"""Commands and options that had another name in 0.3: whoever types the former gets the present one, in one line."""

from __future__ import annotations

from collections.abc import Mapping

_OF_THE_LAB = ("compare", "data", "demo", "fleet", "plan", "privacy", "reproduce", "train")

RENAMED: Mapping[str, str] = {
    "encode": "site encode",
    "key": "site enrol, or codedfl server enrol for the server's",
    "site key": "site enrol",
    "server key": "server enrol",
    "join": "site join",
    "ledger": "site ledger",
    "serve": "server run",
    "watch": "server watch",
    "predict": "study predict",
    "evaluate": "study evaluate",
    "study approve": "site approve",
    "study withdraw": "site withdraw",
    "broker add": "study kit",
    **{name: f"lab {name}" for name in _OF_THE_LAB},
}
"""Words after ``codedfl`` -> those that took their place."""

_NOW_IN_KIT = ("--broker", "--ca", "--cert", "--cert-key", "--key", "--name", "--roster")
_KIT = dict.fromkeys(_NOW_IN_KIT, "codedfl study kit writes it into KIT")
_SCORE = {"--target": "--reach", "--targets": "--reach", "--device": "--device-column"}

RENAMED_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "site join": {**_KIT, "--check": "codedfl site check", "--table": "codedfl site check --table"},
    "site check": _KIT,
    "site approve": {option: _KIT[option] for option in ("--name", "--roster")},
    "server run": {option: _KIT[option] for option in _NOW_IN_KIT if option != "--name"},
    "broker new": {"--device": "codedfl site enrol"},
    "server watch": {"--host": "--listen"},
    "lab compare": {**_SCORE, "--policy": "--set stragglers=..."},
    "lab plan": _SCORE,
    "lab train": _SCORE,
}
"""By command: option -> what took its place."""

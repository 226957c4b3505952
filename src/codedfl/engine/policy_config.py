"""The operator's policy in a node's own configuration: flat, kebab-case keys that nobody but the operator can set."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

from codedfl.engine.learning import Config, setting
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import DELTA
from codedfl.protocol import Policy

# Everything in a policy but what only experiments need.
KEYS = tuple(one.name.replace("_", "-") for one in fields(Policy) if one.name != "allow_unmasked")


def node_policy(node: Config) -> Policy:
    """Policy of a node.

    Keys, each with ``Policy``'s meaning; 0 or "" stands for no limit: schemes ("coded-keys,role-keys"), least-joiners,
    least-owners (2), most-alpha, least-rows (1), most-epochs, most-outputs, most-directions, allow-gram (false),
    allow-unpinned (false), colluders (1), least-changed-rows (10), most-epsilon, most-total-epsilon, delta (1e-5),
    most-honest.
    """

    def limit(key: str) -> int | None:
        return setting(node, key, int, 0) or None

    return Policy(
        schemes=tuple(name.strip() for name in setting(node, "schemes", str, "").split(",") if name.strip()),
        least_joiners=limit("least-joiners"),
        least_owners=setting(node, "least-owners", int, 2),
        most_alpha=limit("most-alpha"),
        least_rows=setting(node, "least-rows", int, 1),
        most_epochs=limit("most-epochs"),
        most_outputs=limit("most-outputs"),
        most_directions=limit("most-directions"),
        allow_gram=setting(node, "allow-gram", bool, False),
        allow_unpinned=setting(node, "allow-unpinned", bool, False),
        colluders=setting(node, "colluders", int, 1),
        least_changed_rows=setting(node, "least-changed-rows", int, 10),
        most_epsilon=setting(node, "most-epsilon", float, 0.0) or None,
        most_total_epsilon=setting(node, "most-total-epsilon", float, 0.0) or None,
        delta=setting(node, "delta", float, DELTA),
        most_honest=limit("most-honest"),
    )


def load_policy(path: Path) -> Policy:
    """The same keys from a TOML file, and no others: a limit that is misspelt would be none."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the policy must be a readable TOML file, got {str(path)!r} ({error})") from None
    for key in found:
        if key not in KEYS:
            raise InvalidInput(f"a key of the policy must be one of {', '.join(KEYS)}, got {key!r:.80}")
    return node_policy(found)

"""What a device's operator allows, whatever the study: judged from the study alone, when it is approved.

It never looks at rows. A refusal names the rule, the policy's value and the study's, and is for the operator's eyes.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from codedfl.checks import check_at_least
from codedfl.contract.findings import KINDS
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import DELTA


@dataclass(frozen=True)
class Policy:
    """The operator's limits; None is no limit.

    Parameters
    ----------
    colluders : int
        The least z: how many devices a study must withstand that help the server.
    smallest_cell : int
        The least minimum cell count of a study: fewer people over all devices are merged with others.
    least_rows : int
        The least that a study must say: with fewer rows to train on over all devices it makes no sum.
    most_epochs : int or None
        Exchanges of a study with products.
    most_outputs : int or None
        Columns of the target: classes, or 1 for a number.
    most_directions : int or None
        Directions of the total Gram matrix of features that a server may learn the image of.
    allow_gram : bool
        Whether the server may learn the whole total of X'X. Every linear model shows it, and the approval screen says
        so.
    most_epsilon : float or None
        What one study may cost a row in differential privacy at ``delta``. With it a study without noise is refused.
    most_total_epsilon : float or None
        What all approved studies together may cost a row. With it, too, a study without noise is refused.
    delta : float
        At which epsilon is counted; well below one over the number of rows.
    most_honest : int or None
        Owners that a study's noise may count on: with more, each adds less.
    most_points : int
        Over all studies of some of the same rows: points that servers choose, before it is a finding.
    on_rows : str
        What becomes of the finding that few rows are in one study and not in another: "refuse", "ask" or "allow".
    on_columns : str
        Likewise, that columns depend on each other in all but few rows.
    on_dominance : str
        Likewise, that one person has nearly all of a column's sum.
    on_marks : str
        Likewise, that few rows lie between the knots, cuts or times of two studies.
    on_groups : str
        Likewise, that the disclosure group is another than before; a roster change that all have signed is none.
    on_former : str
        Likewise, that few rows were recoded by 0.3.
    on_points : str
        Likewise, that servers may choose more than ``most_points``.
    on_features : str
        Likewise, that the server learns more directions than the study has rows for.
    on_combinations : str
        Likewise, that few rows have a combination of columns that a model iterates over.

    >>> Policy(most_epochs=10).most_epochs
    10
    """

    colluders: int = 1
    smallest_cell: int = 5
    least_rows: int = 1
    most_epochs: int | None = None
    most_outputs: int | None = None
    most_directions: int | None = None
    allow_gram: bool = True
    most_epsilon: float | None = None
    most_total_epsilon: float | None = None
    delta: float = DELTA
    most_honest: int | None = None
    most_points: int = 60
    on_rows: str = "ask"
    on_columns: str = "ask"
    on_dominance: str = "ask"
    on_marks: str = "ask"
    on_groups: str = "refuse"
    on_former: str = "ask"
    on_points: str = "ask"
    on_features: str = "ask"
    on_combinations: str = "allow"

    def __post_init__(self) -> None:
        check_at_least(0, colluders=self.colluders)
        ones = ("smallest_cell", "least_rows", "most_epochs", "most_outputs", "most_directions", "most_honest")
        check_at_least(1, **{name: getattr(self, name) for name in ones})
        for name in ("most_epsilon", "most_total_epsilon"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidInput(f"{name} must be above 0, got {value}")
        if not 0 < self.delta < 1:
            raise InvalidInput(f"delta must be between 0 and 1, got {self.delta}")
        check_at_least(1, most_points=self.most_points)
        for kind in KINDS:
            if (said := self.on(kind)) not in ("refuse", "ask", "allow"):
                raise InvalidInput(f"on_{kind} must be refuse, ask or allow, got {said!r:.40}")

    def on(self, kind: str) -> str:
        """What becomes of a finding of this kind."""
        found: str = getattr(self, f"on_{kind}")
        return found


KEYS = tuple(one.name.replace("_", "-") for one in fields(Policy))


def study_rho(study: Study) -> float | None:
    """What the study's noise lets it cost a row in concentrated differential privacy; None without noise."""
    if study.noise is None:
        return None
    from codedfl.privacy.calibration import rho_of

    d, c = study.feature_count, len(study.target.units)
    noise = study.noise.noise(d, study.recipe().feature_map.bound)
    return rho_of(noise, d * (d + 1) // 2 + d * c)


def shown_directions(study: Study, roster: Roster | None = None) -> int:
    """Directions of the features' X'X whose image a server may learn: all where it learns the matrix itself.

    With products each device answers epochs - 1 questions, and the server deals the roles: with z devices that help it
    in z roles and all others in the last one, it may ask each of those something else.
    """
    d, c = study.feature_count, len(study.target.units)
    if "products" not in study.statistics or study.noise is not None:
        return d
    n_devices = len(roster.members) if roster and roster.members else study.least_participants
    return min(d, c * (study.epochs - 1) * max(1, n_devices - study.colluders))


def policy_objection(policy: Policy, study: Study, roster: Roster) -> str:
    """Why a study is refused by the operator's limits; empty when it is not.

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> policy_objection(Policy(allow_gram=False), study, Roster(()))
    "the server must not learn the whole total of X'X by this device's policy (allow-gram), got all of it"
    """
    by = "by this device's policy"
    floors = (
        ("colluders", policy.colluders, study.colluders),
        ("smallest_cell", policy.smallest_cell, study.smallest_cell),
        ("least_rows", policy.least_rows, study.least_pod_rows),
    )
    for what, limit, value in floors:
        if value < limit:
            return f"{what} must be at least {limit} {by}, got {value}"
    most = _least(policy.most_epsilon, policy.most_total_epsilon)
    rho = study_rho(study)
    spent = _epsilon(math.inf if rho is None else rho, policy.delta)
    if spent > most:
        return f"epsilon must be at most {most:g} at delta = {policy.delta:g} {by}, {_got(spent)}"
    d, shown = study.feature_count, shown_directions(study, roster)
    ceilings = (
        ("honest", policy.most_honest, 0 if study.noise is None else study.noise.honest),
        ("epochs", policy.most_epochs, study.epochs if "products" in study.statistics else 1),
        ("columns of the target", policy.most_outputs, len(study.target.units)),
        ("directions of X'X that the server can learn", policy.most_directions, shown),
    )
    for what, most_of_it, value in ceilings:
        if most_of_it is not None and value > most_of_it:
            return f"{what} must be at most {most_of_it} {by}, got {value}"
    if not policy.allow_gram and study.noise is None and (0 < d <= shown or "gram" in study.statistics):
        return f"the server must not learn the whole total of X'X {by} (allow-gram), got all of it"
    return ""


def spending_objection(policy: Policy, rho: float) -> str:
    """Why all approvals together may not cost a row as much as rho; empty when they may."""
    if policy.most_total_epsilon is None:
        return ""
    spent = _epsilon(rho, policy.delta)
    if spent <= policy.most_total_epsilon:
        return ""
    return (
        f"epsilon over all approved studies must be at most {policy.most_total_epsilon:g} at delta = {policy.delta:g}"
        f" by this device's policy, {_got(spent)} with this one"
    )


def _epsilon(rho: float, delta: float) -> float:
    if math.isinf(rho):
        return rho
    from codedfl.privacy.calibration import epsilon_of  # of a study with noise

    return epsilon_of(rho, delta)


def _least(*limits: float | None) -> float:
    return min((one for one in limits if one is not None), default=math.inf)


def _got(epsilon: float) -> str:
    return "got no noise" if math.isinf(epsilon) else f"got {epsilon:.3f}"


def node_policy(node: Mapping[str, Any]) -> Policy:
    """The policy in a node's own flat configuration, which nobody but its operator can set.

    Keys are those of ``Policy`` in kebab-case (``KEYS``); 0 stands for no limit. Other keys are left alone.

    >>> node_policy({"most-epochs": 20, "colluders": 2})
    Policy(colluders=2, smallest_cell=5, least_rows=1, most_epochs=20, most_outputs=None, most_directions=None, \
allow_gram=True, most_epsilon=None, most_total_epsilon=None, delta=1e-05, most_honest=None, most_points=60, \
on_rows='ask', on_columns='ask', on_dominance='ask', on_marks='ask', on_groups='refuse', on_former='ask', \
on_points='ask', on_features='ask', on_combinations='allow')
    """
    said: dict[str, Any] = {}
    for one in fields(Policy):
        key = one.name.replace("_", "-")
        if key not in node:
            continue
        value, kind = node[key], str(one.type).partition(" ")[0]
        value = float(value) if kind == "float" and type(value) is int else value
        if type(value).__name__ != kind:
            raise InvalidInput(f"{key} must be of type {kind} in the policy, got {value!r}")
        said[one.name] = None if not value and one.default is None else value
    return Policy(**said)


def load_policy(path: Path) -> Policy:
    """A policy from a TOML file. Keys that it does not know are refused: a limit that is misspelt would be none.

    >>> load_policy(Path("no-such.toml"))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the policy must be a readable TOML file, got 'no-such.toml'
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the policy must be a readable TOML file, got {str(path)!r}") from None
    for key in found:
        if key not in KEYS:
            raise InvalidInput(f"a key of the policy must be one of {', '.join(KEYS)}, got {key!r:.80}")
    return node_policy(found)

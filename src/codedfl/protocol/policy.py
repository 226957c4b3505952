"""What a device's operator allows, decided before any run and never by looking at rows.

A server may invite as often as it likes and sees whether a device joins. If that depended on the device's rows,
bisecting the public bounds would read them off: the number of rows, the largest value. So a device judges parameters
against its operator's policy alone; rows that do not fit the public bounds are clipped or left out on the device
(``local_data``), which nobody else learns. A refusal names the rule, the policy's value and the server's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from codedfl.errors import InvalidInput
from codedfl.privacy.budget import DELTA, Budget
from codedfl.privacy.calibration import epsilon_of, rho_for
from codedfl.protocol.agreement import Agreement, Parameters


@dataclass(frozen=True)
class Policy:
    """The operator's limits; None is no limit.

    Parameters
    ----------
    schemes : tuple of str
        Schemes this device takes part in; empty allows every one.
    least_joiners : int or None
        Devices that must be in the agreement. None is as many as the roster pins, or 2 without one; never below 2:
        the "total" of one device is its own data.
    least_owners : int
        Devices whose data must be in the total, where a scheme may leave some out later (``role-keys``).
    most_alpha : int or None
        Devices whose data one device that colludes with the server may give away (alpha within a group).
    least_rows : int
        The smallest public limit on the rows of a device: with a limit of one, the total would be over one row of each.
    most_epochs : int or None
        Exchanges of a run.
    most_outputs : int or None
        Columns of the target: classes, or 1 for a number.
    most_directions : int or None
        Directions of the total Gram matrix that the server may learn the image of: outputs times epochs but the first,
        and more where a few answers are enough and it asks different devices for different ones
        (``Agreement.directions``).
    allow_gram : bool
        Whether the server may learn the total of X'X itself, by the scheme (one-shot) or because the directions allowed
        are as many as there are features.
    allow_unmasked : bool
        Whether answers may go without masks; only for experiments that show what masks prevent.
    allow_unpinned : bool
        Whether to take part in a run that claims protection against colluders although no roster is pinned: without one
        a server can invent as many devices as it likes.
    colluders : int
        z, the devices assumed to help the server: a later run is refused if totals of recorded runs could be combined
        to fewer than z + 2 devices.
    least_changed_rows : int
        The same devices may train again on unchanged rows, or when at least so many of this device's rows changed.
    most_epsilon, most_total_epsilon : float or None
        What a run, and all recorded runs together, may cost a row in differential privacy at ``delta``. With either, a
        run without noise is refused. None allows exact totals.
    delta : float
        At which epsilon is counted; well below one over the number of rows.
    most_honest : int or None
        Owners that a run's noise may count on: with more, each adds less.
    """

    schemes: tuple[str, ...] = ()
    least_joiners: int | None = None
    least_owners: int = 2
    most_alpha: int | None = None
    least_rows: int = 1
    most_epochs: int | None = None
    most_outputs: int | None = None
    most_directions: int | None = None
    allow_gram: bool = False
    allow_unmasked: bool = False
    allow_unpinned: bool = False
    colluders: int = 1
    least_changed_rows: int = 10
    most_epsilon: float | None = None
    most_total_epsilon: float | None = None
    delta: float = DELTA
    most_honest: int | None = None

    def __post_init__(self) -> None:
        for name in ("least_joiners", "least_owners"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise InvalidInput(f"{name} must be at least 2: the total of one device is its own data, got {value}")
        for name in ("most_alpha", "least_rows", "most_epochs", "most_outputs", "most_directions", "most_honest"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name} must be at least 1, got {value}")
        for name in ("colluders", "least_changed_rows"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("most_epsilon", "most_total_epsilon"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidInput(f"{name} must be above 0, got {value}")
        if not 0 < self.delta < 1:
            raise InvalidInput(f"delta must be between 0 and 1, got {self.delta}")

    def joiners_wanted(self, pinned: int | None) -> int:
        """The least number of devices in an agreement; ``pinned`` are those on the roster, None without one."""
        return max(2, self.least_joiners if self.least_joiners is not None else pinned or 2)

    def objection(self, parameters: Parameters) -> str:
        """Why a run with these parameters is refused; empty when it is not."""
        p = parameters
        if self.schemes and p.scheme not in self.schemes:
            return f"scheme must be one of {', '.join(self.schemes)} by this device's policy, got {p.scheme!r}"
        if not p.masks and not self.allow_unmasked:
            return "masks must be on by this device's policy, got off"
        if p.bounds.samples_per_device < self.least_rows:
            return _too_small("bounds.samples_per_device", self.least_rows, p.bounds.samples_per_device)
        allowed, spent = self._most_epsilon, math.inf if p.rho is None else epsilon_of(p.rho, self.delta)
        if spent > allowed:
            return (
                f"epsilon must be at most {allowed:g} at delta = {self.delta:g} by this device's policy, {_got(spent)}"
            )
        limits = (
            ("honest", None if p.noise is None else self.most_honest, 0 if p.noise is None else p.noise.honest),
            ("alpha", self.most_alpha, p.alpha),
            ("epochs", self.most_epochs, p.epochs),
            ("n_outputs", self.most_outputs, p.n_outputs),
            ("n_outputs times (epochs - 1)", self.most_directions, p.directions),
        )
        for what, most, value in limits:
            if most is not None and value > most:
                return f"{what} must be at most {most} by this device's policy, got {value}"
        if not self.allow_gram and (p.reveals_gram or p.directions >= p.n_features):
            shown = (
                "X'X itself"
                if p.reveals_gram
                else f"{min(p.directions, p.n_features)} of {p.n_features} directions of X'X"
            )
            return (
                f"the server must not learn the whole total of X'X by this device's policy, got {shown} shown:"
                " fewer epochs or outputs, or allow-gram"
            )
        return ""

    def within(self, budget: Budget | None) -> Policy:
        """The same, and no run that costs a row more than what was approved (None: nothing was said of it)."""
        if budget is None:
            return self
        approved = epsilon_of(rho_for(budget.epsilon, budget.delta), self.delta)
        honest = budget.honest if self.most_honest is None else min(budget.honest, self.most_honest)
        return replace(self, most_epsilon=min(approved, self._most_epsilon), most_honest=honest)

    @property
    def _most_epsilon(self) -> float:
        return min(one for one in (self.most_epsilon, self.most_total_epsilon, math.inf) if one is not None)

    def objection_to_spending(self, rho: float | None) -> str:
        """Why a run is refused after which all recorded ones have cost rho (None: no bound); empty when it is not."""
        if self.most_total_epsilon is None:
            return ""
        spent = math.inf if rho is None else epsilon_of(rho, self.delta)
        if spent <= self.most_total_epsilon:
            return ""
        return (
            f"epsilon over all recorded runs must be at most {self.most_total_epsilon:g} at delta = {self.delta:g} by"
            f" this device's policy, {_got(spent)} with this one"
        )

    def objection_to_set(self, agreement: Agreement) -> str:
        """Why a run with these participants is refused, its parameters apart; empty when it is not."""
        shown, n_features = agreement.directions, agreement.parameters.n_features
        most = min(
            shown if self.most_directions is None else self.most_directions,
            shown if self.allow_gram else n_features - 1,
        )
        if shown > most:
            return (
                f"directions of X'X that the server could learn must be at most {most} by this device's policy, got"
                f" {shown} of {n_features} when it asks different devices for different ones: a smaller alpha, fewer"
                " holders, epochs or outputs, or operators who allow the whole matrix (allow-gram)"
            )
        return ""


def _got(epsilon: float) -> str:
    return "got no noise" if math.isinf(epsilon) else f"got {epsilon:.3f}"


def _too_small(what: str, least: int, value: int) -> str:
    return f"{what} must be at least {least} by this device's policy, got {value}"

"""The noise of a run: what each device adds for a budget, and what the server's solver has to know of it."""

from __future__ import annotations

from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.privacy.budget import Budget
from codedfl.solve.noise_level import NoiseLevel
from codedfl_lab.primes.fixed_point import FixedPoint
from codedfl_lab.schemes.descriptor import CodedScheme


def noise_of_run(
    scheme: CodedScheme,
    recipe: Recipe,
    bounds: Bounds,
    n_devices: int,
    budget: Budget | None,
    precision: int | None = None,
) -> tuple[RowNoise | None, NoiseLevel | None]:
    """What each adds for a budget, and what a solver must know of it; (None, None) without a budget.

    Refused for a scheme whose devices add none.
    """
    if budget is not None and not scheme.adds_noise:
        raise InvalidInput(
            f"scheme must be role-sums or role-keys with epsilon, got {scheme.name}, whose devices add no noise"
        )
    if budget is None:
        return None, None
    noise = budget.noise(recipe.n_features, recipe.feature_map.bound)
    scales = FixedPoint.derive(
        bounds, recipe.n_features, n_devices, precision=precision, noise=noise, n_outputs=recipe.n_outputs
    )
    return noise, NoiseLevel.of(scales)

"""The noise of a run: what each device adds for a budget, and what the server's solver has to know of it."""

from __future__ import annotations

from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.exact.row_noise import RowNoise
from codedfl.privacy.budget import Budget
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.solve.noise_level import NoiseLevel, noise_and_level


def noise_of_run(
    scheme: CodedScheme,
    recipe: Recipe,
    bounds: Bounds,
    n_devices: int,
    budget: Budget | None,
    precision: int | None = None,
) -> tuple[RowNoise | None, NoiseLevel | None]:
    """See ``noise_and_level``; refused for a scheme whose devices add none."""
    if budget is not None and not scheme.sharing_scheme.adds_noise:
        raise InvalidInput(
            f"scheme must be role-sums or role-keys with epsilon, got {scheme.name}, whose devices add no noise"
        )
    return noise_and_level(budget, bounds, recipe, n_devices, precision)

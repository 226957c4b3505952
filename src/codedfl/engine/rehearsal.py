"""A run's configuration in one process, without any engine: what a federation must come to, bit for bit.

For a dry run of a configuration before it goes to the nodes, and for tests of the federation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from codedfl.engine.run_config import RunConfig
from codedfl.protocol import Policy
from codedfl.run.in_process import run_in_process
from codedfl.typing import Floats


def rehearse(
    config: RunConfig,
    parts: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    on_epoch: Callable[[int], None] | None = None,
) -> Floats:
    """Theta after the last epoch; ``parts`` are the raw rows and labels of each device."""
    names = [f"device-{i}" for i in range(len(parts))]
    scheme = config.scheme
    server = scheme.server_type(
        config.learning.parameters(scheme, config.precision, config.noise[0]),
        names,
        config.make_solver(),
        spare=scheme.spare,
        **scheme.server_options(names),
    )
    policy = Policy(allow_gram=True, allow_unpinned=True, colluders=0)  # all rows are here already
    recipe = config.learning.recipe.digest()
    devices = [
        scheme.device_type(name, *config.learning.rows(*part), policy=policy, recipe=recipe)
        for name, part in zip(names, parts, strict=True)
    ]
    return run_in_process(server, devices, on_epoch=on_epoch)

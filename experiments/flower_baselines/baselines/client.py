"""Local descent on a node, with or without SecAgg+ around it, and with the delays of the experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.kit import load_kit
from codedfl.exact.fitted_rows import fitted
from codedfl.flower.delays import injected_delay
from codedfl.statistics.products import Products
from codedfl.statistics.statistic import Ask, recoded_rows, statistic_of


def load_rows(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels; kept on the disk after the first call, since every call is a new process."""
    node = {key: str(value) for key, value in context.node_config.items()}
    kit, state = load_kit(Path(node["kit"])), Path(node["state-dir"])
    name = kit.name
    cache = state / f"rows-{name}.npz"
    if not cache.exists():
        study = kit.study
        merged = tuple(map(tuple, json.loads(str(context.run_config["merged"]))))
        ask, n_owners = Ask("products", merged), len(kit.roster.owners)
        statistic = statistic_of(study, ask)
        assert isinstance(statistic, Products)
        train = recoded_rows(study, ask, DeviceFolder.of(state, name).frozen(study.digest())).part(held_out=False)
        final = statistic.study
        rows = statistic.recipe.rows(final.matrix(train.codes), final.target.values(train.target))
        X, Y, _ = fitted(rows.X.astype(np.float64), rows.Y, statistic.scales(n_owners).bounds, None)
        np.savez(cache, X=X, Y=Y)
    with np.load(cache) as saved:
        return saved["X"], saved["Y"]


class LocalDescent(NumPyClient):
    def __init__(self, context: Context) -> None:
        self._context = context

    def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        del config
        run = self._context.run_config
        X, Y = load_rows(self._context)
        theta = parameters[0]
        for _ in range(int(run["local-steps"])):
            gradient = X.T @ (X @ theta - Y) / len(X) + float(run["regularisation"]) * theta
            theta = theta - float(run["step"]) * gradient
        return [theta], len(X), {}


def secagg_if_wanted(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    if context.run_config["strategy"] == "secagg":
        return secaggplus_mod(message, context, call_next)
    return call_next(message, context)


# The delay is innermost: of the four stages of SecAgg+ only the one that computes is delayed.
app = ClientApp(client_fn=lambda context: LocalDescent(context).to_client(), mods=[secagg_if_wanted, injected_delay])

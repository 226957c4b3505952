"""Local descent on a node, with or without SecAgg+ around it, and with the delays of the experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from codedfl.data import datasets
from codedfl.data.partition import partition
from codedfl.engine.learning import Learning
from codedfl.flower.delays import injected_delay


def load_rows(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels; kept on the disk after the first call, since every call is a new process."""
    number, count = (int(context.node_config[key]) for key in ("partition-id", "num-partitions"))
    cache = Path(str(context.node_config["state-dir"])) / f"rows-{number}.npz"
    if not cache.exists():
        run = context.run_config
        data = datasets.load(str(run["data"]), use_network=False)
        rng = np.random.default_rng(int(run["partition-seed"]))
        rows = partition(str(run["partition"]), data.y_train, count, rng)[number]
        X, Y = Learning.from_config(run).rows(data.X_train[rows], data.y_train[rows])
        cache.parent.mkdir(parents=True, exist_ok=True)
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

"""FedAvg over all nodes, plain or under SecAgg+; the score of every round with the time it took."""

from __future__ import annotations

import json
import time
from logging import INFO
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.common import log, ndarrays_to_parameters
from flwr.common.typing import Scalar
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

from codedfl.contract.merging import merged_study
from codedfl.contract.toml_file import load_study
from codedfl.data.tables import as_raw_table
from codedfl_lab import datasets

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    run = context.run_config
    began = time.monotonic()
    data = datasets.load("digits", use_network=False)
    test = as_raw_table({f"x{j}": data.X_test[:, j] for j in range(data.X_test.shape[1])})
    study = load_study(Path(str(run["study-folder"])) / "study.toml")
    study = merged_study(study, tuple(map(tuple, json.loads(str(run["merged"])))))
    recipe = study.recipe()
    devices = int(run["devices"])

    def evaluate(number: int, arrays: list[np.ndarray], config: dict[str, Scalar]) -> None:
        del config
        score = study.model(recipe, np.asarray(arrays[0], dtype=np.float64)).score(test, data.y_test)
        log(INFO, "epoch %d after %.1f s, score %.4f", number, time.monotonic() - began, score)

    strategy = FedAvg(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=devices,
        min_available_clients=devices,
        evaluate_fn=evaluate,
        initial_parameters=ndarrays_to_parameters([np.zeros((recipe.n_features, recipe.n_outputs))]),
    )
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=int(run["rounds"])), strategy=strategy)
    if run["strategy"] == "secagg":
        # The widest protection that still tolerates one dropout.
        fit = SecAggPlusWorkflow(num_shares=devices, reconstruction_threshold=devices - 1, clipping_range=8.0)
        DefaultWorkflow(fit_workflow=fit)(grid, legacy)
    else:
        DefaultWorkflow()(grid, legacy)

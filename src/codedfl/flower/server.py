"""The server app: configuration in, model file out, everything between by the ``Conductor``."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from codedfl.data.model import TrainedModel
from codedfl.engine.conductor import Conductor
from codedfl.engine.keys import load_identity, load_roster
from codedfl.engine.learning import setting
from codedfl.engine.logs import one_line, use_flower_logs
from codedfl.engine.private_files import make_private_folder, sole_user
from codedfl.engine.probe import FLEET_LINE, FleetProbe, ProbeConfig
from codedfl.engine.run_config import RunConfig
from codedfl.engine.state_folder import StateFolder
from codedfl.errors import CodedFLError, InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.flower.grid_post import GridPost
from codedfl.protocol import Server
from codedfl.typing import Floats
from codedfl.version import __version__

Score = Callable[[TrainedModel], float]

log = logging.getLogger("codedfl.flower.server")

_PROBE_SECONDS = 600.0  # a call that takes longer says enough about its node


def make_server_app(make_score: Callable[[Context], Score | None] | None = None) -> ServerApp:
    """The Flower server app: ``mode = "train"`` trains, ``mode = "probe"`` measures the nodes (``probe``).

    make_score: makes a function that scores a model, for example on test data that the operator of the server has;
        its scores are logged epoch by epoch, and training stops at ``target`` if the configuration has one.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        use_flower_logs()
        mode = setting(context.run_config, "mode", str, "train")
        if mode == "train":
            train(grid, RunConfig.from_config(context.run_config), make_score(context) if make_score else None)
        elif mode == "probe":
            probe(grid, ProbeConfig.from_config(context.run_config))
        else:
            raise InvalidInput(f"mode must be train or probe, got {mode!r}")

    return app


def probe(grid: Grid, config: ProbeConfig) -> Fleet:
    """Measure the nodes of a grid; the fleet is in the log, and in a file if the configuration names one."""
    fleet = FleetProbe(GridPost(grid, _PROBE_SECONDS), config).run()
    if config.file is not None:
        config.file.parent.mkdir(parents=True, exist_ok=True)
        fleet.save(config.file)
        log.info("the fleet file is %s", config.file)
    log.info("%s%s", FLEET_LINE, json.dumps(fleet.dumps()))
    return fleet


def train(grid: Grid, config: RunConfig, score: Score | None = None) -> Path:
    """One training on the nodes of a grid; returns the model file. Goes on from the checkpoint if there is one.

    Whatever ends it early, the model so far is saved.
    """
    with sole_user(make_private_folder(config.output), "output-dir"):
        return _train(grid, config, score)


def _train(grid: Grid, config: RunConfig, score: Score | None) -> Path:
    folder = config.output
    identity = load_identity(config.server_key)
    roster = None if config.roster is None else load_roster(config.roster)
    log.info("the server's public key is %s", identity.public.hex())
    if roster is None:
        log.warning("no roster: the first key seen under a name counts, and a lying relay could invent devices")
    began = time.monotonic()

    def make_model(theta: Floats) -> TrainedModel:
        about = {"scheme": config.scheme.name, **config.scheme.parameters, "solver": config.solver}
        return config.learning.model(theta, codedfl=__version__, **about)

    def stop_when(theta: Floats) -> bool:
        return score is not None and 0 < config.target <= score(make_model(theta))

    def make_server(names: Sequence[str]) -> Server:
        return config.scheme.server_type(
            config.learning.parameters(config.scheme, config.precision),
            names,
            config.make_solver(),
            identity=identity,
            roster=roster,
            stop_when=stop_when,
            spare=config.scheme.spare,
        )

    def on_epoch(epoch: int) -> None:
        scored = ""
        if score is not None and conductor.model is not None:
            scored = f", score {score(make_model(conductor.model)):.4f}"
        log.info("epoch %d after %.1f s%s", epoch, time.monotonic() - began, scored)

    post = GridPost(grid, config.message_seconds)
    checkpoint = StateFolder(folder / "checkpoint")
    conductor = Conductor(post, make_server, checkpoint, config.patience, roster=roster, on_epoch=on_epoch)
    path = folder / "model.safetensors"
    try:
        conductor.run()
    except CodedFLError as error:
        log.error("the run ends early: %s", one_line(error))
        raise
    finally:
        if conductor.model is not None:
            make_model(conductor.model).save(path)
            log.info("the model is in %s", path)
    return path

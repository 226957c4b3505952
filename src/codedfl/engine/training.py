"""A run on any engine: configuration in, model file out, everything between by the ``Conductor``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from codedfl.data.model import TrainedModel
from codedfl.engine.calls import Post
from codedfl.engine.conductor import Conductor
from codedfl.engine.keys import load_identity, load_roster
from codedfl.engine.logs import one_line
from codedfl.engine.private_files import make_private_folder, sole_user
from codedfl.engine.run_config import RunConfig
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.state_journal import StateJournal
from codedfl.errors import CodedFLError
from codedfl.protocol import Server
from codedfl.run.journal import Begun, begun
from codedfl.typing import Floats
from codedfl.version import __version__

Score = Callable[[TrainedModel], float]

log = logging.getLogger("codedfl.engine.server")


def train(
    post: Post,
    config: RunConfig,
    score: Score | None = None,
    watch: RunWatch | None = None,
) -> Path:
    """One training on the nodes behind a post; returns the model file. Goes on from the checkpoint if there is one.

    Whatever ends it early, the model so far is saved.

    Parameters
    ----------
    score: scores a model, for example on test data that the operator of the server has; its scores are logged epoch
        by epoch, and training stops at ``config.target`` if there is one.
    watch: told what can be seen of the run; without one, it is in the journal of the output folder all the same.
    """
    told = watch or RunWatch.in_folder(config.output, config.epochs)
    with sole_user(make_private_folder(config.output), "output-dir"), closing(told):
        return _train(post, config, score, told)


def _train(post: Post, config: RunConfig, score: Score | None, watch: RunWatch) -> Path:
    identity = load_identity(config.server_key)
    roster = None if config.roster is None else load_roster(config.roster)
    log.info("the server's public key is %s", identity.public.hex())
    if roster is None:
        log.warning("no roster: the first key seen under a name counts, and a lying relay could invent devices")
    log.info("%s: %s", config.scheme.label, config.protection)
    began = time.monotonic()

    def make_model(theta: Floats) -> TrainedModel:
        about = {"scheme": config.scheme.name, **config.scheme.parameters, "solver": config.solver}
        about["protection"] = config.protection
        return config.learning.model(theta, codedfl=__version__, **about)

    def stop_when(theta: Floats) -> bool:
        return score is not None and 0 < config.target <= score(make_model(theta))

    def make_server(introduced: Mapping[str, bytes]) -> Server:
        watch.begun(_about(watch.title, config, len(introduced)))
        return config.scheme.server_type(
            config.learning.parameters(config.scheme, config.precision, config.noise[0]),
            list(introduced),
            config.make_solver(),
            identity=identity,
            roster=introduced,
            stop_when=stop_when,
            spare=config.scheme.spare,
            **config.scheme.server_options(list(introduced)),
        )

    def on_epoch(epoch: int) -> None:
        found = None
        if score is not None and conductor.model is not None:
            found = score(make_model(conductor.model))
        watch.ended(epoch, found)
        scored = "" if found is None else f", score {found:.4f}"
        log.info("epoch %d after %.1f s%s", epoch, time.monotonic() - began, scored)

    checkpoint = StateJournal(config.output / "checkpoint")
    conductor = Conductor(
        post, identity.public, make_server, checkpoint, config.patience, roster=roster, on_epoch=on_epoch, watch=watch
    )
    path = config.output / "model.safetensors"
    try:
        conductor.run()
        watch.finished("complete")
    except CodedFLError as error:
        log.error("the run ends early: %s", one_line(error))
        watch.finished(one_line(error))
        raise
    finally:
        if conductor.model is not None:
            make_model(conductor.model).save(path)
            log.info("the model is in %s", path)
    return path


def _about(title: str, config: RunConfig, n_devices: int) -> Begun:
    recipe = config.learning.recipe
    return begun(
        title,
        config.scheme,
        n_devices,
        solver=config.solver,
        epochs=config.epochs,
        target=config.target or None,
        score_name="accuracy" if recipe.task == "classification" else "R^2",
        n_features=recipe.n_features,
        n_outputs=recipe.n_outputs,
    )

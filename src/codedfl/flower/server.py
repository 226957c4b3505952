"""The server app: configuration in, model file out, everything between by the ``Conductor``."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from codedfl.data.studies import Study, load_study
from codedfl.engine.learning import Config, setting
from codedfl.engine.logs import use_flower_logs
from codedfl.engine.probe import FLEET_LINE, FleetProbe, ProbeConfig
from codedfl.engine.run_config import RunConfig, message_seconds_of, paths_of, patience_of
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_training import MODEL_FILE, RESULT_FILE, Serving, StudyResult, train_study
from codedfl.engine.training import Score
from codedfl.engine.training import train as train_on
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.flower.grid_post import GridPost

log = logging.getLogger("codedfl.engine.server")

_PROBE_SECONDS = 600.0  # a call that takes longer says enough about its node


def make_server_app(make_score: Callable[[Context], Score | None] | None = None) -> ServerApp:
    """The Flower server app: ``mode = "train"`` trains, ``mode = "probe"`` measures the nodes (``probe``).

    With a ``study-file`` in the configuration, of the server's machine, all stages of that study are run.

    make_score: makes a function that scores a model, for example on test data that the operator of the server has;
        its scores are logged epoch by epoch, and training stops at ``target`` if the configuration has one.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        use_flower_logs()
        mode = setting(context.run_config, "mode", str, "train")
        study = setting(context.run_config, "study-file", str, "")
        if mode == "train" and study:
            train_by_study(grid, load_study(Path(study)), context.run_config)
        elif mode == "train":
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
    """One training on the nodes of a grid; see ``engine.training.train``."""
    post = GridPost(grid, config.message_seconds)
    watch = RunWatch.in_folder(config.output, config.epochs)
    watch.measure(lambda: (post.bytes_in, post.bytes_out))
    return train_on(post, config, score, watch)


def train_by_study(grid: Grid, study: Study, config: Config) -> StudyResult:
    """All stages of a study on the nodes of a grid; see ``engine.study_training``.

    Of the configuration it reads who takes part, how long to wait, and where things are; the rest is in the study.
    """
    serving = Serving(patience=patience_of(config), **paths_of(config))
    if serving.patience.min_devices < study.least_participants:
        raise InvalidInput(
            f"devices and min-devices must be at least the study's least_participants ({study.least_participants}), got"
            f" {serving.patience.min_devices}"
        )
    post = GridPost(grid, message_seconds_of(config))
    watch = RunWatch.in_folder(serving.output, study.epochs, study.name)
    watch.measure(lambda: (post.bytes_in, post.bytes_out))
    result = train_study(post, study, serving, watch)
    if result.inference is not None:
        for line in result.inference.summary().splitlines():
            log.info("%s", line)
    log.info("the model is in %s, the result in %s", serving.output / MODEL_FILE, serving.output / RESULT_FILE)
    return result

"""The server app: a study in, its model and results out, everything between by the ``Conductor``."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.roster import load_roster
from codedfl.contract.toml_file import load_study
from codedfl.crypto.key_files import SERVER_KEY
from codedfl.engine.conductor import Patience, load_patience
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_run import MODEL_FILE, RESULT_FILE, Serving, serve_study
from codedfl.errors import InvalidInput
from codedfl.flower.config import Config, setting
from codedfl.flower.grid_post import GridPost
from codedfl.logs import use_flower_logs
from codedfl.private_files import default_state_dir

log = logging.getLogger("codedfl.engine.server")

KEYS = ("study-file", "roster", "output-dir", "server-key-file", "patience-file")


def make_server_app() -> ServerApp:
    """The Flower server app. Its configuration names the study and paths on the server's machine, nothing else."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        use_flower_logs()
        serve(grid, context.run_config)

    return app


def serve(grid: Grid, config: Config) -> StudyFindings:
    """A study on the nodes of a grid.

    Keys: study-file; roster; output-dir ("codedfl-run"); server-key-file ("": server.key in the state folder);
    patience-file ("": as ``Patience`` has it), a TOML file of how long to wait for whom.
    """
    strange = sorted(set(config) - set(KEYS))
    if strange:
        raise InvalidInput(f"the run configuration must hold only {', '.join(KEYS)}, got {strange[0]!r}")
    study = load_study(Path(setting(config, "study-file", str)))
    roster = load_roster(Path(setting(config, "roster", str)))
    key_file, patience = setting(config, "server-key-file", str, ""), setting(config, "patience-file", str, "")
    output = Path(setting(config, "output-dir", str, "codedfl-run")).absolute()
    waits = load_patience(Path(patience)) if patience else Patience()
    serving = Serving(output, Path(key_file) if key_file else default_state_dir() / SERVER_KEY, roster, waits)
    post = GridPost(grid, waits.message_seconds)
    watch = RunWatch.in_folder(output, study.epochs, study.name)
    watch.measure(lambda: (post.bytes_in, post.bytes_out))
    findings = serve_study(post, study, serving, watch)
    if findings.inference is not None:
        for line in findings.inference.summary().splitlines():
            log.info("%s", line)
    log.info("the model is in %s, the result in %s", output / MODEL_FILE, output / RESULT_FILE)
    return findings

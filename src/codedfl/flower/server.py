"""The server app: a study in, its model and results out, everything between by a session of secure sums on the grid."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.roster import load_roster
from codedfl.contract.toml_file import load_study
from codedfl.crypto.key_files import SERVER_KEY, load_identity
from codedfl.errors import InvalidInput
from codedfl.flower.config import Config, setting
from codedfl.flower.grid_engine import GridEngine
from codedfl.logs import use_flower_logs
from codedfl.private_files import default_state_dir
from codedfl.report.run_watch import RunWatch
from codedfl.report.study_files import MODEL_FILE, RESULT_FILE
from codedfl.run.serving import Serving, load_patience, serve_study
from codedfl.sum.asking import Patience

log = logging.getLogger("codedfl.server")

PATIENCE = Patience(retry=60.0, hedge=20.0)  # each message starts a process on its node, which takes seconds

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
    patience-file ("": as ``PATIENCE`` has it), a TOML file of how long to wait for whom.
    """
    strange = sorted(set(config) - set(KEYS))
    if strange:
        raise InvalidInput(f"the run configuration must hold only {', '.join(KEYS)}, got {strange[0]!r}")
    study = load_study(Path(setting(config, "study-file", str)))
    roster = load_roster(Path(setting(config, "roster", str)))
    key_file, patience = setting(config, "server-key-file", str, ""), setting(config, "patience-file", str, "")
    output = Path(setting(config, "output-dir", str, "codedfl-run")).absolute()
    waits = load_patience(Path(patience), PATIENCE) if patience else PATIENCE
    identity = load_identity(Path(key_file) if key_file else default_state_dir() / SERVER_KEY)
    watch = RunWatch(output)
    engine = GridEngine(grid, roster.keys, study.digest(), tell=watch.take)
    findings = serve_study(engine, study, Serving(output, identity, roster, waits), watch)
    if findings.inference is not None:
        for line in findings.inference.summary().splitlines():
            log.info("%s", line)
    log.info("the model is in %s, the result in %s", output / MODEL_FILE, output / RESULT_FILE)
    return findings

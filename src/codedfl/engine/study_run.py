"""A study on real machines: the server's side. Each total that its analyses ask for is a run by a ``Conductor``.

What was found so far is on the disk, so a server that is killed anywhere goes on where it was: the analyses are begun
anew and are given the answers that are there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codedfl.analyses.driving import drive
from codedfl.analyses.study_analysis import Answer, StudyFindings
from codedfl.analyses.study_plan import StudyRun, too_few
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.contract.words import absences
from codedfl.crypto.key_files import load_identity
from codedfl.crypto.sealed import Identity
from codedfl.engine.calls import Post
from codedfl.engine.conductor import Conductor, Patience
from codedfl.engine.directory import Clock
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.state_folder import SHELVED_BYTES, StateFolder
from codedfl.engine.state_journal import StateJournal
from codedfl.errors import CodedFLError, InvalidInput, NotEnoughDevices
from codedfl.logs import one_line
from codedfl.private_files import make_private_folder, sole_user
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import DeviceState
from codedfl.report.study_files import MODEL_FILE as MODEL_FILE
from codedfl.report.study_files import RESULT_FILE as RESULT_FILE
from codedfl.report.study_files import write_results
from codedfl.run.event_log import Scored, StageBegun
from codedfl.run.rehearsal import begun_study
from codedfl.solve.whole_total import TakesTotal
from codedfl.state import Shelf
from codedfl.statistics.statistic import Ask

log = logging.getLogger("codedfl.engine.server")

_ANSWERS = "answers"
_GO_ON = "Start the same command again when that is mended: it goes on where it was"


@dataclass(frozen=True)
class Serving:
    """What the server's operator says beside the study.

    output: where checkpoint, model and result go.
    server_key: the server's key file, whose public key the study names.
    roster: whose digest the study has.
    patience: how long to wait for whom.
    """

    output: Path
    server_key: Path
    roster: Roster
    patience: Patience

    def identity_for(self, study: Study) -> Identity:
        """The server's; refused where the study names another server, or another roster."""
        identity = load_identity(self.server_key)
        self.roster.check_bound(study)
        if identity.public.hex() != study.server_key:
            raise InvalidInput(
                f"server_key of the study must be this server's, {identity.public.hex()}, got"
                f" {study.server_key or 'none'}"
            )
        return identity


def serve_study(
    post: Post, study: Study, serving: Serving, watch: RunWatch | None = None, clock: Clock = time.monotonic
) -> StudyFindings:
    """All analyses of a study on the devices behind a post; goes on from the output folder if it holds a state."""
    told = watch or RunWatch.in_folder(serving.output, study.epochs, study.name)
    with sole_user(make_private_folder(serving.output), "output-dir"), closing(told):
        return _Served(post, study, serving, told, clock).run()


class _Served:
    def __init__(self, post: Post, study: Study, serving: Serving, watch: RunWatch, clock: Clock) -> None:
        self._post, self._study, self._serving, self._watch, self._clock = post, study, serving, watch, clock
        self._roster = serving.roster
        self._absent: set[str] = set()  # from the last total of this process
        self._told = ""
        self._identity = serving.identity_for(study)
        self._checkpoint = StateFolder(serving.output / _ANSWERS)
        self._state: dict[str, Any] = self._checkpoint.load() or {"study": study.digest(), "owners": {}, "found": {}}
        if self._state["study"] != study.digest():
            raise InvalidInput(
                "--out (output-dir on Flower) must not hold the answers to another study: choose another or delete"
                f" {self._checkpoint.path}"
            )

    def run(self) -> StudyFindings:
        log.info(absences(self._study, self._roster))
        try:
            findings = drive(self._study, self._answer)
            if findings.score is not None:
                self._watch.take(Scored(findings.score.value, findings.score.rows))
            self._watch.finished("complete")
        except CodedFLError as error:
            log.error("the run ends early: %s", one_line(error))
            self._watch.finished(one_line(error))
            raise
        self._write(findings)
        return findings

    def _write(self, findings: StudyFindings) -> None:
        """The model, all that was found, and the total that further linear analyses are made of (``study refit``)."""
        output = self._serving.output
        write_results(output, self._study, findings, self._state["owners"], self._roster.owners)
        for path in output.glob("checkpoint-*"):  # of a run after which the server was killed
            StateJournal(path).wipe()
        self._checkpoint.wipe()

    # -- one total

    def _answer(self, ask: Ask) -> Answer:
        key = ask.digest(self._study).hex()
        found: dict[str, Any] = self._state["found"]
        if key not in found:
            found[key] = self._conduct(ask)
            self._checkpoint.save(self._state)
        saved = found[key]
        return [int(one) for one in saved] if isinstance(saved, list) else saved

    def _conduct(self, ask: Ask) -> Any:
        run = StudyRun(self._study, self._roster, ask)
        self._watch.take(StageBegun(ask.statistic))
        log.info("asking for %s", ask.statistic)
        taken: list[Any] = []
        owners: list[str] = []

        def keep(server: Server) -> None:
            solver, there = server.epochs.solver, {*(server.agreement.names if server.agreement else ())}
            owners[:] = sorted(server.owner_names)
            self._absent = set(self._roster.keys) - there
            taken.append([str(one) for one in solver.numbers] if isinstance(solver, TakesTotal) else solver.model)

        # What is sent to all waits on each device's line: it is saved once, in a file.
        checkpoint = StateJournal(self._serving.output / f"checkpoint-{ask.statistic}", large_bytes=SHELVED_BYTES)
        conductor = Conductor(
            self._post,
            self._identity.public,
            lambda introduced: self._server(run, introduced, checkpoint.shelve),
            checkpoint,
            replace(self._serving.patience, devices=len(self._roster.keys), min_devices=2),
            roster=self._roster.keys,
            on_epoch=self._epoch_ended if run.trains else lambda _: None,
            watch=self._watch,
            ask=ask.encode(),
            absent=self._absent,
            objection_to=lambda names: self._objection_to(ask, names, conductor),
            keep=keep,
            clock=self._clock,
        )
        try:
            conductor.run()
            if gone := self._gone_from(ask, owners):  # after they had joined
                raise NotEnoughDevices(gone, ())
        except NotEnoughDevices as error:
            missing = _missing(self._roster, conductor.here, conductor.declined)
            words = "; ".join(filter(None, (str(error), missing)))
            raise NotEnoughDevices(f"{words}. {_GO_ON}", error.missing, error.model) from None
        self._state["owners"][ask.statistic] = owners
        return taken[0]

    def _objection_to(self, ask: Ask, names: Collection[str], conductor: Conductor) -> str:
        """Why these are too few; where they are enough, whom they go on without is told once."""
        if gone := self._gone_from(ask, names):
            return gone
        if objection := too_few(self._study, self._roster, names):
            return objection
        missing = _missing(self._roster, set(names), conductor.declined)
        if missing not in ("", self._told):
            log.warning(missing)
            self._told = missing
            for name in sorted(set(self._roster.keys) - set(names)):  # who never came is on the page, too
                self._watch.take(DeviceState(name, "gone"))
        return ""

    def _gone_from(self, ask: Ask, names: Collection[str]) -> str:
        """The totals of a model belong together, as steps of an iteration do: they are over the same rows, or wait."""
        before = self._state["owners"].get("gram", ()) if ask.model else ()
        gone = ", ".join(sorted(set(before) - set(names)))
        return f"the model {ask.model!r} waits for {gone}: all its totals are over the same rows" if gone else ""

    def _server(self, run: StudyRun, introduced: Mapping[str, bytes], shelf: Shelf) -> Server:
        names = tuple(introduced)
        self._watch.take(begun_study(self._study, len(names), run.parameters.epochs))
        return Server(run.plan(names), run.solver(), identity=self._identity, shelf=shelf)

    def _epoch_ended(self, epoch: int) -> None:
        self._watch.ended(epoch, None)
        log.info("epoch %d", epoch)


def _missing(roster: Roster, here: set[str], declined: set[str]) -> str:
    """Who is absent, who has refused, whom that costs; with the command that helps each."""
    gone = set(roster.keys) - here
    cost = {name for pod in roster.pods if not pod <= here for name in pod & here}
    said = (
        ("absent (start codedfl join there, or the SuperNode): ", gone - declined),
        ("refused (their own logs say why, and codedfl join --check there): ", declined - here),
        ("left out with their pods: ", cost),
    )
    return "; ".join(words + ", ".join(sorted(who)) for words, who in said if who)

"""A study on real machines: the server's side of its stages, one after the other, each by a ``Conductor`` of its own.

What the stages found so far is on the disk, so a server that is killed anywhere goes on where it was. All stages are
over the first one's owners: while one of them is missing, no further stage but the score begins.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.data.features import principal_of
from codedfl.data.model import TrainedModel
from codedfl.data.recipe import Clipped
from codedfl.data.score_sums import ClassScore, NumberScore, score_from_sums
from codedfl.data.studies.study import ClassTarget, Study
from codedfl.data.studies.sums import SCORE, SQUARES, SUMS
from codedfl.data.vector_sums import read_sum
from codedfl.engine.calls import Post
from codedfl.engine.conductor import Conductor, Patience
from codedfl.engine.directory import Clock
from codedfl.engine.keys import load_identity, load_roster
from codedfl.engine.logs import one_line
from codedfl.engine.private_files import make_private_folder, sole_user, write_private
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.stage_problem import stage_problem
from codedfl.engine.stages import COVARIANCE, INFERENCE, SERIES_BYTES, TRAINING, Stage, stage_kinds
from codedfl.engine.state_folder import StateFolder
from codedfl.engine.state_journal import StateJournal
from codedfl.errors import CodedFLError, InvalidInput, NotEnoughDevices
from codedfl.protocol import Server
from codedfl.run.inference import Inference, inference_from_total, inference_parameters
from codedfl.run.journal import begun
from codedfl.run.secure_gram import TakesGram
from codedfl.schemes.of_study import inference_scheme_of
from codedfl.typing import Floats
from codedfl.version import __version__

log = logging.getLogger("codedfl.engine.server")

MODEL_FILE, RESULT_FILE = "model.safetensors", "result.json"


@dataclass(frozen=True)
class Serving:
    """What the server's operator says beside the study.

    output: where checkpoint, model and result go.
    server_key: the server's key file, the same for all runs, so that devices can pin it.
    roster: a file of pinned public keys; None trusts the first key seen under a name.
    """

    output: Path
    server_key: Path
    patience: Patience
    roster: Path | None = None


@dataclass(frozen=True, eq=False)
class StudyResult:
    """model: whose file is in the output folder.

    owners: names of those whose rows the model is of.
    score, scored: on the held-out rows of so many of them; None without one.
    no_score: why there is none; empty otherwise.
    no_inference: why there is none although the study asks for it; empty otherwise.
    clipped: training values beyond the study's ranges, over all devices; None where no moments were summed.
    """

    model: TrainedModel
    owners: tuple[str, ...]
    score: ClassScore | NumberScore | None
    scored: int
    no_score: str
    inference: Inference | None
    no_inference: str
    clipped: Clipped | None


def train_study(
    post: Post, study: Study, serving: Serving, watch: RunWatch | None = None, clock: Clock = time.monotonic
) -> StudyResult:
    """All stages of a study on the devices behind a post; goes on from the output folder if it holds a state."""
    told = watch or RunWatch.in_folder(serving.output, study.epochs, study.name)
    with sole_user(make_private_folder(serving.output), "output-dir"), closing(told):
        return _StudyRun(post, study, serving, told, clock).run()


class _StudyRun:
    def __init__(self, post: Post, study: Study, serving: Serving, watch: RunWatch, clock: Clock) -> None:
        self._post, self._study, self._serving, self._watch, self._clock = post, study, serving, watch, clock
        self._identity = load_identity(serving.server_key)
        self._roster = None if serving.roster is None else load_roster(serving.roster)
        self._kept = StateFolder(serving.output / "stages")
        fresh = {"study": study.digest(), "series": secrets.token_bytes(SERIES_BYTES), "owners": [], "found": {}}
        self._state: dict[str, Any] = self._kept.load() or fresh
        if self._state["study"] != study.digest():
            raise InvalidInput(
                f"output-dir must not hold the stages of another study: choose another or delete {self._kept.path}"
            )
        self._kept.save(self._state)

    def run(self) -> StudyResult:
        log.info("the server's public key is %s", self._identity.public.hex())
        try:
            for kind in stage_kinds(self._study):
                if kind not in self._found:
                    self._conduct(kind)
            result = self._result()
            if result.score is not None:
                self._watch.scored(result.score.value, result.score.rows)
            self._watch.finished("complete")
        except CodedFLError as error:
            log.error("the run ends early: %s", one_line(error))
            self._watch.finished(one_line(error))
            raise
        write_private(self._serving.output / RESULT_FILE, [_as_json(result)])
        for kind in stage_kinds(self._study):
            self._checkpoint(kind).wipe()  # of a stage after which the server was killed
        self._kept.wipe()
        return result

    # -- what was found

    @property
    def _found(self) -> dict[str, Any]:
        found: dict[str, Any] = self._state["found"]
        return found

    @property
    def _owners(self) -> dict[str, bytes]:
        return dict(self._state["owners"])

    def _stage(self, kind: str) -> Stage:
        """The stage with everything that was found before it."""
        sums = np.array(self._found.get(SUMS, ()))[: 1 + self._study.table_columns.width]
        count = round(sums[0]) if len(sums) else 0
        squares = np.array(self._found.get(SQUARES, ()))
        return Stage(
            kind,
            self._state["series"],
            mean=sums[1:] / count if count else sums,
            variance=np.maximum(squares / count, 0.0) if count else squares,
            principal=np.frombuffer(self._found.get(COVARIANCE, b""), dtype="<f8"),
            theta=np.frombuffer(self._found[TRAINING] if kind == SCORE else b"", dtype="<f8"),
        )

    def _model(self, theta: Floats, scheme: str) -> TrainedModel:
        recipe = self._stage(TRAINING).recipe(self._study)
        return self._study.model(recipe, theta, scheme=scheme, devices=len(self._owners), codedfl=__version__)

    # -- one stage

    def _conduct(self, kind: str) -> None:
        stage = self._stage(kind)
        self._watch.stage(kind)
        log.info("stage %s of %s", kind, ", ".join(stage_kinds(self._study)))
        conductor = Conductor(
            self._post,
            self._identity.public,
            lambda introduced: self._server(stage, introduced),
            self._checkpoint(kind),
            self._patience(kind),
            roster=self._owners or self._roster,
            on_epoch=self._epoch_ended if kind == TRAINING else lambda _: None,
            watch=self._watch,
            stage=stage.encode(),
            keep=lambda server: self._ended(kind, server),
            clock=self._clock,
        )
        try:
            conductor.run()
        except CodedFLError as error:
            if kind == TRAINING and conductor.model is not None and conductor.server is not None:
                self._model(conductor.model, conductor.server.scheme).save(self._serving.output / MODEL_FILE)
            if kind != SCORE:
                raise self._same_owners(kind, error) from None
            log.error("there is no score: %s", one_line(error))
            self._keep(kind, [[], 0, str(error)])

    def _checkpoint(self, kind: str) -> StateJournal:
        return StateJournal(self._serving.output / f"checkpoint-{kind}")

    def _ended(self, kind: str, server: Server) -> None:
        """Keep what a stage found, and whose it is."""
        assert server.model is not None
        if not self._owners:
            self._state["owners"] = [[name, key] for name, key in sorted(server.owner_keys.items())]
        self._keep(kind, self._read(kind, server, server.model))

    def _keep(self, kind: str, found: Any) -> None:
        self._found[kind] = found
        self._kept.save(self._state)

    def _read(self, kind: str, server: Server, total: Floats) -> Any:
        if kind == TRAINING:
            model = self._model(total, server.scheme)
            model.save(self._serving.output / MODEL_FILE)
            return np.ascontiguousarray(model.theta, dtype="<f8").tobytes()
        if kind == COVARIANCE:
            assert isinstance(server.solver, TakesGram)
            found = principal_of(server.solver.total(server.parameters.n_features), self._study.components or 0)
            return np.concatenate([one.ravel() for one in found]).astype("<f8").tobytes()
        if kind == INFERENCE:
            assert isinstance(server.solver, TakesGram)
            return [server.solver.state(), len(server.owner_keys)]
        sums = read_sum(total[0]).tolist()
        return [sums, len(server.owner_keys), ""] if kind == SCORE else sums

    def _patience(self, kind: str) -> Patience:
        patience, owners = self._serving.patience, self._owners
        if not owners:
            return patience
        least = self._study.least_participants if kind == SCORE else len(owners)
        return replace(patience, devices=len(owners), min_devices=min(least, len(owners)))

    def _same_owners(self, kind: str, error: CodedFLError) -> CodedFLError:
        """Why the run ends, if because an owner is missing."""
        if not self._owners or not isinstance(error, NotEnoughDevices):
            return error
        return NotEnoughDevices(
            f"the stage {kind} must be over the same {len(self._owners)} owners as the first one, or its total would"
            f" show who is missing: {one_line(error)}; start the same command when they are back, or a new run",
            error.missing,
        )

    def _server(self, stage: Stage, introduced: Mapping[str, bytes]) -> Server:
        """The state machine of a stage for the devices that introduced themselves."""
        study, names = self._study, list(introduced)
        scheme, parameters, solver = stage_problem(study, stage, len(names))
        if stage.kind == TRAINING:
            self._watch.begun(
                begun(
                    study.name,
                    scheme,
                    len(names),
                    solver=study.solver,
                    epochs=study.epochs,
                    target=None,
                    score_name="accuracy" if isinstance(study.target, ClassTarget) else "R^2",
                    n_features=parameters.n_features,
                    n_outputs=parameters.n_outputs,
                )
            )
        return scheme.server_type(
            parameters,
            names,
            solver,
            identity=self._identity,
            roster=introduced,
            spare=scheme.spare,
            **scheme.server_options(names),
        )

    def _epoch_ended(self, epoch: int) -> None:
        self._watch.ended(epoch, None)
        log.info("epoch %d", epoch)

    # -- the result

    def _result(self) -> StudyResult:
        model = TrainedModel.load(self._serving.output / MODEL_FILE)
        sums, scored, no_score = self._found.get(SCORE, ([], 0, "the study holds no rows out"))
        score = score_from_sums(model.recipe, np.array(sums)) if sums else None
        if score is not None:
            found = f"{score.name} {score.value:.4f}"
            log.info("%s on %d held-out rows of %d of %d owners", found, score.rows, scored, len(self._owners))
        clipped = self._clipped()
        if clipped:
            log.warning("clipped to the study's ranges: %s", clipped.words(model.recipe.column_names))
        inference, no_inference = self._inference(model)
        return StudyResult(model, tuple(self._owners), score, scored, no_score, inference, no_inference, clipped)

    def _clipped(self) -> Clipped | None:
        if SUMS not in self._found:
            return None
        width = self._study.table_columns.width
        counts = np.rint(self._found[SUMS][1 + width :]).astype(np.int64)
        return Clipped(counts[:width], int(counts[width]))

    def _inference(self, model: TrainedModel) -> tuple[Inference | None, str]:
        """Or why there is none: columns that depend on each other cost neither the model nor its score."""
        if INFERENCE not in self._found:
            return None, ""
        state, n_devices = self._found[INFERENCE]
        solver = TakesGram()
        solver.restore(state)
        scheme = inference_scheme_of(self._study, n_devices)
        parameters = inference_parameters(scheme, model.recipe, self._study.bounds(model.recipe), n_devices, b"")
        try:
            return inference_from_total(solver, model.recipe, parameters, n_devices), ""
        except InvalidInput as error:
            log.error("there is no inference: %s", one_line(error))
            return None, str(error)


def _as_json(result: StudyResult) -> bytes:
    score = None if result.score is None else {key: _plain(value) for key, value in asdict(result.score).items()}
    inference = result.inference
    content = {
        "owners": list(result.owners),
        "score": score,
        "scored_devices": result.scored,
        "no_score": result.no_score,
        "no_inference": result.no_inference,
        "clipped": None if result.clipped is None else result.clipped.total,
        "coefficients": None if inference is None else inference.to_dicts(),
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value

"""A device's side of a study: what it brings into each stage, on which terms, and what it remembers between them.

It takes part only in studies that its operator approved. Of the first stage of a run it remembers whose data are in it;
every later one must be with exactly those (the score: with nobody else), and each happens once. What it held out of
training is decided by its own key, which never changes. Its own score stays with it, beside what its rows alone would
have given.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codedfl.consent.approvals import is_approved
from codedfl.crypto.sealed import Identity
from codedfl.data.features import covariance_rows
from codedfl.data.inference_rows import inference_rows
from codedfl.data.preprocessing import centred_squares, column_sums
from codedfl.data.score_sums import ClassScore, NumberScore, score_from_sums, score_sums
from codedfl.data.studies.problem import device_rows
from codedfl.data.studies.study import Study
from codedfl.data.studies.sums import SCORE, SQUARES, SUMS
from codedfl.data.tables import RawTable
from codedfl.data.vector_sums import sum_bounds, sum_rows
from codedfl.engine.device_host import LEDGER, Part
from codedfl.engine.local_rows import keeping_reasons_here
from codedfl.engine.private_files import write_private
from codedfl.engine.stages import COVARIANCE, INFERENCE, Stage, stage_kinds
from codedfl.engine.state_folder import StateFolder
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol import Policy
from codedfl.protocol.local_data import LocalRows, Origin
from codedfl.typing import Floats, Rows

log = logging.getLogger("codedfl.engine.device")

SCORE_FILE = "score.json"
_HELD_OUT_LEDGER = "ledger-held-out"  # held-out rows are in no total of the others


@dataclass(frozen=True)
class DeviceStages:
    """One device in one study.

    load_table: the device's table; called in each stage, in its own process.
    folder: where it remembers, and where its own score goes; nobody else's.
    approvals: the operator's file of approved studies.
    policy, roster: the operator's, see ``Device``; the study's own limits hold beside the policy's.
    held_out_key: None derives it from the identity; a rehearsal's is another.
    """

    name: str
    study: Study
    load_table: Callable[[], RawTable]
    identity: Identity
    folder: Path
    approvals: Path
    policy: Policy
    roster: Mapping[str, bytes] | None = None
    held_out_key: bytes | None = None

    def check_approved(self) -> None:
        """Raises unless the operator approved exactly this study."""
        if not is_approved(self.study.digest(), self.approvals):
            raise InvalidInput(
                f"the study {self.study.name!r} must be approved on this device, got no approval of"
                f" {self.study.digest().hex()[:16]} in {str(self.approvals)!r}: codedfl study approve records one"
            )

    # -- what the host asks

    def part(self, stage: bytes, *, new: bool) -> Part:
        """See ``Stages``."""
        self.check_approved()
        found = Stage.decode(stage, self.study)
        policy, roster = self._terms(found, new=new)
        return Part(
            lambda: self._rows(found, new=new),
            found.digest(self.study),
            policy,
            roster,
            ledger=_HELD_OUT_LEDGER if found.kind == SCORE else LEDGER,
        )

    def note(self, stage: bytes, owners: Mapping[str, bytes]) -> None:
        """See ``Stages``."""
        found, kept = Stage.decode(stage, self.study), self._memory.load()
        if self._is_first(found) and (kept is None or kept["series"] != found.series):
            kept = {"series": found.series, "owners": [[name, key] for name, key in owners.items()], "done": []}
        if kept is not None and found.kind not in kept["done"]:
            self._memory.save({**kept, "done": [*kept["done"], found.kind]})

    def is_last(self, stage: bytes) -> bool:
        """See ``Stages``."""
        return Stage.decode(stage, self.study).kind == stage_kinds(self.study)[-1]

    # -- terms

    @property
    def _memory(self) -> StateFolder:
        return StateFolder(self.folder / "stages")

    def _is_first(self, stage: Stage) -> bool:
        return stage.kind == stage_kinds(self.study)[0]

    def _terms(self, stage: Stage, *, new: bool) -> tuple[Policy, Mapping[str, bytes] | None]:
        """The operator's policy and the study's limits; in later stages the list of the first one is the roster."""
        study, policy = self.study, self.policy
        least = study.least_participants
        most_epochs = study.epochs if policy.most_epochs is None else min(study.epochs, policy.most_epochs)
        policy = replace(
            policy,
            least_joiners=max(least, policy.joiners_wanted(None if self.roster is None else len(self.roster))),
            least_owners=max(least, policy.least_owners),
            most_epochs=most_epochs,
        ).within(study.noise)
        if self._is_first(stage):
            return policy, self.roster
        kept = self._memory.load()
        if kept is None or kept["series"] != stage.series:
            raise MessageRefused(
                f"a stage {stage.kind} must follow one with this device in the list of owners, got another run:"
                " all stages are over one list"
            )
        if new and stage.kind in kept["done"]:
            raise MessageRefused(f"a run must have each stage once, got a second {stage.kind}")
        owners = dict(kept["owners"])
        if stage.kind == SCORE:
            return replace(policy, least_joiners=least, least_owners=least), owners
        return replace(policy, least_joiners=len(owners), least_owners=len(owners)), owners

    def _bounds(self, stage: Stage) -> tuple[float, float, int]:
        """What the study says of features, labels and rows of a device, in this stage."""
        if stage.kind in (SUMS, SQUARES, SCORE):
            bounds = sum_bounds(1)
        elif stage.kind == COVARIANCE:
            bounds = self.study.covariance_bounds(stage.moments(self.study))
        else:
            bounds = self.study.bounds(stage.recipe(self.study))
        features = max(bounds.features, bounds.labels) if stage.kind == INFERENCE else bounds.features
        return float(features), float(bounds.labels), bounds.samples_per_device

    # -- rows

    def _rows(self, stage: Stage, *, new: bool) -> LocalRows:
        """X and Y of the stage, and the rows behind them."""
        with keeping_reasons_here(self.name):
            key = self.held_out_key or self.identity.tag(b"codedfl held-out rows")
            X, y, held_out = device_rows(self.study, self.load_table(), key)
            mine = held_out if stage.kind == SCORE else ~held_out
            if stage.kind == SCORE and new:
                self._score_here(stage, X, y, held_out)
            raw = zip(X[mine].astype("<f8"), y[mine].tolist(), strict=True)
            rows = tuple(numbers.tobytes() + str(target).encode() for numbers, target in raw)
            origin = Origin(rows, bounds=self._bounds(stage))
            return LocalRows(*self._stage_rows(stage, X, y, held_out), origin)

    def _stage_rows(self, stage: Stage, X: Floats, y: Rows, held_out: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        trained = X[~held_out]
        if stage.kind == SUMS:
            beyond = self.study.beyond(trained, y[~held_out])
            sums = column_sums(self.study.clipped(trained))
            return sum_rows(np.concatenate((sums, beyond.columns, [beyond.targets])))
        if stage.kind == SQUARES:
            return sum_rows(centred_squares(self.study.clipped(trained), stage.mean))
        if stage.kind == COVARIANCE:
            scaled, _ = self.study.preprocessing(stage.moments(self.study)).apply(trained)
            return _for_gram(covariance_rows(scaled))
        recipe = stage.recipe(self.study)
        if stage.kind == SCORE:
            return sum_rows(score_sums(recipe, stage.model(recipe), X[held_out], y[held_out]))
        made = recipe.rows(trained, y[~held_out])
        if made.clipped:
            words = made.clipped.words(recipe.column_names)
            log.warning("%s: clipped to the study's ranges: %s", self.name, words)
        if stage.kind == INFERENCE:
            return _for_gram(inference_rows(made.X, made.Y))
        return made.X.astype(np.float64), made.Y

    def _score_here(self, stage: Stage, X: Floats, y: Rows, held_out: NDArray[np.bool_]) -> None:
        """The model on this device's own held-out rows, beside one of its own rows alone: for its operator only."""
        recipe = stage.recipe(self.study)
        made = recipe.rows(X[~held_out], y[~held_out])
        alone = recipe.unshrunk(ridge_alone(made.X, made.Y, self.study.regularisation), self.study.regularisation)
        held = X[held_out], y[held_out]
        scores = [score_from_sums(recipe, score_sums(recipe, one, *held)) for one in (stage.model(recipe), alone)]
        rows = scores[0].rows
        if not rows:
            log.info("%s: no rows were held out here, so there is no score of this device's own", self.name)
            return
        together, own = (one.value for one in scores)
        log.info(
            "%s: %s %.4f on %d rows of ours; our rows alone give %.4f", self.name, scores[0].name, together, rows, own
        )
        content = {"study": self.study.name, "model": _plain(scores[0]), "own rows alone": _plain(scores[1])}
        write_private(self.folder / SCORE_FILE, [json.dumps(content, indent=1).encode() + b"\n"])


def _for_gram(rows: Floats) -> tuple[Floats, Floats]:
    """The total of X'X is all that is wanted, so Y is zero."""
    return rows, np.zeros((len(rows), 1))


def ridge_alone(X: Rows, Y: Floats, regularisation: float) -> Floats:
    """The model that a device's rows give by themselves."""
    X = X.astype(np.float64)
    gram, cross = X.T @ X / len(X) + regularisation * np.eye(X.shape[1]), X.T @ Y / len(X)
    if regularisation > 0:
        return np.asarray(np.linalg.solve(gram, cross))
    return np.asarray(np.linalg.lstsq(gram, cross, rcond=None)[0])  # few rows leave directions open


def _plain(score: ClassScore | NumberScore) -> dict[str, object]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(score).items()}

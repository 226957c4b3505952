"""A study over a broker, stage by stage: the rehearsal's model bit for bit, one list of owners, one score."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_broker import FakeBroker, FakeLink
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from codedfl.consent.approvals import approve
from codedfl.data.model import TrainedModel
from codedfl.data.score_sums import ClassScore, NumberScore
from codedfl.data.studies import NumberTarget, Study, parse_study
from codedfl.data.studies.draft import draft_study
from codedfl.data.studies.problem import device_rows, rehearsal_key
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.engine.conductor import Patience
from codedfl.engine.device_stages import SCORE_FILE, DeviceStages
from codedfl.engine.keys import load_identity
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.stage_problem import StageProblem, stage_problem
from codedfl.engine.stages import TRAINING, Stage
from codedfl.engine.study_training import RESULT_FILE, Serving, StudyResult, train_study
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.fleet.fleet import Fleet as SimulatedFleet
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.post import MqttPost
from codedfl.protocol import Policy
from codedfl.run.inference import infer
from codedfl.run.study_rehearsal import Rehearsal, dealt_out, rehearse_study
from codedfl.schemes import Conditions
from codedfl.schemes.of_study import scheme_of

DEVICES = 5
POLICY = Policy(allow_gram=True, allow_unpinned=True)


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Waiting for the disk is most of the time these tests take."""
    caplog.set_level(logging.INFO, "codedfl")
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda handle: None)


def study_of(
    scheme: str = "role-keys", loader: Callable[..., Any] = load_diabetes, **changes: Any
) -> tuple[Study, dict[str, RawTable]]:
    data = loader()
    columns = {str(column): data.data[:, j] for j, column in enumerate(data.feature_names)}
    table = as_raw_table({**columns, "outcome": data.target}, "table.csv")
    study = parse_study(draft_study(table, "outcome", "study"))
    study = replace(
        study,
        **{"max_rows": 1024, "max_rows_per_device": 256, "epochs": 30, "colluders": None, "scheme": scheme, **changes},
    )
    return study, dealt_out(table, DEVICES, np.random.default_rng(0))


@dataclass
class StudyFleet:
    """The devices of a study at one broker, each with its table, its approvals and its memory."""

    study: Study
    tables: dict[str, RawTable]
    folder: Path
    broker: FakeBroker = field(default_factory=FakeBroker)
    policy: Policy = POLICY
    devices: dict[str, FakeLink] = field(default_factory=dict)

    def __post_init__(self) -> None:
        approve(self.study, self.folder / "approvals.toml", who="somebody", when="today")
        for name in self.tables:
            self.start(name)

    def stages(self, name: str) -> DeviceStages:
        home = self.folder / name
        return DeviceStages(
            name,
            self.study,
            lambda: self.tables[name],
            load_identity(home / "device.key"),
            home,
            self.folder / "approvals.toml",
            self.policy,
            held_out_key=rehearsal_key(name),
        )

    def start(self, name: str) -> None:
        stages = self.stages(name)
        host = ResidentHost(name, stages.identity, self.folder / name / "runs", lambda: None, stages=stages)
        link = self.broker.connect(name, DeviceDaemon.will(self.study.name, name))
        link.owner = DeviceDaemon(link, host, self.study.name, self.study.digest(), clock=self.broker.clock)
        self.broker.look_after(link)
        self.devices[name] = link

    def kill(self, name: str) -> None:
        link = self.devices[name]
        self.broker.cut(link, None)
        if link in self.broker.links:
            self.broker.links.remove(link)

    def serve(self) -> StudyResult:
        for link in [link for link in self.broker.links if link.name == "server"]:
            self.broker.cut(link, None)
        link = self.broker.connect("server", MqttPost.will(self.study.name))
        post = MqttPost(link, self.study.name, self.study.digest(), clock=self.broker.clock)
        patience = Patience(DEVICES, 3, 20.0, 10.0, 10.0)
        serving = Serving(self.folder / "server", self.folder / "server" / "server.key", patience)
        return train_study(post, self.study, serving, clock=self.broker.clock)

    def when(self, kind: str, what: Callable[[], object]) -> None:
        """Do something once, as soon as this stage is announced in the server's log."""
        done: list[bool] = []

        class Listener(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if not done and record.getMessage().startswith(f"stage {kind} of"):
                    done.append(True)
                    what()

        logging.getLogger("codedfl.engine.server").addHandler(Listener())


@pytest.fixture(autouse=True)
def no_listeners_left() -> Iterator[None]:
    yield
    logging.getLogger("codedfl.engine.server").handlers.clear()


def rehearsed(study: Study, tables: dict[str, RawTable]) -> Rehearsal:
    at = Conditions(SimulatedFleet.load("paper").scaled_to(len(tables)))
    return rehearse_study(study, tables, scheme_of(study, len(tables)), at, np.random.default_rng(1))


@pytest.mark.parametrize("scheme", ["coded-keys", "role-keys", "one-shot"])
def test_the_federation_is_the_rehearsal_bit_for_bit(tmp_path: Path, scheme: str):
    study, tables = study_of(scheme, inference=scheme == "role-keys", least_participants=4)
    fleet = StudyFleet(study, tables, tmp_path)
    result, expected = fleet.serve(), rehearsed(study, tables)
    assert result.owners == tuple(tables)
    assert np.array_equal(result.model.theta, expected.model.theta)
    assert result.model.recipe.digest() == expected.model.recipe.digest()
    assert np.array_equal(TrainedModel.load(tmp_path / "server" / "model.safetensors").theta, expected.model.theta)
    assert result.score == expected.score
    assert (result.scored, result.no_score) == (DEVICES, "")
    assert result.clipped is not None
    assert not result.clipped
    told = json.loads((tmp_path / "server" / RESULT_FILE).read_text())
    assert told["scored_devices"] == DEVICES
    assert isinstance(result.score, NumberScore)
    *_, scored, _ = map(json.loads, (tmp_path / "server" / "events.jsonl").read_text().splitlines())
    assert (scored["event"], scored["score"], scored["rows"]) == ("scored", result.score.r_squared, result.score.rows)
    if study.inference:
        assert result.inference is not None
        same = infer(expected.problem)
        assert np.array_equal(result.inference.coefficients, same.coefficients)
        assert np.array_equal(result.inference.standard_errors, same.standard_errors)
        assert told["coefficients"][0]["name"] == "constant"
    assert not list(tmp_path.rglob("checkpoint*"))


def test_columns_that_depend_on_each_other_cost_no_model_and_no_score(tmp_path: Path):
    study, tables = study_of(inference=True)
    first = study.columns[0].column.name
    twice = replace(study.columns[0], column=replace(study.columns[0].column, name="again"))
    study = replace(study, columns=(*study.columns, twice))
    both = {
        name: as_raw_table({**table.columns, "again": table.columns[first]}, table.name)
        for name, table in tables.items()
    }
    result = StudyFleet(study, both, tmp_path).serve()
    reason = f"columns must be independent for inference, got some that depend on each other: '{first}', 'again'; "
    assert result.inference is None and result.no_inference.startswith(reason)
    assert result.scored == DEVICES
    told = json.loads((tmp_path / "server" / RESULT_FILE).read_text())
    assert told["no_inference"] == result.no_inference and told["score"] is not None


def test_principal_components_are_summed_before_the_training(tmp_path: Path):
    study, tables = study_of(loader=load_wine, features="pca-rbf", components=4, n_features=60)
    result, expected = StudyFleet(study, tables, tmp_path).serve(), rehearsed(study, tables)
    assert np.array_equal(result.model.theta, expected.model.theta)
    assert result.model.recipe.digest() == expected.model.recipe.digest()
    saved = TrainedModel.load(tmp_path / "server" / "model.safetensors")
    assert saved.recipe.digest() == expected.model.recipe.digest()
    assert isinstance(result.score, ClassScore)
    assert result.score.accuracy > 0.9


def test_each_device_alone_reads_its_own_score(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    study, tables = study_of(loader=load_wine)
    fleet = StudyFleet(study, tables, tmp_path)
    result = fleet.serve()
    for name, table in tables.items():
        told = json.loads((tmp_path / name / SCORE_FILE).read_text())
        X, y, held_out = device_rows(study, table, rehearsal_key(name))
        right = (
            result.model.recipe.decode(result.model.recipe.scores(result.model.theta, X[held_out])[0]) == y[held_out]
        )
        assert told["model"]["rows"] == held_out.sum()
        assert told["model"]["accuracy"] == pytest.approx(right.mean())
        alone = make_pipeline(StandardScaler(), RidgeClassifier(study.regularisation * (~held_out).sum()))
        alone.fit(X[~held_out], y[~held_out])
        # The scale of the columns differs, and so does the penalty's weight: a row may fall otherwise.
        own, expected = told["own rows alone"]["accuracy"], alone.score(X[held_out], y[held_out])
        assert own == pytest.approx(expected, abs=1.01 / held_out.sum())
        assert any(text.startswith(f"{name}: accuracy {right.mean():.4f} on ") for _, _, text in caplog.record_tuples)
    sent = b"".join(payload for _, _, payload in fleet.broker.sent)
    assert b"own rows alone" not in sent


def test_an_owner_lost_between_moments_and_training_ends_the_run(tmp_path: Path):
    study, tables = study_of(least_participants=3)
    fleet = StudyFleet(study, tables, tmp_path)
    fleet.when("training", lambda: fleet.kill("device-3"))
    with pytest.raises(NotEnoughDevices) as raised:
        fleet.serve()
    assert str(raised.value) == (
        "the stage training must be over the same 5 owners as the first one, or its total would show who is missing:"
        " at least 5 devices must be there after 20 s, got 4 (device-0, device-1, device-2, device-4); start the same"
        " command when they are back, or a new run"
    )
    assert not (tmp_path / "server" / "model.safetensors").exists()
    fleet.start("device-3")
    result = fleet.serve()
    assert result.owners == tuple(tables)
    assert np.array_equal(result.model.theta, rehearsed(study, tables).model.theta)


def test_devices_refuse_a_training_over_another_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """A server that forgets about the missing owner gets nothing: whoever is left was in the moments with it."""
    study, tables = study_of(least_participants=3)
    fleet = StudyFleet(study, tables, tmp_path)
    fleet.when("training", lambda: fleet.kill("device-3"))

    def forgetful(run: Any) -> dict[str, bytes]:
        return {name: key for name, key in run._state["owners"] if name != "device-3" or run._found.keys() < {"sums"}}

    monkeypatch.setattr("codedfl.engine.study_training._StudyRun._owners", property(forgetful))
    with pytest.raises(NotEnoughDevices):
        fleet.serve()
    told = [text for name, _, text in caplog.record_tuples if name == "codedfl.engine.device"]
    refusals = {text for text in told if "refuses" in text}
    assert refusals == {f"device-{i} refuses a message: at least 5 devices must take part, got 4" for i in (0, 1, 2, 4)}


def test_who_is_gone_cannot_score_and_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    study, tables = study_of(least_participants=4)
    fleet = StudyFleet(study, tables, tmp_path)
    fleet.when("score", lambda: fleet.kill("device-1"))
    result, expected = fleet.serve(), rehearsed(study, tables)
    assert np.array_equal(result.model.theta, expected.model.theta)
    assert isinstance(result.score, NumberScore)
    assert result.scored == 4
    assert 0 < result.score.rows < expected.score.rows
    line = f"R^2 {result.score.r_squared:.4f} on {result.score.rows} held-out rows of 4 of 5 owners"
    assert ("codedfl.engine.server", logging.INFO, line) in caplog.record_tuples


def test_values_beyond_the_ranges_are_counted_over_all_devices(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    study, tables = study_of()
    columns = tuple(replace(one, range=(-0.03, 0.03)) if one.column.name == "bmi" else one for one in study.columns)
    study = replace(study, columns=columns, target=NumberTarget("outcome", (50.0, 340.0)))
    expected = rehearsed(study, tables)
    assert expected.problem.clipped.targets > 0
    result = StudyFleet(study, tables, tmp_path).serve()
    assert np.array_equal(result.model.theta, expected.model.theta)
    assert result.clipped is not None
    assert result.clipped.columns.tolist() == expected.problem.clipped.columns.tolist()
    assert result.clipped.targets == expected.problem.clipped.targets
    words = expected.problem.clipped.words(result.model.recipe.column_names)
    line = ("codedfl.engine.server", logging.WARNING, f"clipped to the study's ranges: {words}")
    assert line in caplog.record_tuples


def test_too_few_to_score_leave_the_model(tmp_path: Path):
    study, tables = study_of(least_participants=5)
    fleet = StudyFleet(study, tables, tmp_path)
    fleet.when("score", lambda: fleet.kill("device-1"))
    result = fleet.serve()
    assert np.array_equal(result.model.theta, rehearsed(study, tables).model.theta)
    assert (result.score, result.scored) == (None, 0)
    assert result.no_score.startswith("at least 5 devices must be there after 20 s, got 4 (device-0, ")


def test_a_device_scores_once_a_run_and_never_another_run(tmp_path: Path):
    study, tables = study_of()
    fleet = StudyFleet(study, tables, tmp_path)
    asked: list[bytes] = []
    decode = Stage.decode.__func__

    def noted(cls: type[Stage], data: bytes, of: Study) -> Stage:
        asked.append(data)
        return decode(cls, data, of)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stage, "decode", classmethod(noted))
        fleet.serve()
    score = asked[-1]
    with pytest.raises(MessageRefused, match=r"^a run must have each stage once, got a second score$"):
        fleet.stages("device-0").part(score, new=True)
    other = replace(Stage.decode(score, study), series=bytes(16)).encode()
    message = (
        "a stage score must follow one with this device in the list of owners, got another run: all stages are over"
        " one list"
    )
    with pytest.raises(MessageRefused, match=f"^{message}$"):
        fleet.stages("device-0").part(other, new=True)


def test_a_device_takes_part_in_approved_studies_only(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    study, tables = study_of(least_participants=3)
    fleet = StudyFleet(study, tables, tmp_path)
    (tmp_path / "approvals.toml").unlink()
    approve(replace(study, epochs=29), tmp_path / "approvals.toml", who="somebody", when="today")
    with pytest.raises(NotEnoughDevices, match=r"^at least 3 devices must be there after 20 s, got 0 \(none\)$"):
        fleet.serve()
    line = (
        "device-0 refuses: the study 'study' must be approved on this device, got no approval of"
        f" {study.digest().hex()[:16]} in '{tmp_path / 'approvals.toml'}': codedfl study approve records one"
    )
    assert ("codedfl.engine.device", logging.ERROR, line) in caplog.record_tuples
    # Nor does one whose approval is taken back in the middle of a run.
    with pytest.raises(InvalidInput, match=r"^the study 'study' must be approved on this device, got no approval of "):
        fleet.stages("device-0").part(b"", new=False)


def test_a_server_killed_anywhere_goes_on_where_it_was(tmp_path: Path):
    class Killed(Exception):
        pass

    study, tables = study_of(least_participants=3, epochs=6)
    fleet = StudyFleet(study, tables, tmp_path)
    rng, budget, starts = random.Random(2), 0, 0

    def tick() -> None:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise Killed

    fleet.broker.tick = tick
    while True:
        budget, starts = rng.randrange(15, 60), starts + 1
        try:
            result = fleet.serve()
            break
        except Killed:
            assert starts < 100
    assert starts > 3
    expected = rehearsed(study, tables)
    assert np.array_equal(result.model.theta, expected.model.theta)
    assert result.score == expected.score


def test_a_second_run_goes_by_the_ledger(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The same rows again are welcome; a few changed ones are not, in any stage; a lying bound is not either."""
    study, tables = study_of(least_participants=3)
    fleet = StudyFleet(study, tables, tmp_path)
    first, again = fleet.serve(), fleet.serve()
    assert np.array_equal(first.model.theta, again.model.theta)
    with pytest.MonkeyPatch.context() as patch:

        def with_fewer_rows(study: Study, stage: Stage, n_devices: int) -> StageProblem:
            found = stage_problem(study, stage, n_devices)
            if stage.kind != TRAINING:
                return found
            bounds = replace(found.parameters.bounds, samples_per_device=255)
            return found._replace(parameters=replace(found.parameters, bounds=bounds))

        patch.setattr("codedfl.engine.study_training.stage_problem", with_fewer_rows)
        with pytest.raises(NotEnoughDevices, match=r"^the stage training must be over the same 5 owners"):
            fleet.serve()
    told = [text for name, _, text in caplog.record_tuples if name == "codedfl.engine.device"]
    bound = float(first.model.recipe.feature_map.bound)
    line = f"bounds on features, labels and rows must be the study's, ({bound}, 1.0, 256), got ({bound}, 1.0, 255)"
    assert f"device-0 cannot take part: {line}" in told
    fleet.tables["device-2"] = tables["device-2"].rows(np.arange(3, len(tables["device-2"])))
    (tmp_path / "server" / "stages" / "index.msgpack").unlink()
    with pytest.raises(NotEnoughDevices):
        fleet.serve()
    told = [text for name, _, text in caplog.record_tuples if name == "codedfl.engine.device"]
    assert any(
        "of our rows changed since: the difference of the two totals would be about those" in text for text in told
    )


@pytest.mark.parametrize("scheme", ["coded-keys", "role-keys"])
def test_an_owner_that_joins_a_training_and_never_uploads_ends_the_run(tmp_path: Path, scheme: str):
    study, tables = study_of(scheme, least_participants=3)
    fleet = StudyFleet(study, tables, tmp_path)
    heard: list[str] = []

    def fault(sender: str, topic: str, payload: bytes) -> str:
        if sender == "device-3" and topic.endswith("/out") and heard:
            heard.append(topic)
            if len(heard) == 3:  # it has introduced itself and joined
                fleet.broker.at(0.0, lambda: fleet.kill("device-3"))
        return ""

    fleet.broker.fault = fault
    fleet.when("training", lambda: heard.append("training"))
    with pytest.raises(
        NotEnoughDevices, match=r"^the stage training must be over the same 5 owners as the first one, "
    ):
        fleet.serve()
    assert not (tmp_path / "server" / "model.safetensors").exists()

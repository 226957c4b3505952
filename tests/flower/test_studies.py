"""A study on Flower's nodes, through client app and records: the rehearsal's model, and who has to agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.federation import app_config
from flwr.app import Context, Message, RecordDict
from sklearn.datasets import load_diabetes

from codedfl.consent.approvals import approve
from codedfl.data.studies import Study, load_study
from codedfl.data.studies.draft import draft_study
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.engine.calls import Call, Hello, Introduction, Refused, Reply
from codedfl.engine.conductor import Patience
from codedfl.engine.device_stages import SCORE_FILE
from codedfl.engine.keys import load_identity
from codedfl.engine.study_training import Serving, StudyResult, train_study
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.fleet.fleet import Fleet
from codedfl.flower.client import make_client_app
from codedfl.flower.records import call_record, read_reply
from codedfl.flower.server import train_by_study
from codedfl.run.inference import infer
from codedfl.run.study_rehearsal import Rehearsal, dealt_out, rehearse_study
from codedfl.schemes import Conditions
from codedfl.schemes.of_study import inference_scheme_of, scheme_of
from fake_post import FakePost
from wording import exactly

DEVICES = 5


class EmptyGrid:
    """A grid without nodes."""

    def get_node_ids(self) -> list[int]:
        return []


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is most of the time these tests take."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda handle: None)


def no_rows(context: Context) -> Any:
    raise AssertionError("the stages of a study bring their rows themselves")


@dataclass
class Node:
    """A node as Flower runs it: every call goes through Flower's records to the client app and back."""

    name: str
    config: dict[str, Any]
    app: Callable[[Message, Context], Message]

    def handle(self, call: Call) -> Reply:
        kind, content = call_record(call)
        message = Message(content, 2, kind)
        message.metadata.__dict__["_message_id"] = "1"
        return read_reply(self.app(message, Context(1, 2, self.config, RecordDict(), app_config())).content)


@dataclass
class Machines:
    """A machine a device, each with its own copy of the study, its table and its approvals."""

    folder: Path

    def __post_init__(self) -> None:
        data = load_diabetes()
        columns = {str(column): data.data[:, j] for j, column in enumerate(data.feature_names)}
        table = as_raw_table({**columns, "outcome": data.target}, "table.csv")
        text = draft_study(table, "outcome", "study").replace("inference = false", "inference = true")
        text = text.replace("epochs = 50", "epochs = 12")
        self.tables: dict[str, RawTable] = dealt_out(table, DEVICES, np.random.default_rng(0))
        app = make_client_app(no_rows)
        self.nodes = {}
        for number, (name, rows) in enumerate(self.tables.items()):
            home = self.folder / name
            home.mkdir()
            (home / "study.toml").write_text(text)
            np.savez(home / "rows.npz", allow_pickle=False, **rows.columns)
            self.nodes[100 + number] = Node(name, self.config(name), app)

    def config(self, name: str) -> dict[str, Any]:
        home, trust = self.folder / name, {"allow-gram": True, "allow-unpinned": True}
        files = {"study-file": "study.toml", "table": "rows.npz", "approvals": "approvals.toml", "state-dir": "state"}
        return {"device-name": name, **{key: str(home / file) for key, file in files.items()}, **trust}

    def approve(self, *names: str) -> None:
        for name in names:
            approve(self.study(name), self.folder / name / "approvals.toml", who="somebody", when="today")

    def study(self, name: str = "device-0") -> Study:
        return load_study(self.folder / name / "study.toml")

    def serve(self, least: int = DEVICES) -> StudyResult:
        post = FakePost(self.nodes)  # type: ignore[arg-type]
        serving = Serving(self.folder / "server", self.folder / "server.key", Patience(DEVICES, least, 20.0, 10.0, 5.0))
        return train_study(post, self.study(), serving, clock=post.clock)

    def rehearsed(self, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
        """With the rows that each device holds out by its own key."""

        def own_key(name: str) -> bytes:
            return load_identity(self.folder / name / "state" / name / "device.key").tag(b"codedfl held-out rows")

        for module in ("data.studies.problem", "run.study_rehearsal"):
            monkeypatch.setattr(f"codedfl.{module}.rehearsal_key", own_key)
        study, at = self.study(), Conditions(Fleet.load("paper").scaled_to(DEVICES))
        return rehearse_study(study, self.tables, scheme_of(study, DEVICES), at, np.random.default_rng(1))


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def test_all_stages_on_nodes_are_the_rehearsal_bit_for_bit(machines: Machines, monkeypatch: pytest.MonkeyPatch):
    machines.approve(*machines.tables)
    result = machines.serve()
    expected = machines.rehearsed(monkeypatch)
    assert np.array_equal(result.model.theta, expected.model.theta)
    assert result.model.recipe.digest() == expected.model.recipe.digest()
    assert result.score == expected.score and result.scored == DEVICES
    same = infer(expected.problem, inference_scheme_of(machines.study(), DEVICES))
    assert result.inference is not None
    assert np.array_equal(result.inference.standard_errors, same.standard_errors)
    for name in machines.tables:
        own = json.loads((machines.folder / name / "state" / name / SCORE_FILE).read_text())
        assert set(own) == {"study", "model", "own rows alone"}


def test_a_node_whose_operator_has_not_approved_is_not_counted(machines: Machines):
    names = list(machines.tables)
    machines.approve(*names[:-1])
    last = machines.nodes[100 + DEVICES - 1]
    approvals, digest = last.config["approvals"], machines.study().digest().hex()[:16]
    assert last.handle(Hello(b"x")) == Refused(
        f"the study 'study' must be approved on this device, got no approval of {digest} in {approvals!r}:"
        " codedfl study approve records one"
    )
    with pytest.raises(NotEnoughDevices):
        machines.serve()
    machines.approve(names[-1])
    assert isinstance(last.handle(Hello(b"x")), Introduction)


def test_what_a_node_must_say_with_a_study(machines: Machines):
    node = machines.nodes[100]
    for key in ("table", "approvals"):
        config = {name: value for name, value in node.config.items() if name != key}
        message = f"{key} must be of type str in the configuration, got None"
        assert replace(node, config=config).handle(Hello(b"x")) == Refused(message)


def test_the_server_app_waits_for_as_many_as_the_study_wants(machines: Machines):
    paths = {"output_dir": str(machines.folder / "out"), "server_key_file": str(machines.folder / "server.key")}
    message = "devices and min-devices must be at least the study's least_participants (5), got 4"
    with pytest.raises(InvalidInput, match=exactly(message)):
        train_by_study(EmptyGrid(), machines.study(), app_config(devices=4, **paths))  # type: ignore[arg-type]
    with pytest.raises(NotEnoughDevices):
        train_by_study(EmptyGrid(), machines.study(), app_config(join_seconds=0.0, **paths))  # type: ignore[arg-type]

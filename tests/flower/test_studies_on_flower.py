"""A study on Flower's nodes, through server app, grid and client apps: the rehearsal's findings, bit for bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from app_nodes import DEVICES, Machines
from flwr.app import RecordDict

from codedfl.contract.device_folder import DeviceFolder
from codedfl.data.model import TrainedModel
from codedfl.errors import NotEnoughDevices
from codedfl.flower.records import Hello
from codedfl.flower.server import serve


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is most of the time these tests take."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda handle: None)


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def test_all_totals_on_nodes_are_the_rehearsal_bit_for_bit(machines: Machines):
    found = serve(machines.grid, machines.config())  # type: ignore[arg-type]
    expected = machines.made.rehearsed().findings
    assert found.total == expected.total and found.merged == expected.merged and found.rows == expected.rows
    assert np.array_equal(found.model.theta, expected.model.theta)
    assert found.score == expected.score and found.score is not None
    assert found.inference is not None and expected.inference is not None
    assert found.inference.to_dicts() == expected.inference.to_dicts()
    saved = TrainedModel.load(machines.output / "model.safetensors")
    assert np.array_equal(saved.theta, expected.model.theta)
    result = json.loads((machines.output / "result.json").read_text())
    assert result["owners"] == {name: list(machines.made.names) for name in ("cells", "gram")}
    for name in machines.made.names:
        with DeviceFolder.of(machines.made.state(name), name).ledger() as ledger:
            assert [one.statistic for one in ledger.contributions] == ["census", "cells", "gram"]
    assert machines.made.secrets_left() == []


def test_a_node_whose_operator_has_not_approved_is_not_counted(machines: Machines, caplog: pytest.LogCaptureFixture):
    last = machines.made.names[-1]
    approved = machines.made.state(last) / last / "contract"
    shutil.move(approved, machines.folder / "kept")
    hello = Hello.to_nodes_of(machines.made.study.digest())
    node = machines.nodes[100 + DEVICES - 1]
    assert node.greet(hello) == RecordDict()
    digest = machines.made.study.digest().hex()[:16]
    words = f"the study 'stays' must be approved on this device, got no approval of {digest}"
    assert any(words in text for _, _, text in caplog.record_tuples)
    with pytest.raises(
        NotEnoughDevices,
        match=rf"absent \(.*\): {last}",
    ):
        serve(machines.grid, machines.config(join=1.0))  # type: ignore[arg-type]
    shutil.rmtree(approved, ignore_errors=True)
    shutil.move(machines.folder / "kept", approved)
    assert node.greet(hello) != RecordDict()

"""``codedfl site check``: one screen, every line with what helps, and the code that a script reads."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from approved_studies import Federation, federation, tables
from codedfl.cli.app import app
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.kit import Kit
from codedfl.contract.names import SERVER_NAME
from codedfl.contract.study import Study
from codedfl.device.joining import _Housekeeping
from codedfl.device.readiness import readiness
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink, LinkUp, Will
from codedfl.mqtt.presence import HERE
from running_broker import HOST, RunningBroker

pytestmark = [
    pytest.mark.hospitals,
    pytest.mark.usefixtures("quick_disk"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
NAME = "clinic-0"


@pytest.fixture
def made(tmp_path: Path) -> Federation:
    return federation("linear", tmp_path / "x", approved=(NAME,))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "b", [NAME, "clinic-1"]) as running:
        yield running


def found(made: Federation, address: BrokerAddress, study: Study | None = None) -> dict[str, tuple[bool, str]]:
    points = readiness(study or made.study, address, made.membership(NAME), tables()[NAME])
    return {one.what: (one.ready, one.found) for one in points}


def test_a_machine_that_is_ready(made: Federation, broker: RunningBroker):
    address, study = broker.address(NAME), topics.level_of(made.study.digest())
    server = BrokerLink(broker.address(SERVER_NAME), "server", Will(topics.server_presence(study)))
    server.open()
    assert server.events(5.0)[:1] == [LinkUp()]
    server.publish(topics.server_presence(study), HERE, retain=True)
    points = found(made, address)
    server.close()
    assert all(ready for ready, _ in points.values()), points
    texts = {what: text for what, (_, text) in points.items()}
    assert texts["certificate"] == "clinic-0, valid for 364 more days"
    assert texts["study"] == "stays, edition 1, approved by Ada today"
    assert texts["rows"] == "110 frozen, as clinic-0.csv has them"
    assert texts["broker"] == f"{address} lets clinic-0 in; the server is there"


def test_what_is_wrong_is_said_with_what_helps(made: Federation, broker: RunningBroker):
    (made.contract_folder(NAME).path / "snapshots" / made.study.digest().hex()).unlink()
    other = replace(made.study, edition=2)
    address = replace(broker.address("clinic-1"), port=1)
    points = found(made, address, other)
    assert [what for what, (ready, _) in points.items() if not ready] == ["certificate", "study", "rows", "broker"]
    texts = [text for ready, text in points.values() if not ready]
    digest = other.digest().hex()[:16]
    assert texts[:3] == [
        "the certificate must name 'clinic-0', got 'clinic-1': codedfl site enrol requests one",
        f"the study 'stays' must be approved on this device, got no approval of {digest}: codedfl site approve records"
        " one",
        f"the rows approved for the study {digest} must be frozen on this device, got none: codedfl site approve"
        " completes an approval that was interrupted",
    ]
    assert texts[3].startswith(f"the broker must be reachable at mqtts://{HOST}:1, got ")


def test_a_certificate_that_ends_soon_and_a_disk_that_cannot_be_written(
    made: Federation, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
):
    address = broker.address(NAME)
    monkeypatch.setattr(BrokerAddress, "named", lambda _: (NAME, datetime.now(UTC) + timedelta(days=9, hours=1)))
    assert found(made, address)["certificate"] == (
        False,
        "the certificate must be valid for 30 more days, got 9: codedfl site enrol requests another",
    )

    def read_only(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(DeviceFolder, "ledger", read_only)
    assert found(made, address)["clock"] == (False, "not known: [Errno 30] Read-only file system")


def test_newer_rows_a_lost_key_and_a_clock_that_went_back(made: Federation, monkeypatch: pytest.MonkeyPatch):
    nowhere = BrokerAddress.parse("mqtt://127.0.0.1:1")
    newer = tables()[NAME].rows(np.arange(1, 110))
    points = {one.what: one for one in readiness(made.study, nowhere, made.membership(NAME), newer)}
    assert points["rows"].found == (
        "clinic-0.csv must have the 110 rows that were frozen when the study was approved, got others: newer rows are"
        " for a new edition of the study"
    )
    shutil.move(made.folder / NAME / "device.key", made.folder / "device.key")
    with made.contract_folder(NAME).ledger() as ledger:
        ledger.approvals[0] = replace(ledger.approvals[0], when="2999-01-01T00:00:00+00:00")
        ledger.approvals.append(replace(ledger.approvals[0], digest=bytes(32), name="other"))
    points = {one.what: one for one in readiness(made.study, nowhere, made.membership(NAME))}
    assert points["study"].found.endswith("got none: codedfl site enrol")
    assert points["clock"].found.startswith(
        "the clock must be later than the ledger's last entry, 2999-01-01 00:00, got "
    )
    assert not (made.folder / NAME / "device.key").exists()  # looking makes none


def test_a_device_that_joins_an_older_edition_alone_says_so(made: Federation, caplog: pytest.LogCaptureFixture):
    """Its run may still be going on, so it is no refusal."""
    nowhere, newer = BrokerAddress.parse("mqtt://127.0.0.1:1"), replace(made.study, edition=2)
    made.approve(NAME, newer)
    for joined in ((made.study, newer), (made.study,)):
        devices = {study: made.membership(NAME).device(study) for study in joined}
        caplog.clear()
        _Housekeeping(devices, nowhere, made.membership(NAME), True)._say_older()
        assert len(caplog.messages) == (len(joined) == 1)
    assert caplog.messages == [
        "the kit must be of the newest edition of 'stays' that was approved here, 2, got 1: join with the kit of"
        " edition 2, or with both"
    ]


def check(made: Federation, monkeypatch: pytest.MonkeyPatch, *more: str) -> Result:
    class OfStudy(Kit):
        study = made.study

    kit = OfStudy(NAME, "", made.roster, "mqtt://127.0.0.1:1")
    monkeypatch.setattr("codedfl.contract.kit.load_kit", lambda _: kit)
    command = ["site", "check", "a.kit", "--state", str(made.folder), *more]
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, command, catch_exceptions=False)


def test_it_is_one_screen_and_a_code(made: Federation, monkeypatch: pytest.MonkeyPatch):
    result = check(made, monkeypatch)
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert max(map(len, lines)) <= 80 and len(lines) < 24
    assert [line.split()[0] for line in lines if line[:2] in ("ok", "NO")] == ["ok", "ok", "ok", "ok", "ok", "NO"]
    assert lines[-1] == "not ready: broker"
    assert "Traceback" not in result.stderr

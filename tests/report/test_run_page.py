"""A journal folded to what the run page shows, the page for keeps, and the server that feeds it live."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from growing_run import NewRun
from page_reader import Page

from codedfl.errors import InvalidInput
from codedfl.report.event_log import EVENTS_FILE, Begun, EpochScored, EventLog, Scored, read_event
from codedfl.report.run_fold import MOST_CURVE_POINTS
from codedfl.report.run_page import kept_page, live_page, write_run_page
from codedfl.report.run_state import RunState
from codedfl.report.run_watch import RunWatch
from codedfl.report.watch_server import WatchServer
from codedfl.sum.events import (
    DeviceState,
    Event,
    Listed,
    Members,
    Part,
    PhaseBegun,
    Replied,
    RepliedLate,
    SumBegun,
    UploadTaken,
)


def test_a_run_folded_while_it_goes_on(tmp_path: Path, new_run: NewRun):
    run = new_run()
    state = RunState(tmp_path)
    assert state.look().phase == "gathering" and state.version == 1
    run.share()
    view = state.look()
    assert (view.phase, view.epoch, view.score, view.directions) == ("training", 0, None, 0)
    assert [device.lane for device in view.devices] == ["."] * 5
    run.train(3)
    view, seen = state.look(), state.version
    assert state.look() is view and state.version == seen, "nothing new"
    lanes = {device.name: device.lane for device in view.devices}
    assert lanes == {"clinic-1": "ttt.", "clinic-2": "ttt.", "clinic-3": "ll-.", "clinic-4": "---.", "clinic-5": "-x  "}
    counts = {device.name: (device.in_time, device.late, device.missing, device.lied) for device in view.devices}
    assert counts["clinic-3"] == (0, 2, 1, None) and counts["clinic-5"] == (1, 0, 1, 2)
    assert [device.part for device in view.devices] == ["role 1", "role 2", "role 1", "role 2", "role 1"]
    assert [(part.label, part.needed, part.members) for part in view.parts] == [("role 1", 1, 3), ("role 2", 1, 2)]
    assert [connected.name for connected in view.devices if not connected.connected] == ["clinic-4"]
    assert (view.score, view.received, view.sent) == (0.8, 27_700, 4500)
    assert view.directions == 4, "two an epoch, none in the first"
    assert view.seconds_left == pytest.approx(3 * view.seconds_an_epoch) and view.seconds_an_epoch > 0
    run.train(3)
    run.finish()
    view = state.look()
    assert view.finished and view.outcome == "complete" and view.seconds_left is None
    assert {device.name: device.lane for device in view.devices}["clinic-1"] == "tttttt"


def test_a_resumed_run_and_another_one_in_the_same_folder(tmp_path: Path, new_run: NewRun):
    run = new_run()
    run.share()
    run.train(2)
    state = RunState(tmp_path)
    state.look()
    again = new_run()  # appends, as a server that was killed does
    again.share()
    again.train(3)
    view = state.look()
    assert view.restarts == 1 and [epoch for _, _, epoch in view.curve] == [1, 2, 3]
    (tmp_path / "events.jsonl").write_text(
        '{"time": 5.0, "event": "journal", "clock": "virtual", "format": "codedfl-events-1"}\n'
    )
    view = state.look()
    assert (view.clock, view.epoch, view.devices) == ("virtual", 0, [])


def test_the_stages_of_a_study_are_told_apart(tmp_path: Path, new_run: NewRun):
    run = new_run()
    run.tell(SumBegun("cells"))
    run.tell(Members(("clinic-1",), "group", (Part(("clinic-1",), 1),)))
    run.tell(Replied("clinic-1", 1, 50))
    run.tell(SumBegun("products"))
    run.share()
    run.train(2)
    state = RunState(tmp_path)
    view = state.look()
    lanes = {device.name: (device.lane, device.in_time, device.bytes) for device in view.devices}
    assert lanes["clinic-1"] == ("tt.", 2, 5650) and len(view.parts) == 2
    assert (view.stage, view.directions) == ("products", 2)
    run.tell(SumBegun("gram"))
    run.tell(Replied("clinic-2", 1, 50))
    view = state.look()
    assert {device.name: device.in_time for device in view.devices}["clinic-2"] == 2
    assert (view.stage, view.directions) == ("gram", 40), "the server learns the whole total of X'X"
    run.tell(SumBegun("score"))
    assert (view.score, view.scored_rows) == (0.7, 0), "of the last epoch, until the devices have scored the model"
    run.tell(Scored(0.75, 86))
    assert (state.look().score, view.scored_rows) == (0.75, 86)


@pytest.mark.hospitals
def test_whose_rows_are_in_the_model_is_said(tmp_path: Path, new_run: NewRun):
    """A linear study has no epochs: nobody is waiting, late or missing in it."""
    run = new_run()
    run.exchange("cells", ("clinic-1", "clinic-2", "clinic-3", "clinic-4", "clinic-5"))
    state = RunState(tmp_path)
    assert [device.in_total for device in state.look().devices] == [None] * 5
    run.exchange("gram", ("clinic-1", "clinic-2", "clinic-3"))
    view = state.look()
    assert [device.in_total for device in view.devices] == [True] * 3 + [False] * 2
    assert not view.trains
    assert [(one.in_time, one.late, one.missing) for one in view.devices] == [(0, 0, 0)] * 5
    assert min(device.bytes for device in view.devices) == 10_000


def test_a_device_in_the_total_has_uploaded_and_all_bytes_are_accounted_for(tmp_path: Path, new_run: NewRun):
    """Training may begin before a device's upload is reported: it was listed, so the upload is there."""
    run = new_run()
    run.tell(Members(("clinic-1", "clinic-2", "clinic-3"), "role", (Part(("clinic-1",), 1),)))
    run.tell(Listed(("clinic-1", "clinic-2")))
    run.tell(UploadTaken("clinic-1", 5000))
    run.tell(DeviceState("clinic-1", "ready"))
    view = RunState(tmp_path).look()
    assert (view.received, view.unattributed) == (5000, 0), "at least what the devices are known to have sent"
    run.tell(PhaseBegun("training"))
    run.tell(Replied("clinic-1", 1, 300))
    run.tell(EpochScored(1, 1, 0.5, 12_000, 900))
    view = RunState(tmp_path).look()
    found = [(one.state, one.in_total, one.bytes) for one in view.devices]
    assert found == [("ready", True, 5300), ("uploaded", True, 0), ("waiting", False, 0)]
    assert view.unattributed == 6700
    assert sum(one.bytes for one in view.devices) + view.unattributed == view.received == 12_000


def test_what_is_seen_live_is_what_the_log_says(tmp_path: Path, new_run: NewRun):
    """One fold: of the events as they happen, and of the lines that they left."""
    new_run().share()
    ticks = iter(range(1000))
    watch = RunWatch(tmp_path / "live", lambda: next(ticks) / 8, "virtual")
    for line in (tmp_path / EVENTS_FILE).read_bytes().splitlines(keepends=True)[1:]:
        watch.take(read_event(tmp_path, line)[1])
    for epoch in (1, 2, 3):
        watch.take(Replied("clinic-1", epoch, 100))
        watch.ended(epoch, epoch / 4)
    watch.take(RepliedLate("clinic-2", 3, 100))
    watch.finished("complete")
    assert watch.devices["clinic-1"].answers == 3 and watch.devices["clinic-2"].spare == 1
    live, read = watch._fold.look(), RunState(tmp_path / "live").look()
    assert replace(live, clock=read.clock, codedfl=read.codedfl) == read, "only its first line is the log's own"
    assert (read.epoch, read.score, read.seconds_an_epoch) == (3, 0.75, 0.25)


def test_a_line_that_is_being_written_waits(tmp_path: Path, new_run: NewRun):
    new_run().share()
    path = tmp_path / "events.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"time": 1009.0, "event": "phase", "pha')
    state = RunState(tmp_path)
    assert state.look().phase == "training"
    path.write_text(whole + '{"time": 1009.0, "event": "phase", "phase": "finished"}\n')
    assert state.look().phase == "finished"


def test_long_curves_are_thinned_and_it_is_said(tmp_path: Path, new_run: NewRun):
    run = new_run()
    run.share()
    count = 2 * MOST_CURVE_POINTS + 2
    for epoch in range(1, count + 1):
        run.tell(EpochScored(epoch, 2, epoch / count, 0, 0))
    view = RunState(tmp_path).look()
    assert view.curve_every == 3 and len(view.curve) <= MOST_CURVE_POINTS
    assert [view.curve[0][2], view.curve[1][2], view.curve[-1][2]] == [1, 4, count]
    assert len(view.devices[0].lane) == 400 == count + 1 - view.lane_from + 1


def test_what_cannot_be_read_is_said(tmp_path: Path, new_run: NewRun):
    with pytest.raises(InvalidInput) as error:
        RunState(tmp_path)
    assert str(error.value) == f"the folder must hold the event log of a run (events.jsonl), got {str(tmp_path)!r}"
    path = tmp_path / "events.jsonl"
    path.write_text("[1]\n")
    with pytest.raises(InvalidInput) as error:
        RunState(tmp_path).look()
    assert str(error.value) == f"every line of {path} must be an event, got b'[1]\\n'"
    path.write_text('{"time": 1, "event": "journal", "format": "codedfl-events-9"}\n')
    with pytest.raises(InvalidInput) as error:
        RunState(tmp_path).look()
    assert str(error.value) == "the event log must have the format codedfl-events-1, got 'codedfl-events-9'"


def test_a_page_for_keeps_holds_its_run_whatever_it_is_called(tmp_path: Path, new_run: NewRun):
    run = new_run(title="</script><b>&amp;")
    run.share()
    run.train(6)
    run.finish()
    page = write_run_page(tmp_path).read_text(encoding="utf-8")
    assert page == kept_page(RunState(tmp_path).look())
    assert "</script><b>" not in page and "<title>&lt;/script&gt;&lt;b&gt;&amp;amp;</title>" in page
    start = page.index('id="state">') + len('id="state">')
    kept = json.loads(page[start : page.index("</script>", start)])
    assert kept["title"] == "</script><b>&amp;" and kept["devices"][0]["lane"] == "tttttt"
    for text in (page, live_page()):
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
        assert "main" in Page(text).tags


@pytest.fixture
def served(tmp_path: Path, new_run: NewRun) -> Iterator[WatchServer]:
    new_run().share()
    with WatchServer(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server: WatchServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    connection.request(method, path, headers=headers)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body, dict(reply.getheaders())


def test_the_server_answers_two_addresses_and_changes_nothing(served: WatchServer):
    assert served.url == f"http://127.0.0.1:{served.server_address[1]}/"
    status, body, headers = asked(served, "/")
    assert status == 200 and body.decode() == live_page()
    assert (
        headers["Content-Security-Policy"].startswith("default-src 'none';") and headers["Cache-Control"] == "no-store"
    )
    status, body, headers = asked(served, "/state.json")
    assert status == 200 and json.loads(body)["phase"] == "training"
    assert asked(served, f"/state.json?seen={headers['X-Version']}")[:2] == (204, b"")
    assert asked(served, "/", "HEAD")[:2] == (200, b"")
    for path in ("/events.jsonl", "/../events.jsonl", "/%2e%2e/etc/passwd"):
        assert asked(served, path)[0] == 404
    assert {asked(served, "/", method)[0] for method in ("POST", "PUT", "DELETE", "PATCH")} == {501}


def test_on_loopback_only_this_machine_is_answered(served: WatchServer):
    assert served.loopback
    assert asked(served, "/state.json", Host="evil.example:8470")[0] == 403
    assert asked(served, "/state.json", Host="")[0] == 403
    assert [asked(served, "/", Host=host)[0] for host in ("localhost:1", "[::1]:1", "127.0.0.1")] == [200] * 3


def test_a_port_that_is_taken_is_refused_in_one_line(served: WatchServer, tmp_path: Path):
    port = served.server_address[1]
    with pytest.raises(InvalidInput) as error:
        WatchServer(tmp_path, port=port)
    assert str(error.value) == (
        f"--listen and --port must be an address of this machine that is free, got 127.0.0.1:{port}"
        " (Address already in use)"
    )


def test_events_are_read_as_they_were_told(tmp_path: Path):
    path = tmp_path / EVENTS_FILE
    log = EventLog(path, "virtual", 0.0, empty=True)
    told = [
        Begun("stays", "role-keys", "cg", 9, None, "accuracy", 40, 2, False, "the total only", (0, 0, 3)),
        Members(("a", "b"), "group", (Part(("a",), 1), Part(("b",), 1))),
        RepliedLate("a", 2, 300),
        EpochScored(1, 2, None, 10, 20),
    ]
    for number, event in enumerate(told):
        log.note(float(number), event)
    log.close()
    _, *lines = path.read_bytes().splitlines(keepends=True)
    assert [read_event(path, line) for line in lines] == [(float(number), event) for number, event in enumerate(told)]
    assert read_event(path, b'{"time": 7, "event": "of a newer version", "why": {}}\n') == (7.0, Event())
    assert read_event(path, b'{"time": 7, "event": "phase", "phase": "training", "newer": 1}') == (
        7.0,
        PhaseBegun("training"),
    )
    with pytest.raises(InvalidInput, match="must be an event"):
        read_event(path, b'{"time": 7, "event": "phase"}')

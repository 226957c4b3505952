"""What is seen of a run: states, answers and times, as a table and as JSON lines without anything secret."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from codedfl.cli.serve import LiveTable
from codedfl.engine.run_watch import RunWatch
from codedfl.protocol.events import Event
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.run.in_process import run_in_process
from fake_post import FakePost, make_conductor, make_hosts
from scenario import Scenario, descent


@pytest.fixture
def scenario(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    return Scenario((3, 5, 2, 4), alpha=2, d=40, scheme=CODED_KEYS)


def shown(watch: RunWatch) -> str:
    console = Console(width=120, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(LiveTable(watch))
    return captured.get()


def test_a_run_leaves_a_journal_that_tells_it_again(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path), delay=lambda host, call: 3.0 if host.name == "device-1" else 0.3)
    journal = tmp_path / "events.jsonl"
    watch = RunWatch(8, journal, post.clock)
    received = [0]
    watch.measure(lambda: (received[0], 7))

    def on_epoch(epoch: int) -> None:
        received[0] += 100
        watch.ended(epoch, 0.5 + epoch / 100)

    model = make_conductor(scenario, post, tmp_path, lambda: descent(8), on_epoch=on_epoch, watch=watch).run()
    watch.finished("complete")
    assert np.array_equal(model, run_in_process(scenario.server(descent(8)), scenario.devices()))
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [(event["epoch"], event["received"], event["sent"]) for event in epochs] == [
        (epoch, 100 * epoch, 7) for epoch in range(1, 9)
    ]
    assert [event["score"] for event in epochs] == pytest.approx([0.5 + epoch / 100 for epoch in range(1, 9)])
    assert all(event["answers"] >= 3 for event in epochs), "alpha = 2 of 4 devices: three answers end an epoch"
    assert sum(event["event"] == "late answer" and event["device"] == "device-1" for event in events) >= 1
    assert next(event["phase"] for event in events if event["event"] == "phase") == "joining"
    states = [event["state"] for event in events if event.get("device") == "device-0" and event["event"] == "state"]
    assert states[-1] == "done" and "ready" in states
    assert events[0]["event"] == "journal" and events[-1] == {**events[-1], "event": "finished", "outcome": "complete"}
    assert all(event["time"] >= 0 for event in events)
    schema = {kind.event: {"time", "event", *(one.name for one in fields(kind))} for kind in Event.known}
    assert all(set(event) <= schema[event["event"]] for event in events)
    assert next(event["parts"][0]["needed"] for event in events if event["event"] == "members") == 3

    table = shown(watch)
    assert "device-1" in table and "connected" in table
    assert "epoch 8 of 8, score 0.5800" in table and "0:00:00 left" in table


def test_a_watch_before_anything_has_happened():
    watch = RunWatch()
    assert watch.seconds_left is None and watch.seconds_an_epoch is None
    assert "gathering, 0 of 0 devices connected" in shown(watch)
    watch.wanted = 5
    assert "gathering, 0 of 5 devices connected" in shown(watch)
    watch.wanted = 0


def test_the_journal_goes_on_where_the_server_before_left_it(tmp_path: Path):
    for epoch in (1, 2):
        watch = RunWatch(3, tmp_path / "events.jsonl")
        watch.ended(epoch, None)
        watch.finished("interrupted")
    events = [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert events == ["journal", "epoch", "finished"] * 2


def test_the_progress_of_an_upload_is_shown():
    watch = RunWatch()
    watch.progress("device-0", 3_000_000, 12_000_000)
    assert "3.0 of 12.0 MB" in shown(watch)

"""The journal of a simulated run: every event is in the schema, the lanes are the latencies', and nothing is secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl import CodedKeys, CodedPadded, OneShot, RoleKeys
from codedfl.protocol.events import Event
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.run import event_log
from codedfl.run.event_log import EVENTS_FILE, begun
from codedfl.run.virtual_watch import VirtualWatch
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.krylov import ConjugateGradient
from codedfl_lab import Fleet
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.times import Conditions
from small_problems import digits

SCHEMES = [RoleKeys(1), CodedKeys(4), CodedKeys(3, groups=2), CodedPadded(4), OneShot(4)]
SCHEMA = {kind.event: {"time", "event", *(one.name for one in fields(kind))} for kind in Event.known}
AT = Conditions(Fleet.load("paper").scaled_to(10))


class Remembered:
    """The system's randomness, and all that it ever gave."""

    def __init__(self) -> None:
        self.given: list[bytes] = []
        self._rng = np.random.default_rng(0)

    def __call__(self, count: int) -> bytes:
        self.given.append(self._rng.bytes(count))
        return self.given[-1]


def journal_of(scheme: CodedScheme, folder: Path, random_bytes: Any) -> tuple[list[dict[str, Any]], np.ndarray]:
    problem = digits()
    solver = ClosedForm(1e-4) if scheme.reveals_gram else ConjugateGradient(6, 1e-4)
    what = begun(
        "digits", scheme, 10, solver="cg", epochs=6, target=None, score_name="accuracy", n_features=60, n_outputs=10
    )
    with VirtualWatch(folder, what) as watch:
        trace = simulate(scheme, problem, solver, AT, np.random.default_rng(1), random_bytes=random_bytes, watch=watch)
    return [json.loads(line) for line in (folder / EVENTS_FILE).read_text().splitlines()], trace.seconds


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.label)
def test_a_simulated_run_tells_what_can_be_seen_and_nothing_secret(scheme: CodedScheme, tmp_path: Path):
    drawn = Remembered()
    events, seconds = journal_of(scheme, tmp_path, drawn)
    assert all(set(event) <= SCHEMA[event["event"]] for event in events)
    times = [event["time"] for event in events]
    assert times == sorted(times)
    ends = [event for event in events if event["event"] == "epoch"]
    assert [event["time"] for event in ends] == pytest.approx(seconds, abs=1e-6)
    needed = scheme.quorum(10).answers_needed
    for end in ends:
        in_time = [event for event in events if event["event"] == "answer" and event["epoch"] == end["epoch"]]
        assert end["answers"] == len(in_time) >= needed
        assert len({event["device"] for event in in_time}) == len(in_time)
    members = next(event for event in events if event["event"] == "members")
    assert sum(part["needed"] for part in members["parts"]) == needed
    assert ends[-1]["received"] >= sum(event["bytes"] for event in events if event["event"] == "answer") > 0
    assert events[-1]["outcome"] == "complete"

    whole = (tmp_path / EVENTS_FILE).read_text()
    assert len(drawn.given) > 20, "keys and seeds were drawn"
    for secret in drawn.given:
        assert secret.hex() not in whole and base64.b64encode(secret).decode().rstrip("=") not in whole
        assert ", ".join(map(str, secret)) not in whole
    words = {text for event in events for text in texts(event)}
    assert all(len(word) < 40 for word in words), "no place for a row, a key or a model in any encoding"


def test_every_field_is_a_number_a_name_or_a_list_of_names():
    """What could hold a secret is not even a type of the schema: no bytes, no arrays, no bag of anything."""
    allowed = ("str", "int", "bool", "float", "float | None", "tuple[str, ...]", "tuple[int, int, int]")
    closed = ("Clock", "Literal['role', 'cell', 'group']", "tuple[NamedPart, ...]", 'Literal["role", "cell", "group"]')
    for kind in Event.known:
        assert {one.type for one in fields(kind)} <= {*allowed, *closed}, kind


def test_every_event_says_what_it_is():
    assert all(kind.__doc__ for kind in Event.known)
    assert len(SCHEMA) == len(Event.known), "no two of one name"
    assert event_log.EVENTS_FORMAT == "codedfl-events-1"

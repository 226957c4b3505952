"""The log of a device or a server: lines that others can cause are few."""

from __future__ import annotations

import logging

from codedfl.logs import RepeatLimit


def through(few: RepeatLimit, when: float, level: int, text: str, *about: object) -> str | None:
    record = logging.LogRecord("codedfl", level, "", 0, text, about, None)
    record.created = when
    return few.line(record)


def test_a_flood_is_ten_lines_a_minute_and_a_number():
    few, said = RepeatLimit(), []
    for number in range(1000):
        said.append(through(few, number / 100, logging.ERROR, "a message of %s is refused: %s", "h4", number))
    shown = [line for line in said if line]
    assert len(shown) == 10 and shown[0] == "a message of h4 is refused: 0"
    assert shown[-1] == "a message of h4 is refused: 9 (more like this: not shown for a minute)"
    other = through(few, 10.0, logging.ERROR, "a message of %s is refused: %s", "h3", "x")
    assert other == "a message of h3 is refused: x"
    later = through(few, 70.0, logging.ERROR, "a message of %s is refused: %s", "h4", "100 %")
    assert later == "a message of h4 is refused: 100 % (990 more like this were not shown)"


def test_nodes_are_counted_together_and_epochs_are_not():
    few = RepeatLimit()
    nodes = [through(few, 0.0, logging.WARNING, "node %d did not introduce itself", node) for node in range(100)]
    assert sum(line is not None for line in nodes) == 10
    epochs = [through(few, 0.0, logging.INFO, "epoch %d", epoch) for epoch in range(100)]
    assert epochs == [f"epoch {epoch}" for epoch in range(100)]


def test_what_is_remembered_of_lines_is_bounded():
    few = RepeatLimit()
    for number in range(30_000):
        assert through(few, float(number), logging.INFO, "%s is here", f"device-{number}") is not None
    assert len(few._begun) <= 10_001

"""The clock of a training: restarting and finishing stragglers, against closed forms and an event loop."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.fleet.clock import StragglerPolicy, TrainingClock


def rng() -> np.random.Generator:
    return np.random.default_rng(20220104)


def training_times(durations: np.ndarray, wait_for: int, policy: StragglerPolicy) -> np.ndarray:
    """(draws, epochs) ends of the epochs, for (draws, epochs, D) durations and devices ready at once."""
    draws, epochs, n_devices = durations.shape
    clock = TrainingClock(np.zeros(draws), np.zeros((draws, n_devices)), policy)
    ends = []
    for epoch in range(epochs):
        clock.advance(durations[:, epoch], Quorum.all_but(n_devices, n_devices - wait_for))
        ends.append(clock.now)
    return np.stack(ends, axis=1)


def test_restarting_stragglers_make_epochs_independent():
    arrivals = rng().exponential(size=(40, 6, 5))
    ends = training_times(arrivals, 3, "restart")
    np.testing.assert_allclose(ends, np.sort(arrivals, axis=2)[:, :, 2].cumsum(axis=1))


def finish_by_events(durations: np.ndarray, wait_for: int) -> list[float]:
    """The finish policy for one draw as a plain event loop."""
    epochs, devices = durations.shape
    current, answers, ends = 0, 0, []
    busy = {i: (float(durations[0, i]), 0) for i in range(devices)}  # until when, with which epoch
    idle: set[int] = set()
    while True:
        i = min(busy, key=lambda j: busy[j])
        now, epoch = busy.pop(i)
        idle.add(i)
        if epoch == current:
            answers += 1
            if answers == wait_for:
                ends.append(now)
                current, answers = current + 1, 0
                if current == epochs:
                    return ends
                took = idle
            else:
                took = set()  # it has answered this epoch and waits for the next
        else:
            took = {i}
        for j in took:
            busy[j] = (now + float(durations[current, j]), current)
        idle = idle - took


@pytest.mark.parametrize("wait_for", [1, 2, 4, 7])
def test_finishing_stragglers_agree_with_an_event_loop(wait_for: int):
    speeds = np.array([1, 1, 2, 3, 5, 10, 30.0])
    durations = rng().exponential(size=(30, 40, 7)) * speeds + speeds
    ends = training_times(durations, wait_for, "finish")
    for draw in range(30):
        np.testing.assert_allclose(ends[draw], finish_by_events(durations[draw], wait_for))


def test_waiting_for_all_makes_the_policies_agree():
    arrivals = rng().exponential(size=(20, 5, 4))
    np.testing.assert_allclose(training_times(arrivals, 4, "finish"), training_times(arrivals, 4, "restart"))


def test_a_policy_must_be_known():
    with pytest.raises(InvalidInput, match=re.escape("policy must be restart or finish, got 'nap'")):
        TrainingClock(np.zeros(1), np.zeros((1, 2)), "nap")  # type: ignore[arg-type]

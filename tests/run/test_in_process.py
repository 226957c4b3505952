"""The driver in one process: straggler patterns, errors, and what it keeps in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol.device import Device
from codedfl.protocol.events import Event, Turn
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server_events import AnsweredLate, Ignored
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import everyone_in_order, run_in_process
from scenario import Scenario, descent, kinds, names_of
from wording import exactly

SCHEMES = pytest.mark.parametrize(
    "scheme",
    [CODED_PADDED, CODED_KEYS],
    ids=["coded-padded", "coded-keys"],
)


@SCHEMES
def test_without_stragglers_the_model_is_the_centralised_one(scheme: SharingScheme):
    scenario = Scenario(scheme=scheme)
    model = run_in_process(scenario.server(), scenario.devices())
    assert np.array_equal(model, scenario.expected_models(descent())[-1])


def test_the_pattern_is_asked_once_an_epoch_with_all_devices():
    """Also in the first epoch, in which some devices are ready later than others."""
    calls: list[tuple[int, list[str]]] = []

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        calls.append((epoch, list(names)))
        return names

    scenario = Scenario(alpha=3)
    run_in_process(scenario.server(), scenario.devices(), arrivals)
    assert calls == [(epoch, scenario.names) for epoch in (1, 2, 3, 4)]


def test_only_those_who_arrive_answer_and_the_first_ones_count():
    scenario = Scenario(alpha=2)
    devices = scenario.devices()
    server = scenario.server()

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        del names
        return ["device-3", "device-0", "device-2"] if epoch == 1 else ["device-1", "device-3", "device-2", "device-0"]

    events: list[Event] = []
    receive = server.receive

    def noted(*arguments: Any) -> Turn:
        turn = receive(*arguments)
        events.extend(turn.events)
        return turn

    server.receive = noted  # type: ignore[method-assign, assignment]
    model = run_in_process(server, devices, arrivals)
    assert np.array_equal(model, scenario.expected_models(descent())[-1])
    # The fourth answer of epochs 2 to 4 came too late each time; in epoch 1 device-1 was never asked again.
    late = [event for event in events if isinstance(event, AnsweredLate)]
    assert [(event.device, event.epoch) for event in late] == [("device-0", epoch) for epoch in (2, 3, 4)]
    assert not any(isinstance(event, Ignored) for event in events)


def test_epochs_are_reported_once_each_with_their_model():
    scenario = Scenario()
    server = scenario.server()
    seen: list[tuple[int, np.ndarray]] = []

    def on_epoch(epoch: int) -> None:
        assert server.model is not None
        seen.append((epoch, server.model.copy()))

    run_in_process(server, scenario.devices(), everyone_in_order, on_epoch)
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4]
    for (_, model), expected in zip(seen, scenario.expected_models(descent()), strict=True):
        assert np.array_equal(model, expected)


@pytest.mark.parametrize("epoch_of_loss", [1, 2, 4])
@pytest.mark.parametrize("alpha", [1, 2, 4])
def test_too_few_devices_keep_the_model_so_far(epoch_of_loss: int, alpha: int):
    scenario = Scenario(alpha=alpha)
    needed = 4 - alpha + 1
    alive = scenario.names[1:needed]  # one less than needed; device-0 and the last ones are gone

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if epoch < epoch_of_loss or name in alive]

    with pytest.raises(NotEnoughDevices) as caught:
        run_in_process(scenario.server(), scenario.devices(), arrivals)
    missing = [name for name in scenario.names if name not in alive]
    assert str(caught.value) == (
        f"epoch {epoch_of_loss} needs {needed} answers (D - alpha + 1) but only {len(alive)} devices are alive:"
        f" 1 more needed, without {', '.join(missing)}"
    )
    assert caught.value.missing == tuple(missing)
    if epoch_of_loss == 1:
        assert caught.value.model is None
    else:
        assert np.array_equal(caught.value.model, scenario.expected_models(descent())[epoch_of_loss - 2])


# -- bad input, named with the device it comes from


class Changed(Scenario):
    """The scenario with other data on device-1."""

    def with_data(self, X: np.ndarray, Y: np.ndarray) -> Changed:
        self.data[1] = X, Y
        return self


@pytest.mark.parametrize(("X", "Y"), [(np.zeros((3, 5)), np.zeros((3, 2))), (np.zeros((3, 4)), np.zeros((3, 1)))])
@SCHEMES
def test_data_of_another_shape_are_refused(scheme: SharingScheme, X: np.ndarray, Y: np.ndarray):
    shape = f"{X.shape[1]} and {Y.shape[1]}"
    reason = f"n_features and n_outputs must be {shape} as this device's recipe makes them, got 4 and 2"
    scenario = Changed(scheme=scheme).with_data(X, Y)
    with pytest.raises(InvalidInput, match=exactly(f"device 'device-1' cannot take part: {reason}")):
        run_in_process(scenario.server(), scenario.devices())


@pytest.mark.parametrize("alpha", [5, 100])
def test_alpha_above_the_number_of_devices_is_refused(alpha: int):
    scenario = Scenario(alpha=alpha)
    with pytest.raises(
        InvalidInput, match=exactly(f"alpha must be between 1 and the number of devices (4), got {alpha}")
    ):
        run_in_process(scenario.server(), scenario.devices())


def test_names_must_be_distinct_and_expected():
    scenario = Scenario()
    devices = scenario.devices()
    with pytest.raises(InvalidInput, match=exactly(f"device names must be distinct, got {['device-0'] * 2}")):
        run_in_process(scenario.server(), [devices[0], scenario.device(0)])
    message = f"devices must be those the server expects, {names_of(4)}, got {names_of(3)}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        run_in_process(scenario.server(), devices[:3])


def test_a_device_of_another_scheme_is_refused():
    scenario = Scenario()
    devices: list[Device] = [*scenario.devices()[:3], scenario.device(3, scheme=CODED_KEYS)]
    message = "device 'device-3' cannot take part: scheme must be 'coded-keys' for this device, got 'coded-padded'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        run_in_process(scenario.server(), devices)


def test_devices_are_made_for_one_run():
    """Their data are dropped once phase 1 has used them; the same devices cannot be padded twice."""
    scenario = Scenario()
    first, devices = scenario.server(), scenario.devices()
    run_in_process(first, devices)
    server = scenario.server(random_bytes=lambda size: b"\x01" * size)
    message = f"this device is in run {first.run.hex()} already: one run each, got {'01' * 16}"
    with pytest.raises(MessageRefused, match=exactly(message)):
        run_in_process(server, devices)
    assert server.phase is Phase.JOINING


def test_bulk_is_delivered_before_the_next_is_made():
    """At d = 2000 and alpha = 23 of 25 all padded shares at once would be 6.6 GB; one sender's are 0.3 GB."""
    log: list[tuple[str, str]] = []

    def logged(device: Device) -> Device:
        receive = device.receive

        def noted(data: bytes, bulk: bytes = b"") -> Turn:
            message = Message.decode(data)
            if message.kind is Kind.SHARE:
                log.append(("received from", message.sender))
            turn = receive(data, bulk)
            log.extend(("made by", device.name) for kind in kinds(turn) if kind is Kind.SHARES)
            return turn

        device.receive = noted  # type: ignore[method-assign]
        return device

    scenario = Scenario(alpha=3)
    run_in_process(scenario.server(), list(map(logged, scenario.devices())))
    expected = [entry for name in scenario.names for entry in [("made by", name), *[("received from", name)] * 3]]
    assert log == expected

"""Noise in the protocol: in the total bit for bit, drawn once, never over too few owners."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from crafted import from_server, refused

from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.exact.row_noise import RowNoise
from codedfl.privacy.calibration import noise_for
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.device_sharing import DeviceSharing
from codedfl.protocol.hiding_rows import cross_noise, gram_noise, noise_label
from codedfl.protocol.messages import Kind, unpack_list
from codedfl.protocol.owner_list import OwnerList
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.server_session import Phase
from codedfl.solve.closed_form import ClosedForm
from scenario import Network, Scenario, descent, repeatable, wire
from wording import exactly

SIZES = (2, 1, 7, 3, 1, 4)
EPSILON, DELTA, HONEST = 2.0, 1e-5, 4
REGULARISATION = 10.0  # of few rows and much noise
NOISE = noise_for(EPSILON, DELTA, HONEST, clip_norm=1.5)


@dataclass
class NoisyScenario(Scenario):
    """Six devices that add noise; z = 1, so that five owners at least must be in a list."""

    sizes: Any = SIZES
    alpha: int = 1
    colluders: int = 1
    public_samples: bool = False
    scheme: SharingScheme = ROLE_SUMS
    noise: RowNoise | None = NOISE

    @property
    def parameters(self) -> Parameters:
        return replace(super().parameters, noise=self.noise)


class Keeps(ClosedForm):
    """The closed form, and what it was told."""

    def take_gram(self, triangle: np.ndarray) -> None:
        super().take_gram(triangle)
        self.told: list[np.ndarray] = [triangle]

    def start(self, initial: np.ndarray, constant: np.ndarray, samples: int) -> None:
        self.told.append(constant)
        self.samples = samples
        super().start(initial, constant, samples)


def shortened(rows: np.ndarray, norm: float) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.where(lengths > norm, norm * (1 - 2.0**-30) / lengths, 1.0)


def noisy_integers(network: Network, scenario: Scenario, seeds: dict[str, bytes]) -> tuple[np.ndarray, np.ndarray]:
    """X'X (its triangle) and X'Y in units of the ring: exact integers of clipped rows, and the noise of each seed."""
    agreed = network.server.agreement
    format_ = agreed.fixed_point
    kept = replace(scenario)
    kept.data = [(shortened(X, NOISE.clip_norm), shortened(Y, 1.0)) for X, Y in scenario.data]
    totals = kept.totals(agreed)
    gram = np.array(totals.gram, dtype=object)[np.triu_indices(scenario.d)]
    cross = -np.array(totals.constant, dtype=object)
    for seed in seeds.values():
        gram = gram + gram_noise(format_, seed, noise_label(agreed.parameters))
        cross = cross + cross_noise(format_, scenario.c, seed, noise_label(agreed.parameters))
    return gram, cross


def joined(scenario: Scenario, solver: Any) -> tuple[Network, dict[str, bytes]]:
    """Everybody has joined and has drawn the seed of its noise; agreements are on their way."""
    network = Network.of(scenario, solver)
    network.run_until(Kind.AGREEMENT)
    return network, {name: device._own.noise_seed for name, device in network.devices.items()}


# -- in the total


def test_the_total_is_that_of_exact_integers_and_every_owners_noise():
    scenario, solver = NoisyScenario(), Keeps(REGULARISATION)
    network, seeds = joined(scenario, solver)
    assert len(set(seeds.values())) == 6
    network.run()
    assert network.server.phase is Phase.FINISHED
    gram, cross = noisy_integers(network, scenario, seeds)
    format_ = network.server.agreement.fixed_point
    assert np.array_equal(np.ldexp(solver.told[0], format_.gram_bits), gram.astype(np.float64))
    assert np.array_equal(np.ldexp(solver.told[1], format_.constant_bits), -cross.astype(np.float64))
    assert solver.samples == scenario.parameters.bounds.samples  # public: no count is summed


def test_products_are_of_the_same_noisy_total():
    scenario = NoisyScenario(scheme=ROLE_KEYS)
    network, seeds = joined(scenario, descent(4))
    network.run()
    agreed = network.server.agreement
    gram, cross = noisy_integers(network, scenario, seeds)
    square = np.zeros((scenario.d, scenario.d), dtype=object)
    square[np.triu_indices(scenario.d)] = gram
    square = square + np.triu(square, 1).T
    solver, format_ = descent(4), agreed.fixed_point
    solver.start(
        agreed.initial_model, np.ldexp(-cross.astype(float), -format_.constant_bits), agreed.parameters.bounds.samples
    )
    while (update := solver.request()) is not None:
        integers, bits = format_.round_update(update)
        product = square @ integers.astype(np.int64).astype(object)
        solver.receive(np.ldexp(integers, -bits), np.ldexp(product.astype(float), -format_.gram_bits - bits))
    assert np.array_equal(network.server.model, solver.model)


def test_an_initial_model_is_refused():
    message = "the initial model must be zero with noise: its grid is too coarse for another"
    with pytest.raises(InvalidInput, match=exactly(message)):
        NoisyScenario(initial=np.full((4, 2), 0.25)).agreement()


# -- drawn once


def test_noise_is_drawn_with_the_join_and_forgotten_with_the_upload():
    network, seeds = joined(NoisyScenario(), ClosedForm(REGULARISATION))
    assert all(len(seed) == 32 for seed in seeds.values())
    network.run_until(Kind.SHARES)
    assert all(device._own.noise_seed == b"" for device in network.devices.values())


def test_a_device_that_comes_back_has_the_same_noise(monkeypatch: pytest.MonkeyPatch):
    """With another source of randomness: pads are new, so the upload is, but what is under them is not."""
    scenario = NoisyScenario()
    network, _ = joined(scenario, ClosedForm(REGULARISATION))
    network.run_until(Kind.ROLE_KEYS)
    device, keys = network.devices["device-2"], network.down["device-2"][0]
    under_pads: list[bytes] = []
    statistics = DeviceSharing._own_statistics

    def seen(self: DeviceSharing) -> Any:
        found = statistics(self)
        under_pads.append(found.gram(slice(0, scenario.d)).tobytes() + found.constant.tobytes())
        return found

    monkeypatch.setattr(DeviceSharing, "_own_statistics", seen)
    uploads = []
    for source in ("one", "other"):
        again = scenario.device(2, identity=device.identity, random_bytes=repeatable(source))
        again.restore(copy.deepcopy(device.state()))
        uploads.append(wire(again.receive(keys))[0])
    assert uploads[0] != uploads[1]
    assert under_pads[0] == under_pads[1]


@pytest.mark.parametrize("when", ["joined", "uploaded"])
def test_a_restored_run_ends_with_the_same_total(when: str):
    """Every device is replaced by one from its state, before and after its upload: bit for bit the same model."""
    scenario = NoisyScenario()
    network, _ = joined(scenario, Keeps(REGULARISATION))
    whole, _ = joined(scenario, Keeps(REGULARISATION))
    whole.run()
    network.run_until(Kind.AGREEMENT if when == "joined" else Kind.SHARES)
    for index, (name, device) in enumerate(list(network.devices.items())):
        again = scenario.device(index, identity=device.identity, random_bytes=repeatable(f"later {index}"))
        again.restore(copy.deepcopy(device.state()))
        network.devices[name] = again
    network.run()
    assert np.array_equal(network.server.model, whole.server.model)


def test_other_parameters_have_other_noise():
    """A seed that serves two analyses by mistake: the difference of their totals must not be exact."""
    scenario = NoisyScenario()
    format_, p = scenario.agreement().fixed_point, scenario.parameters
    labels = {noise_label(replace(p, **change)) for change in ({}, {"epochs": 2}, {"recipe": bytes(32)}, {"owners": 6})}
    drawn = [gram_noise(format_, bytes(32), label).tobytes() for label in labels]
    assert len(labels) == len(set(drawn)) == 4


# -- over enough owners


def test_no_device_signs_a_list_of_fewer_owners_than_the_honest_ones_and_z():
    scenario = NoisyScenario()
    network = Network.of(scenario, ClosedForm(REGULARISATION))
    network.run_until(Kind.OWNERS)
    listed = network.server.sharing.owners
    short = from_server(network, Kind.OWNERS, OwnerList(listed.owners[:4]).encoded)
    refused(network.devices["device-0"], short, "at least 5 owners must be in the total, got 4")
    enough = from_server(network, Kind.OWNERS, OwnerList(listed.owners[:5]).encoded)
    assert len(network.devices["device-0"].receive(enough).outgoing) == 1


def test_the_server_does_not_even_ask_for_it():
    network = Network.of(NoisyScenario(), ClosedForm(REGULARISATION))
    network.run_until(Kind.SHARES)
    gone = ["device-3", "device-4"]
    alive = [link for link in network.pending() if link[1] not in gone]
    while alive:
        network.deliver(alive[0])
        alive = [link for link in network.pending() if link[1] not in gone]
    message = (
        "the data of at least 5 owners (z and the honest ones that noise is made for) must be in the total, got 4:"
        " without device-3, device-4"
    )
    with pytest.raises(NotEnoughDevices, match=exactly(message)):
        network.server.go_on_without(gone)


# -- who may have it


def test_schemes_without_it_refuse():
    scenario = NoisyScenario(scheme=CODED_KEYS, colluders=0)
    message = (
        f"noise must be left out with coded-keys, whose devices add none, got {NOISE}: take role-sums or role-keys"
    )
    with pytest.raises(InvalidInput, match=exactly(message)):
        scenario.server()
    device = scenario.device(0)
    assert device._joining._objection(scenario.parameters) == message.partition(":")[0]


def test_a_public_row_count_is_refused():
    with pytest.raises(InvalidInput, match=exactly("samples must be None with noise, which hides single rows, got 3")):
        replace(NoisyScenario().parameters, samples=3)


def test_parameters_travel_whole_and_those_without_noise_as_before():
    parameters = NoisyScenario().parameters
    assert Parameters.decode(parameters.encode()) == parameters
    plain, noisy = (unpack_list(one.encode(), "") for one in (replace(parameters, noise=None), parameters))
    assert noisy == [*plain, NOISE.multiplier, NOISE.honest, NOISE.clip_norm]
    assert len(plain) == 19
    assert Parameters.decode(replace(parameters, noise=None).encode()).noise is None
    assert parameters.constant_length == 8 and replace(parameters, noise=None).constant_length == 9
    broken = replace(parameters)
    object.__setattr__(broken, "noise", copy.copy(NOISE))
    object.__setattr__(broken.noise, "honest", 0)
    with pytest.raises(MessageRefused, match=exactly("parameters break a rule: honest must be at least 1, got 0")):
        Parameters.decode(broken.encode())

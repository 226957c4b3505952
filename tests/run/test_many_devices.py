"""A fit with many devices: its cost grows no faster than D, whatever the clock of the machine says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from codedfl import CodedRidge
from codedfl.crypto import pads, sealed
from codedfl.protocol import agreement
from codedfl.protocol.schemes.coded_keys import CodedKeys
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.run.in_process import no_more_than_needed, run_in_process
from scenario import Scenario, descent


def table(n_devices: int, rows: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_devices * rows, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3, np.repeat(np.arange(n_devices), rows)


def counted_fit(n_devices: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the expensive things are done: keys exchanged, streams expanded, agreements read."""
    count: Counter[str] = Counter()

    def counting(name: str, function):
        def called(*args, **options):
            count[name] += 1
            return function(*args, **options)

        return called

    with monkeypatch.context() as patch:
        patch.setattr(sealed, "_exchange", counting("exchanges", sealed._exchange))
        for use in ("write", "add"):
            patch.setattr(pads.SegmentExpander, use, counting("streams", getattr(pads.SegmentExpander, use)))
        X, y, device = table(n_devices)
        before = agreement._decoded.cache_info().misses
        CodedRidge(regularisation=1e-3).fit(X, y, device=device)
        count["agreements"] = agreement._decoded.cache_info().misses - before
    return count


def test_the_work_of_a_fit_grows_no_faster_than_its_devices(monkeypatch: pytest.MonkeyPatch):
    once, twice = counted_fit(30, monkeypatch), counted_fit(60, monkeypatch)
    for name in ("exchanges", "streams"):
        assert twice[name] <= 2.05 * once[name], name
    assert once["agreements"] == twice["agreements"] == 3, "two sums of moments and the training, read once each"


@pytest.mark.parametrize("n_devices", [60, pytest.param(120, marks=pytest.mark.nightly)])
def test_many_devices_make_the_model_of_all_their_rows_together(n_devices: int):
    X, y, device = table(n_devices)
    ours = CodedRidge(regularisation=1e-3).fit(X, y, device=device)
    scaled = StandardScaler().fit_transform(X)
    ridge = Ridge(alpha=len(X) * 1e-3).fit(scaled, y)
    np.testing.assert_allclose(ours.predict(X), ridge.predict(scaled), atol=2e-3)
    assert ours.model_.provenance["scheme"] == RoleKeys.default_for(n_devices).label == "role-keys, z = 1, 24 holders"
    coded = CodedRidge(scheme="coded-keys", regularisation=1e-3).fit(X, y, device=device)
    assert coded.model_.provenance["scheme"] == CodedKeys.default_for(n_devices).label
    assert np.array_equal(coded.predict(X), ours.predict(X))


@pytest.mark.parametrize("spare", [0, 1])
def test_devices_that_would_be_late_need_not_compute(spare: int):
    scenario = Scenario(alpha=3)
    server, devices = scenario.server(spare=spare), scenario.devices()
    model = run_in_process(server, devices, no_more_than_needed(server))
    assert np.array_equal(model, scenario.expected_models(descent())[-1])
    answered = [device.epochs.last_answer[0] > 0 for device in devices]
    assert sum(answered) == len(devices) - 3 + 1 + spare

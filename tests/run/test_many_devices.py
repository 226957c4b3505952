"""A fit with many devices: its cost grows no faster than D, whatever the clock of the machine says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from codedfl import CodedRidge
from codedfl.sum import keys, pads


def table(n_devices: int, rows: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_devices * rows, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3, np.repeat(np.arange(n_devices), rows)


def counted_fit(n_devices: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the expensive things are done: keys exchanged, streams expanded."""
    count: Counter[str] = Counter()

    def counting(name: str, function):
        def called(*args, **options):
            count[name] += 1
            return function(*args, **options)

        return called

    with monkeypatch.context() as patch:
        patch.setattr(keys.ExchangeKey, "with_public", counting("exchanges", keys.ExchangeKey.with_public))
        patch.setattr(pads, "_stream", counting("streams", pads._stream))
        X, y, device = table(n_devices)
        CodedRidge(regularisation=1e-3).fit(X, y, device=device)
    return count


def test_the_work_of_a_fit_grows_no_faster_than_its_devices(monkeypatch: pytest.MonkeyPatch):
    once, twice = counted_fit(30, monkeypatch), counted_fit(60, monkeypatch)
    for name in ("exchanges", "streams"):
        assert twice[name] <= 2.05 * once[name], name


@pytest.mark.parametrize("n_devices", [60, pytest.param(120, marks=pytest.mark.nightly)])
def test_many_devices_make_the_model_of_all_their_rows_together(n_devices: int):
    X, y, device = table(n_devices)
    ours = CodedRidge(regularisation=1e-3).fit(X, y, device=device)
    scaled = StandardScaler().fit_transform(X)
    ridge = Ridge(alpha=len(X) * 1e-3).fit(scaled, y)
    np.testing.assert_allclose(ours.predict(X), ridge.predict(scaled), atol=2e-3)

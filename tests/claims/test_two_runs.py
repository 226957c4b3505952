"""What no exact scheme can prevent: two runs that differ by one device give that device away."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.attacks.two_runs import difference_of_runs, true_cross

from codedfl.protocol.schemes.coded_keys import CodedKeys
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme
from scenario import Scenario


@pytest.mark.parametrize("scheme", [CodedPadded(2), CodedKeys(3)], ids=lambda one: one.label)
def test_the_difference_of_two_totals_is_one_device(scheme: CodedScheme):
    scenario = Scenario(
        sizes=(3, 5, 2, 4),
        alpha=scheme.alpha,
        scheme=scheme.sharing_scheme,
        public_samples=False,
    )
    found = difference_of_runs(scheme, scenario.parameters, scenario.data)
    true = true_cross(scenario.parameters, scenario.n_devices, scenario.data[-1])
    assert np.allclose(found, true, rtol=0, atol=1e-9)
    others = [true_cross(scenario.parameters, scenario.n_devices, rows) for rows in scenario.data[:-1]]
    assert min(np.abs(found - other).max() for other in others) > 1e-3

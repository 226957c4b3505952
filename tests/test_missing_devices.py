"""A device that never shares: named, and left out only with leave, in a fresh run."""

from __future__ import annotations

import numpy as np
import pytest

from codedfl.central import CentralTotals
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.missing_devices import train_allowing_missing
from codedfl.schemes import CodedKeys, CodedPadded
from codedfl.solvers import ConjugateGradient
from small_problems import digits


def solver() -> ConjugateGradient:
    return ConjugateGradient(6, 1e-4)


@pytest.mark.parametrize("scheme", [CodedKeys(3), CodedPadded(3)], ids=lambda scheme: scheme.name)
def test_with_leave_the_rest_trains_on_a_fresh_set(scheme):
    outcome = train_allowing_missing(scheme, digits(), solver, allow_missing=2, silent=["device-4", "device-7"])
    assert outcome.missing == ("device-4", "device-7")
    alone = list(CentralTotals(digits().without(outcome.missing)).train(solver()))[-1]
    assert np.array_equal(outcome.model, alone)


def test_without_leave_the_missing_are_named():
    with pytest.raises(NotEnoughDevices) as caught:
        train_allowing_missing(CodedKeys(3), digits(), solver, allow_missing=1, silent=["device-4", "device-7"])
    assert str(caught.value) == "all 10 devices must share before training: 2 missing (device-4, device-7)"


def test_nobody_missing():
    outcome = train_allowing_missing(CodedKeys(3), digits(), solver, allow_missing=1)
    assert outcome.missing == ()


def test_negative_leave_is_refused():
    with pytest.raises(InvalidInput) as caught:
        train_allowing_missing(CodedKeys(3), digits(), solver, allow_missing=-1)
    assert str(caught.value) == "allow_missing must be at least 0, got -1"


def test_leaving_out_unknown_or_nearly_all_devices_is_refused():
    with pytest.raises(InvalidInput, match="devices to leave out must be among those of the problem, got nobody"):
        digits().without(["nobody"])
    with pytest.raises(InvalidInput, match="at least two devices must be left, got 1"):
        digits().without(digits().device_names[1:])

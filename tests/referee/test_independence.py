"""The package's latencies against a model written a second time (second_model.py), within 1 %.

The means over many draws of the sharing phase and of an epoch, and the time to as many epochs as the race takes, for
five schemes under every sharing convention, with cryptography free and charged, from the call and from zero, messages
in one lump and in packets. Role keys are the secure sum: what it prepares, and from zero what its parties do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from second_model import PUBLISHED, Model, Prices

from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.costs.prices import at_published_prices
from codedfl_lab.costs.times import Beginning, Conditions, Draws, WorkShape, epoch_end_times
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from codedfl_lab.schemes.role_keys import RoleKeys

WITHIN = 0.01
CONVENTIONS: tuple[SharingConvention, ...] = get_args(SharingConvention)
FLEET = Fleet.load("paper")
FREE = replace(FLEET, pad_macs_per_number=0.0, seal_macs_per_number=0.0)
SHAPE = WorkShape(2000, 10, np.full(25, 2400))
SCHEMES: list[tuple[Scheme, int]] = [
    (Conventional(), 0),
    (DropSlowest(5), 5),
    (CodedPadded(6), 6),
    (CodedPadded(23), 23),
    (CodedKeys(25), 25),
    (RoleKeys(1), 1),
    (RoleKeys(9), 9),
    (RoleKeys(1, blocks=5, narrow=True), 1),
]


CASES = [
    pytest.param(scheme, parameter, sharing, id=f"{scheme.label}-{sharing}")
    for scheme, parameter in SCHEMES
    # Without a sharing phase there is nothing that a convention of sharing could change.
    for sharing in (CONVENTIONS if isinstance(scheme, CodedScheme) else CONVENTIONS[:1])
]


WAYS: list[tuple[bool, Beginning, bool]] = [
    (False, "call", False),
    (True, "call", False),
    (True, "zero", False),
    (False, "call", True),
    (True, "zero", True),
]
"""Whether cryptography is charged, where time begins, and whether messages travel in packets."""


@pytest.mark.parametrize(("charged", "begins", "packets"), WAYS)
@pytest.mark.parametrize(("scheme", "parameter", "sharing"), CASES)
def test_two_models_agree(
    scheme: Scheme, parameter: int, sharing: SharingConvention, charged: bool, begins: Beginning, packets: bool
) -> None:
    fleet = at_published_prices(FLEET) if charged else FREE
    at = Conditions(fleet, sharing, chunk_bits=12_000 if packets else None, begins=begins)
    # The slowest of one upload each varies most.
    draws, epochs = (8000, 8) if isinstance(scheme, CodedPadded) else (8000, 2) if packets else (16_000, 3)
    start, ends = epoch_end_times(scheme, SHAPE, at, epochs, Draws(draws, np.random.default_rng(5)))
    prices = PUBLISHED if charged else Prices()
    second = Model(sharing, prices, packets=packets, draws=draws, seed=6, zero=begins == "zero")
    dealt = {"blocks": scheme.blocks, "width": 32} if isinstance(scheme, RoleKeys) and scheme.narrow else {}
    other_start, other_ends = second.run(scheme.name, parameter, epochs, **dealt)
    assert start.mean() == pytest.approx(other_start.mean(), rel=WITHIN)
    assert np.diff(ends, axis=1).mean() == pytest.approx(np.diff(other_ends, axis=1).mean(), rel=WITHIN)
    assert ends[:, -1].mean() == pytest.approx(other_ends[:, -1].mean(), rel=WITHIN)

"""CodedSecAgg and LightSecAgg as timed rows, held to the authors' formulas and tables (one convention for all)."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.baselines.coded_secagg import CodedSecAgg
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.baselines.light_secagg import LightSecAgg
from codedfl_lab.comparing.timed_scheme import TimedScheme, Workload
from codedfl_lab.costs.times import Conditions, Draws, WorkShape, epoch_end_times
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.registry import SCHEMES

PAPER = replace(Fleet.load("paper"), pad_macs_per_number=0.0, seal_macs_per_number=0.0)
SAMPLES = 60_000


def row(scheme: Scheme, fleet: Fleet = PAPER, epochs: int = 20, draws: int = 100, seed: int = 0) -> TimedScheme:
    shape = WorkShape(2000, 10, np.full(fleet.n_devices, SAMPLES // fleet.n_devices))
    work = Workload(shape, Conditions(fleet), draws)
    times = epoch_end_times(scheme, shape, work.at, epochs, Draws(draws, np.random.default_rng(seed)))
    return TimedScheme.of(scheme, "gd", work, *times)


@pytest.mark.parametrize(("z", "seconds"), [(1, 3.33), (5, 4.24), (10, 15.2)])
def test_coded_secagg_on_the_papers_fleet(z: int, seconds: float):
    made = row(CodedSecAgg(z))
    assert made.sharing_seconds == pytest.approx(1138, rel=0.001)
    assert made.epoch_seconds == pytest.approx(seconds, rel=0.01)
    assert row(CodedSecAgg(z, number_bits=48)).sharing_seconds == pytest.approx(759, rel=0.001)
    assert (made.colluders, made.stragglers, made.server_sees) == (z, 25 - z - 2, "the total only")


def test_one_answer_less_is_enough():
    """z + 1 sums decode; the authors' code takes z + 2."""
    assert row(CodedSecAgg(1, awaited=1)).epoch_seconds < row(CodedSecAgg(1)).epoch_seconds
    assert row(CodedSecAgg(1, awaited=1)).stragglers == 23


@pytest.mark.parametrize(("z", "seconds"), [(1, 34.3), (5, 34.5), (10, 35.0)])
def test_light_secagg_on_the_papers_fleet(z: int, seconds: float):
    made = row(LightSecAgg(z), draws=400)
    assert (made.sharing_seconds, made.stragglers, made.colluders) == (0, 0, z)
    assert made.epoch_seconds == pytest.approx(seconds, rel=0.01)


def seconds_of_650_epochs(scheme: Scheme, fleets: int = 150) -> float:
    """Mean over fleets of 120 devices whose classes are drawn with equal chances, as in the authors' programs."""
    rng = np.random.default_rng(7)
    found = []
    for seed in range(fleets):
        counts = rng.multinomial(120, [0.25] * 4)
        classes = tuple(replace(one, count=int(n)) for one, n in zip(PAPER.classes, counts, strict=True))
        made = row(scheme, replace(PAPER, classes=classes), epochs=4, draws=4, seed=seed)
        found.append(made.sharing_seconds + 650 * made.epoch_seconds)
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("z", "coded", "light"), [(1, 7629, 8848), (10, 7952, 9065), (30, 12715, 9813), (60, 22764, 12154)]
)
def test_650_epochs_on_120_devices(z: int, coded: float, light: float):
    """At z = 30 the last of the 32 awaited is a fast device in half of the fleets and a slow one in the others."""
    assert seconds_of_650_epochs(CodedSecAgg(z)) == pytest.approx(coded, rel=0.05 if z == 30 else 0.03)
    assert seconds_of_650_epochs(LightSecAgg(z), 40) == pytest.approx(light, rel=0.03)


def test_the_other_columns_of_that_table():
    assert seconds_of_650_epochs(Conventional(), 40) == pytest.approx(6332, rel=0.03)
    assert seconds_of_650_epochs(CodedPadded(24, 5), 40) == pytest.approx(2248, rel=0.03)
    assert seconds_of_650_epochs(CodedSecAgg(10, number_bits=48)) == pytest.approx(5308, rel=0.03)
    assert seconds_of_650_epochs(CodedSecAgg(60, number_bits=48)) == pytest.approx(15208, rel=0.04)


@pytest.mark.parametrize("n_devices", [25, 120, 1000])
def test_rows_of_all_sizes_can_be_compared(n_devices: int):
    """Time, bytes a device, stragglers and colluders tolerated, what the server sees; ours sends far less."""
    fleet = PAPER.scaled_to(n_devices)
    theirs = [row(scheme, fleet, epochs=3, draws=3) for scheme in (CodedSecAgg(1), LightSecAgg(1))]
    ours = row(CodedKeys.default_for(n_devices), fleet, epochs=3, draws=3)
    assert all(made.colluders == 1 for made in theirs)
    assert theirs[0].upload_bytes == pytest.approx((n_devices - 1) * 2_021_000 * 9 + 3 * 20_000 * 9)
    assert ours.upload_bytes == pytest.approx(2_021_000 * 6 + 3 * 20_000 * 6)
    # d c / (D - 2) numbers for each of the others, the gradient, and the sum of D shares; four bytes each.
    assert theirs[1].upload_bytes == pytest.approx(3 * 4 * 20_000 * ((2 * n_devices - 1) / (n_devices - 2) + 1))
    assert ours.seconds_mean < min(made.seconds_mean for made in theirs)


def test_they_are_never_planned():
    assert not [*CodedSecAgg.candidates(25), *LightSecAgg.candidates(25)]
    assert {"coded-secagg", "light-secagg"} <= set(SCHEMES)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (CodedSecAgg(24), "z must be between 0 and a group's size less 2 (23), got 24"),
        (CodedSecAgg(1, groups=4), "groups must divide the number of devices (25), got 4"),
        (LightSecAgg(24), "z must be between 0 and the number of devices less 2 (23), got 24"),
    ],
)
def test_bad_parameters_are_refused(scheme: Scheme, message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        scheme.check(25)

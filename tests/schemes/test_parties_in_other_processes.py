"""What a device of a training needs is sent to its process: of every coded scheme it must get there whole."""

from __future__ import annotations

import pickle

import pytest

from codedfl_lab import CodedKeys, CodedPadded, CodedScheme, RoleKeys, datasets, make_problem
from codedfl_lab.parties.making import TrainingRoster
from codedfl_lab.training.in_process import SERVER, simulated_identity, statistic_of


@pytest.mark.parametrize("scheme", [CodedPadded(2), CodedKeys(2), RoleKeys(1)], ids=lambda scheme: scheme.name)
def test_parties_get_to_another_process_whole(scheme: CodedScheme):
    problem = make_problem(datasets.load("digits"), n_devices=4, n_features=10)
    keys = {name: simulated_identity(name).public for name in problem.device_names}
    parties = scheme.parties(statistic_of(scheme, problem), TrainingRoster(simulated_identity(SERVER).public, keys))
    arrived = pickle.loads(pickle.dumps(parties))  # noqa: S301 - our own bytes, as multiprocessing sends them
    assert arrived.terms == parties.terms
    assert arrived.statistic.digest == parties.statistic.digest

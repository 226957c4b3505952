"""The operator's limits: read from a node's configuration or a file, judged from the study alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from clinics import ROSTER, STUDY

from codedfl.contract.policy import (
    KEYS,
    Policy,
    load_policy,
    node_policy,
    policy_objection,
    shown_directions,
    spending_objection,
    study_rho,
)
from codedfl.contract.study import Study
from codedfl.data.columns import NumberColumn
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.privacy.calibration import epsilon_of

RANGES = tuple(replace(one, scale="range") if isinstance(one, NumberColumn) else one for one in STUDY.columns)
KERNEL = replace(STUDY, columns=RANGES, features="rbf", n_features=200, epochs=11)
NOISY = replace(STUDY, columns=RANGES, noise=Budget(2.0, 3))


@pytest.mark.parametrize(
    ("policy", "study", "message"),
    [
        (Policy(), STUDY, ""),
        (Policy(colluders=2), STUDY, "colluders must be at least 2 by this device's policy, got 1"),
        (Policy(), replace(STUDY, smallest_cell=4),
         "smallest_cell must be at least 5 by this device's policy, got 4"),
        (Policy(smallest_cell=1), replace(STUDY, smallest_cell=1), ""),
        (Policy(most_epochs=10), KERNEL, "epochs must be at most 10 by this device's policy, got 11"),
        (Policy(most_epochs=10), STUDY, ""),
        (Policy(most_directions=19), KERNEL,
         "directions of X'X that the server can learn must be at most 19 by this device's policy, got 30"),
        (Policy(allow_gram=False), KERNEL, ""),
        (Policy(allow_gram=False), replace(KERNEL, epochs=101),
         "the server must not learn the whole total of X'X by this device's policy (allow-gram), got all of it"),
        (Policy(allow_gram=False), NOISY, ""),
        (Policy(most_honest=2), NOISY, "honest must be at most 2 by this device's policy, got 3"),
        (Policy(most_epsilon=2.01), NOISY, ""),
        (Policy(most_epsilon=1.5), NOISY,
         "epsilon must be at most 1.5 at delta = 1e-05 by this device's policy, got 2.000"),
    ],
)  # fmt: skip
def test_a_study_is_judged_by_itself(policy: Policy, study: Study, message: str):
    assert policy_objection(policy, study, ROSTER) == message


def test_what_a_study_shows_and_costs():
    assert shown_directions(KERNEL, ROSTER) == 30, "four devices, one of which may help the server: ten questions each"
    assert shown_directions(KERNEL) == 20
    assert shown_directions(STUDY, ROSTER) == STUDY.feature_count
    assert study_rho(STUDY) is None
    assert epsilon_of(study_rho(NOISY), 1e-5) == pytest.approx(2.0, abs=1e-6)
    assert spending_objection(Policy(most_total_epsilon=4.0), 2 * study_rho(NOISY)) == ""
    assert "got 2.9" in spending_objection(Policy(most_total_epsilon=2.5), 2 * study_rho(NOISY))


def test_a_nodes_own_configuration():
    policy = node_policy({"most-epsilon": 3, "most-total-epsilon": 8.0, "delta": 1e-6, "most-epochs": 0, "other": "x"})
    assert policy == Policy(most_epsilon=3.0, most_total_epsilon=8.0, delta=1e-6)
    assert node_policy({"colluders": 0, "allow-gram": False}) == Policy(colluders=0, allow_gram=False)
    for wrong in ({"most-epochs": "7"}, {"allow-gram": 1}, {"colluders": True}, {"delta": 2.0}, {"colluders": -1}):
        with pytest.raises(InvalidInput):
            node_policy(wrong)


def test_a_policy_file_has_no_unknown_keys(tmp_path: Path):
    policy = tmp_path / "policy.toml"
    policy.write_text("most-epochs = 7\nallow-gram = false\n")
    assert load_policy(policy) == Policy(most_epochs=7, allow_gram=False)
    policy.write_text("least-joiners = 7\n")
    with pytest.raises(InvalidInput) as raised:
        load_policy(policy)
    assert str(raised.value) == f"a key of the policy must be one of {', '.join(KEYS)}, got 'least-joiners'"

"""From flat configuration to features, labels, scheme and solver; and what is refused on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.engine.learning import Learning
from codedfl.engine.policy_config import KEYS, load_policy, node_policy
from codedfl.engine.run_config import RunConfig
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.privacy.calibration import rho_for
from codedfl.protocol import Policy
from codedfl.schemes import CodedKeys, CodedPadded, CodedScheme, OneShot, RoleKeys
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.shrunken import Shrunken
from codedfl.study.plan_file import MadeFor, PlanFile
from run_settings import CONFIG
from wording import exactly


def test_learning_makes_the_same_of_the_same_rows_everywhere():
    learning = Learning.from_config(CONFIG)
    X, Y = learning.rows(np.array([[0.0, 1.0, -1.0], [1.0, 0.5, 0.0]]), np.array(["no", "yes"]))
    assert np.array_equal(X, [[1, 0.5, 1, 0], [1, 1, 0.75, 0.5]])  # the constant, then [0, 1]
    assert np.array_equal(Y, [[1, 0], [0, 1]])
    model = learning.model(np.zeros((4, 2)))
    assert list(model.predict(np.zeros((1, 3)))) == ["no"]


def test_no_row_is_refused_by_ranges_that_a_run_may_choose(caplog: pytest.LogCaptureFixture):
    """Else bisecting them would read off the largest value of a column, or who has rows of a class."""
    rows = np.array([[0.0, 1.5, -1.0], [5.0, np.nan, 0.0]])
    X, Y = Learning.from_config(CONFIG).rows(rows, np.array(["perhaps", "no"]))
    assert np.array_equal(X, [[1, 0.5, 1, 0], [1, 1, 0.5, 0.5]])
    assert np.array_equal(Y, [[0, 0], [1, 0]])
    config = CONFIG | {"classes": "", "target-low": 0.0, "target-high": 1.0}
    _, Y = Learning.from_config(config).rows(rows, np.array([np.nan, -3.0]))
    assert np.array_equal(Y, [[0], [-1]])
    assert [record.getMessage() for record in caplog.records] == [
        "gaps, taken for the middle of their range: 1 values",
        "labels that are none of the classes: 1 of 2",
        "clipped to their public ranges: 1 of column 0 and 1 of column 1",
        "gaps, taken for the middle of their range: 1 values",
        "gaps, taken for the middle of their range: 1 targets",
        "clipped to their public ranges: 1 of column 0, 1 of column 1 and 1 target",
    ]


def test_the_server_key_is_the_same_for_all_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert RunConfig.from_config(CONFIG).server_key == Path("/state/codedfl/server.key")
    assert RunConfig.from_config(CONFIG | {"server-key-file": "/keys/mine"}).server_key == Path("/keys/mine")


def test_numbers_and_targets_are_read():
    assert Learning.from_config(CONFIG | {"classes": "3,1,2"}).recipe.labels.to_dict() == {
        "kind": "classes",
        "classes": [1, 2, 3],
    }
    regression = Learning.from_config(CONFIG | {"classes": "", "target-low": 0, "target-high": 10.0})
    assert regression.recipe.task == "regression"
    assert regression.recipe.labels.to_dict() == {"kind": "targets", "low": 0.0, "high": 10.0}
    kernel = Learning.from_config(CONFIG | {"features": "rbf", "n-features": 30})
    assert kernel.recipe.n_features == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": "3"}, "columns must be of type int in the configuration, got '3'"),
        ({"columns": None}, "columns must be of type int in the configuration, got None"),
        ({"features": "cubic"}, "features must be linear or rbf or scattering, got 'cubic'"),
        ({"alpha": 5}, "alpha must be between 1 and the number of devices (4), got 5"),
        (
            {"scheme": "fast"},
            "scheme must be one of coded-padded, coded-keys, one-shot, role-keys, role-sums, got 'fast'",
        ),
        ({"solver": "fast"}, "solver must be one of gd, nesterov, cg, block-krylov, closed-form, got 'fast'"),
        ({"step": "fast"}, "step must be empty (derived) or one of paper, literal, got 'fast'"),
        ({"step": "paper"}, "step must be empty with solver block-krylov, which needs none, got 'paper'"),
        ({"spare": 2}, "spare must be between 0 and alpha - 1 (1), got 2"),
        (
            {"scheme": "role-keys"},
            "alpha must be 0 with scheme role-keys, which has roles instead of a code, got 2",
        ),
        (
            {"scheme": "role-sums", "alpha": 0, "groups": 2},
            "groups must be 1 with scheme role-sums, which has roles instead of a code, got 2",
        ),
        ({"colluders": 1}, "colluders must be -1 with scheme coded-keys, which one colluder breaks, got 1"),
        (
            {"scheme": "role-keys", "alpha": 0, "colluders": 3},
            "the number of devices must be at least colluders + 2 (5), got 4",
        ),
        ({"min-devices": 1}, "min-devices must be between 2 and devices (4), got 1"),
    ],
)
def test_a_bad_configuration_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        RunConfig.from_config(CONFIG | change)


BY_DEFAULT = {key: value for key, value in CONFIG.items() if key not in ("scheme", "alpha")}


@pytest.mark.parametrize(
    ("change", "scheme", "protection"),
    [
        ({}, RoleKeys(1), "no device is exposed by one colluder"),
        ({"devices": 3}, RoleKeys(0), "one colluder exposes 2 devices to the server"),
        ({"colluders": 2}, RoleKeys(2), "no device is exposed by 2 colluders"),
        ({"min-devices": 3}, RoleKeys(1), "no device is exposed by one colluder"),
        ({"devices": 100}, RoleKeys(1, 24), "no device is exposed by one colluder"),
        ({"scheme": "coded-keys", "devices": 5}, CodedKeys(3), "one colluder exposes 2 devices to the server"),
    ],
)
def test_the_default_withstands_one_colluder(change: dict[str, Any], scheme: CodedScheme, protection: str):
    config = RunConfig.from_config(BY_DEFAULT | change | {"roster": "roster.toml"})
    assert (config.scheme, config.protection) == (scheme, protection)


def test_without_a_roster_nothing_is_claimed():
    assert RunConfig.from_config(BY_DEFAULT).protection == (
        "nothing is claimed about colluders, no roster is pinned: devices without one refuse to withstand any unless"
        " their operator sets allow-unpinned"
    )


def test_the_scheme_decides_the_solver():
    assert isinstance(RunConfig.from_config(CONFIG).make_solver(), BlockKrylov)
    assert isinstance(RunConfig.from_config(CONFIG | {"solver": "gd"}).make_solver(), GradientDescent)
    assert isinstance(RunConfig.from_config(CONFIG | {"scheme": "one-shot"}).make_solver(), ClosedForm)


def test_a_plan_file_replaces_scheme_and_solver(tmp_path: Path):
    path = tmp_path / "plan.toml"
    PlanFile(CodedPadded(3), "nesterov", 7).save(path)
    config = RunConfig.from_config(CONFIG | {"plan": str(path)})
    assert (config.scheme, config.solver, config.epochs) == (CodedPadded(3), "nesterov", 7)


def test_a_one_shot_plan_runs_as_it_does_in_train(tmp_path: Path):
    path = tmp_path / "plan.toml"
    PlanFile(OneShot(3), "closed-form", 1).save(path)
    config = RunConfig.from_config(CONFIG | {"plan": str(path)})
    assert config.scheme == OneShot(3)
    assert isinstance(config.make_solver(), ClosedForm)


@pytest.mark.parametrize(("planned", "configured"), [(2, 0), (0, 2)])
def test_a_plan_keeps_the_spare_answers(tmp_path: Path, planned: int, configured: int):
    path = tmp_path / "plan.toml"
    PlanFile(CodedKeys(3, 1, planned), "cg", 7).save(path)
    assert RunConfig.from_config(CONFIG | {"plan": str(path), "spare": configured}).scheme == CodedKeys(3, 1, 2)


def test_a_plan_for_a_larger_federation_is_refused(tmp_path: Path):
    path = tmp_path / "plan.toml"
    PlanFile(CodedKeys(3), "cg", 7, 0.9, MadeFor("d", 100, 3, 2, "f", "0", 9)).save(path)
    with pytest.raises(InvalidInput, match=r"^the plan was made for 9 devices, "):
        RunConfig.from_config(CONFIG | {"plan": str(path)})


def test_noise_is_a_matter_of_the_run():
    config = {**CONFIG, "scheme": "role-sums", "alpha": 0, "devices": 6, "epsilon": 2, "honest": 4}
    run = RunConfig.from_config(config)
    assert run.budget == Budget(2.0, 4) and RunConfig.from_config(CONFIG).noise == (None, None)
    noise, _ = run.noise
    parameters = run.learning.parameters(run.scheme, run.precision, noise)
    assert parameters.rho == pytest.approx(rho_for(2.0, 1e-5))
    assert noise is not None and noise.clip_norm == pytest.approx(2**0.5)  # four features of at most 1
    assert isinstance(run.make_solver(), Shrunken)
    products = RunConfig.from_config({**config, "scheme": "role-keys"}).make_solver()
    assert isinstance(products, BlockKrylov) and products.regularisation > 0.01
    message = "honest must be said with epsilon: how many devices add their noise for sure, got none"
    with pytest.raises(InvalidInput, match=exactly(message)):
        RunConfig.from_config({**CONFIG, "epsilon": 2.0})


def test_a_nodes_policy_may_demand_noise():
    policy = node_policy({"most-epsilon": 3, "most-total-epsilon": 8.0, "delta": 1e-6})
    assert (policy.most_epsilon, policy.most_total_epsilon, policy.delta) == (3.0, 8.0, 1e-6)
    assert node_policy({}).most_epsilon is None


def test_a_policy_file_has_no_unknown_keys(tmp_path: Path):
    policy = tmp_path / "policy.toml"
    policy.write_text("least-joiners = 7\nallow-gram = true\n")
    assert load_policy(policy) == Policy(least_joiners=7, allow_gram=True)
    policy.write_text("least_joiners = 7\n")
    message = f"a key of the policy must be one of {', '.join(KEYS)}, got 'least_joiners'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        load_policy(policy)

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runner import SMALL, Run
from table_files import write_csv, write_npz, write_parquet

from codedfl.data.model import TrainedModel
from codedfl.errors import RangeExceeded
from codedfl_lab.cli import inputs as inputs_module
from codedfl_lab.cli import training as training_module
from codedfl_lab.comparing.simulator import simulate

KEYS = {
    *("command", "dataset", "partition", "seed", "devices", "columns", "label", "scheme", "alpha", "solver", "step"),
    *("regularisation", "codedfl", "epochs", "score", "task", "train_rows", "test_rows", "n_features", "n_outputs"),
    *(
        "groups",
        "protection",
        "spare",
        "score_name",
        "kept_epoch",
        "scored_on",
        "last_score",
        "target",
        "fleet",
        "virtual_seconds",
        "clipped",
        "interrupted",
    ),
    *("model", "trace", "page"),
}


def read_trace(path: str | Path) -> list[tuple[int, float, float]]:
    with open(path, newline="") as stream:
        return [(int(row["epoch"]), float(row["seconds"]), float(row["score"])) for row in csv.DictReader(stream)]


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        (("--scheme", "role-keys"), "role-keys, z = 1: an epoch ends with 2 of 5 answers, the first of each role"),
        (
            ("--scheme", "coded-keys", "--devices", 6, "--set", "groups=2", "--alpha", 2),
            "coded-keys, α = 2, 2 groups: an epoch ends with 4 of 6 answers, the first 2 of each group",
        ),
    ],
)
def test_whose_answers_an_epoch_waits_for(run: Run, options: tuple[object, ...], ends: str):
    said = run("lab", "train", "digits", "--n-features", 20, "--devices", 5, "--epochs", 2, *options).stdout
    assert ends in " ".join(said.split())


def test_the_outcome_in_words(run: Run):
    result = run("lab", "train", "digits", *SMALL)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "digits: 1438 rows to train on, 359 to test on, 10 classes" in said
    assert "5 of the fleet 'paper', rows sorted by label and cut" in said
    assert "coded-keys, α = 3: an epoch ends with the first 3 of 5 answers" in said
    assert "privacy one colluder exposes 2 devices to the server" in said
    assert "block Krylov, at most 6 epochs" in said
    assert re.search(r"accuracy [\d.]+ % on 179 test rows after (6 epochs|epoch \d, kept because)", said)
    assert "clipped 0 training values" in said
    assert "model results/train-digits/model.safetensors" in said
    assert result.stderr == "", "quiet where stderr is no terminal"


def test_model_trace_and_json_agree(run: Run):
    result = run("lab", "train", "digits", *SMALL, "--out", "here", "--json", "-")
    outcome = json.loads(result.stdout)
    assert set(outcome) == KEYS
    assert outcome["command"] == "lab train" and outcome["alpha"] == 3 and outcome["regularisation"] == 9e-6
    assert (outcome["epochs"], outcome["interrupted"], outcome["step"]) == (6, False, None)
    trace = read_trace(outcome["trace"])
    assert [epoch for epoch, _, _ in trace] == [1, 2, 3, 4, 5, 6]
    assert trace[-1][:2] == (6, outcome["virtual_seconds"])
    assert outcome["kept_epoch"] in range(1, 7) and outcome["scored_on"] == 179
    assert outcome["last_score"] == pytest.approx(trace[-1][2], abs=0.03) and outcome["score"] > 0.8
    assert all(later > earlier for (_, earlier, _), (_, later, _) in itertools.pairwise(trace))
    model = TrainedModel.load(outcome["model"])
    assert model.theta.shape == (60, 10)
    assert model.provenance["score"] == outcome["score"] and model.provenance["scheme"] == "coded-keys"
    assert "on 179 test rows" in result.stderr, "with --json - people read stderr"


def test_the_same_seed_gives_the_same_model_bit_for_bit(run: Run, digits_model: Path):
    run("lab", "train", "digits", *SMALL, "--out", "again")
    run("lab", "train", "digits", *SMALL, "--out", "other", "--seed", "1")
    first, again, other = (
        TrainedModel.load(path).theta
        for path in (digits_model, Path("again/model.safetensors"), Path("other/model.safetensors"))
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_paper_s_scheme_makes_the_same_model(run: Run, digits_model: Path):
    run("lab", "train", "digits", *SMALL, "--scheme", "coded-padded", "--alpha", "5", "--out", "padded")
    assert np.array_equal(TrainedModel.load(digits_model).theta, TrainedModel.load("padded/model.safetensors").theta)


def test_training_stops_at_the_target(run: Run):
    result = run("lab", "train", "digits", *SMALL, "--reach", "0.8", "--json", "-")
    trace = read_trace(json.loads(result.stdout)["trace"])
    assert trace[-1][2] >= 0.8 > trace[-2][2]


def noisy_table(path: Path, rows: int = 4000, columns: int = 40) -> Path:
    """Of every tenth row the label is wrong: with lambda = 9e-6 the last models learn that by heart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    label = X @ rng.normal(size=columns) > 0
    np.savez(path, X=X, y=np.where(rng.random(rows) < 0.1, ~label, label).astype(np.int64))
    return path


def test_the_epoch_that_held_out_rows_prefer_is_kept(run: Run):
    path = noisy_table(Path("noisy.npz"))
    result = run("lab", "train", path, "--label", "y", "--devices", 5, "--json", "-")
    outcome = json.loads(result.stdout)
    assert outcome["kept_epoch"] < outcome["epochs"] and outcome["scored_on"] == 400
    assert outcome["score"] > outcome["last_score"] + 0.02, "rows that had no say confirm the choice"
    said = " ".join(result.stderr.split())
    kept, last = outcome["kept_epoch"], outcome["epochs"]
    assert (
        f"after epoch {kept}, kept because the other test rows prefer it; " in said
        and f"after the last, {last}" in said
    )
    shorter = run(
        "lab", "train", path, "--label", "y", "--devices", 5, "--epochs", kept, "--json", "-", "--out", "short"
    )
    models = [TrainedModel.load(json.loads(each.stdout)["model"]).theta for each in (result, shorter)]
    assert np.array_equal(models[0], models[1]), "the model of that epoch, bit for bit"


def test_with_a_target_the_first_model_that_reaches_it_is_kept(run: Run):
    outcome = json.loads(run("lab", "train", "digits", *SMALL, "--reach", "0.8", "--json", "-").stdout)
    assert (outcome["kept_epoch"], outcome["scored_on"]) == (outcome["epochs"], 359)
    assert outcome["score"] == outcome["last_score"] == read_trace(outcome["trace"])[-1][2]


def test_a_target_out_of_reach_is_said(run: Run):
    result = run("lab", "train", "digits", *SMALL, "--reach", "1", "--epochs", "2")
    assert result.exit_code == 0
    assert "the target 100.0\u202f% was not reached" in result.stdout


@pytest.mark.parametrize("solver", ["gd", "nesterov"])
def test_descent_derives_its_step_unless_told(run: Run, solver: str):
    result = run("lab", "train", "digits", *SMALL, "--solver", solver, "--json", "-")
    assert json.loads(result.stdout)["step"] == "derived"
    result = run("lab", "train", "digits", *SMALL, "--solver", solver, "--set", "step=paper", "--json", "-")
    assert json.loads(result.stdout)["step"] == "paper"


@pytest.mark.parametrize("step", [(), ("--set", "step=paper")])
def test_nesterov_does_not_run_away(run: Run, step: tuple[str, ...]):
    """With the whole of descent's step it diverged at epoch 34."""
    command = ("lab", "train", "digits", "--devices", 5, "--n-features", 60, "--solver", "nesterov", "--epochs", 60)
    result = run(*command, *step, "--json", "-")
    assert result.exit_code == 0, result.stderr
    scores = [score for _, _, score in read_trace(json.loads(result.stdout)["trace"])]
    assert len(scores) == 60 and scores[-1] > 0.85


def test_a_dirichlet_partition_needs_nothing_else(run: Run):
    result = run("lab", "train", "digits", *SMALL, "--partition", "dirichlet", "--json", "-")
    assert json.loads(result.stdout)["partition"] == "dirichlet"


def write_ages(path: Path) -> None:
    """53 ages, each of them in several rows: as whole numbers they could be names of classes."""
    rng = np.random.default_rng(3)
    ages = np.tile(np.arange(18, 71), 5)
    lines = [f"{age / 10 + rng.normal():.4f},{rng.normal():.4f},{age}" for age in ages]
    path.write_text("a,b,label\n" + "\n".join(lines) + "\n")


def test_whole_numbers_with_many_values_are_a_quantity_and_that_is_said(run: Run):
    write_ages(Path("ages.csv"))
    common = ("lab", "train", "ages.csv", "--devices", 4, "--n-features", 30, "--epochs", 3, "--json", "out.json")
    result = run(*common)
    assert json.loads(Path("out.json").read_text())["task"] == "regression"
    assert result.stderr == (
        "note: the labels are whole numbers, 53 of them, taken for a quantity; --task classification changes it\n"
    )
    assert run(*common, "--task", "classification").stderr == ""
    assert json.loads(Path("out.json").read_text())["n_outputs"] == 53


def test_few_whole_numbers_are_classes_and_that_is_said(run: Run):
    Path("few.csv").write_text("a,label\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(90)))
    result = run("lab", "train", "few.csv", "--devices", 4, "--n-features", 30, "--epochs", 3)
    assert (
        result.stderr
        == "note: the labels are whole numbers, 3 of them, taken for classes; --task regression changes it\n"
    )


def test_text_labels_and_a_device_column(run: Run):
    path = write_csv(Path("garden.csv"))
    arguments = (
        "lab",
        "train",
        path,
        "--label",
        "species",
        "--device-column",
        "shop",
        "--n-features",
        "40",
        "--epochs",
        "8",
    )
    outcome = json.loads(run(*arguments, "--json", "-").stdout)
    assert (outcome["partition"], outcome["devices"], outcome["z"]) == ("device", 4, 1)
    assert outcome["columns"] == ["width", "height", "age"] and outcome["label"] == "species"
    assert outcome["train_rows"] + outcome["test_rows"] == 120
    assert outcome["score"] > 0.8 and outcome["score_name"] == "accuracy"
    assert outcome["model"] == "results/train-garden.csv/model.safetensors"


def test_parquet(run: Run):
    path = write_parquet(Path("garden.parquet"))
    outcome = json.loads(run("lab", "train", path, "--n-features", "40", "--devices", "3", "--json", "-").stdout)
    assert outcome["score"] > 0.9 and outcome["n_outputs"] == 2


def test_regression_has_its_own_lambda(run: Run):
    path = write_npz(Path("garden.npz"))
    result = run("lab", "train", path, "--features", "linear", "--devices", "3", "--json", "-")
    outcome = json.loads(result.stdout)
    assert (outcome["task"], outcome["score_name"], outcome["regularisation"]) == ("regression", "R^2", 1e-3)
    assert outcome["score"] > 0.99 and outcome["n_features"] == 4 and outcome["n_outputs"] == 1
    assert "4 features: the columns and an intercept" in result.stderr


def test_one_row_to_test_on_is_no_score(run: Run):
    Path("four.csv").write_text("a,b,y\n1,2,3\n2,1,4\n3,4,8\n4,3,9\n")
    result = run("lab", "train", "four.csv", "--label", "y", "--features", "linear", "--devices", "2", "--json", "-")
    outcome = json.loads(result.stdout)
    assert (outcome["score"], outcome["last_score"], outcome["test_rows"]) == (None, None, 1)
    assert "R^2         not known: the rows to test on all have the same target" in result.stderr


def test_few_rows_get_few_features_and_many_the_paper_s(run: Run, monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []

    def stop(*_: Any, n_features: int, **__: Any) -> None:
        asked.append(n_features)
        raise RangeExceeded("enough")

    monkeypatch.setattr(inputs_module, "make_problem", stop)
    run("lab", "train", "digits")
    monkeypatch.setattr("codedfl_lab.cli.inputs.FEW_ROWS", 1000)
    run("lab", "train", "digits")
    assert asked == [500, 2000]


def test_a_fleet_of_the_user_s_brings_its_devices(run: Run):
    links = "setup_factor = 0\nuplink_rate = 1e6\ndownlink_rate = 1e6\nfailure_probability = 0\nheader_overhead = 0\n"
    Path("own.toml").write_text(f"[server]\nmac_rate = 1e9\n[[device]]\ncount = 4\nmac_rate = 1e6\n{links}")
    arguments = ("lab", "train", "digits", "--fleet", "own.toml", "--n-features", "30", "--epochs", "2", "--json", "-")
    outcome = json.loads(run(*arguments).stdout)
    assert (outcome["fleet"], outcome["devices"], outcome["z"]) == ("own", 4, 1)
    assert json.loads(run(*arguments, "--devices", "3").stdout)["devices"] == 3


def interrupt_at(epoch: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hook of that epoch end with an error, after it has done its work."""

    def interrupted(*arguments: Any, on_epoch: Any, **options: Any) -> Any:
        def hook(now: int, seconds: float, score: float) -> None:
            on_epoch(now, seconds, score)
            if now == epoch:
                raise error

        return simulate(*arguments, on_epoch=hook, **options)

    monkeypatch.setattr(training_module, "simulate", interrupted)


def test_ctrl_c_keeps_the_model_so_far(run: Run, monkeypatch: pytest.MonkeyPatch):
    run("lab", "train", "digits", *SMALL, "--epochs", "3", "--out", "short")
    interrupt_at(3, KeyboardInterrupt(), monkeypatch)
    result = run("lab", "train", "digits", *SMALL, "--out", "cut", "--json", "cut.json")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: kept cut/model.safetensors, the model after epoch 3\n"
    short, cut = (TrainedModel.load(f"{folder}/model.safetensors") for folder in ("short", "cut"))
    assert np.array_equal(short.theta, cut.theta)
    assert short.provenance == cut.provenance
    assert Path("short/trace.csv").read_text() == Path("cut/trace.csv").read_text()
    assert json.loads(Path("cut.json").read_text())["interrupted"] is True


def test_ctrl_c_before_the_first_epoch(run: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training_module, "simulate", interrupted)
    result = run("lab", "train", "digits", *SMALL, "--out", "cut")
    assert result.exit_code == 130
    assert result.stderr == "interrupted: no epoch was finished, so there is no model to keep\n"
    assert [path.name for path in Path("cut").iterdir()] == ["events.jsonl"], "what happened is in the journal"


def test_ctrl_c_while_the_data_are_prepared(run: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inputs_module, "make_problem", interrupted)
    result = run("lab", "train", "digits", *SMALL)
    assert (result.exit_code, result.stderr) == (130, "interrupted: nothing was kept\n")


def test_an_error_keeps_the_model_so_far(run: Run, monkeypatch: pytest.MonkeyPatch):
    interrupt_at(2, RangeExceeded("a number must fit, got a larger one"), monkeypatch)
    result = run("lab", "train", "digits", *SMALL, "--out", "cut")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: a number must fit, got a larger one; kept cut/model.safetensors, the model after epoch 2\n"
    )
    assert TrainedModel.load("cut/model.safetensors").provenance["epochs"] == 2


def test_a_step_too_large_is_called_so(run: Run):
    path = write_npz(Path("garden.npz"))
    result = run(
        "lab", "train", path, "--features", "linear", "--devices", "3", "--solver", "gd", "--set", "step=paper"
    )
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the step is too large for these features (the update must have")
    assert "): leave out step, which then suits them; kept results/train-garden.npz/model.safetensors" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("solver", ["gd", "nesterov"])
def test_descent_on_an_own_table(run: Run, solver: str):
    path = write_npz(Path("garden.npz"))
    result = run("lab", "train", path, "--features", "linear", "--devices", "3", "--solver", solver, "--json", "-")
    assert json.loads(result.stdout)["score"] > 0.99


def test_one_shot_needs_one_epoch(run: Run):
    result = run("lab", "train", "digits", "--devices", 5, "--n-features", 40, "--scheme", "one-shot", "--json", "-")
    outcome = json.loads(result.stdout)
    assert (outcome["solver"], outcome["epochs"]) == ("closed-form", 1)
    assert outcome["score"] > 0.7


def test_more_precision_than_three_primes_give_is_refused(run: Run):
    result = run("lab", "train", "digits", *SMALL, "--set", "precision=90")
    assert result.exit_code == 2
    assert "fraction bits for these bounds, got 90; no epoch was finished" in result.stderr


def test_the_default_withstands_a_colluder_and_says_so(run: Run):
    small = [option for option in SMALL if option not in ("--scheme", "coded-keys", "--alpha", "3")]
    result = run("lab", "train", "digits", *small, "--json", "-")
    outcome = json.loads(result.stdout)
    assert (outcome["scheme"], outcome["z"]) == ("role-keys", 1)
    assert outcome["protection"] == "no device is exposed by one colluder"
    assert TrainedModel.load(Path(outcome["model"])).provenance["protection"] == outcome["protection"]

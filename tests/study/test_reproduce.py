"""The paper's experiment end to end, small: every file, every scheme, every claim judged one way or the other."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.comparing.paper import EXPERIMENTS, Experiment
from codedfl_lab.comparing.results import Results, SchemeResult
from codedfl_lab.report.files import write_report
from codedfl_lab.reproduce.reproduce import reproduce
from codedfl_lab.reproduce.scope import ClaimScope

KEYS = {
    "dataset", "scheme", "solver", "sharing", "step", "target_accuracy", "epochs_to_target", "time_to_target_s",
    "speedup_over_conventional", "sharing_s", "epoch_s_mean", "final_accuracy",
}  # fmt: skip


def check_folder(folder: Path, targets: int) -> dict:
    names = {path.name for path in folder.iterdir()}
    figures = {"accuracy.png", "accuracy.svg", "accuracy.pdf"}
    assert names == {"results.json", "traces.csv", "summary.csv", "report.html", *figures}
    results = json.loads((folder / "results.json").read_text())
    assert all(set(row) >= KEYS for row in results["schemes"])
    assert {row["sharing"] for row in results["schemes"]} == {"authors", "per-message", "multicast"}
    assert {row["step"] for row in results["schemes"]} == {"paper", "literal"}
    schemes = {row["scheme"] for row in results["schemes"]}
    assert schemes == {
        *("conventional", "conventional-full-batch", "drop-slowest", "coded-fedl", "coded-padded", "coded-keys")
    }
    assert {row.get("alpha") for row in results["schemes"] if row["scheme"] == "coded-padded"} == {6, 16, 23, 25}
    assert len({row["target_accuracy"] for row in results["schemes"]}) == targets
    assert all(claim["evidence"] for claim in results["claims"])
    with (folder / "traces.csv").open() as file:
        assert {row["scheme"] for row in csv.DictReader(file)} == schemes
    return results


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Results:
    """The whole pipeline on the embedded digits, at the paper's 25 devices."""
    out = tmp_path_factory.mktemp("reproduced")
    digits = Experiment("digits", "Digits, small", (0.7, 0.93), 23, 6.6, max_epochs=150, gamma=0.245)
    said: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "mnist", digits)
        scope = ClaimScope(seeds=[0, 1], draws=20, n_features=200)
        results = reproduce("mnist", scope, progress=lambda what, part: said.append(part))
    write_report(out / "mnist", results)
    check_folder(out / "mnist", 2)
    assert json.loads((out / "mnist" / "results.json").read_text()) == json.loads(results.json_bytes())
    assert said == sorted(said), "progress never goes back"
    return results


def best(results: Results, target: float, scheme: str, solver: str = "gd", **wanted) -> SchemeResult:
    rows = [
        row
        for row in results.schemes
        if (row.scheme, row.solver, row.target_accuracy, row.sharing, row.step)
        == (scheme, solver, target, "authors", "paper")
        and all(row.parameters.get(key) == value for key, value in wanted.items())
    ]
    return min(rows, key=lambda row: row.time_to_target_s.median or float("inf"))


def test_claim_conventional_wins_at_low_targets(small):
    conventional = best(small, 0.7, "conventional").time_to_target_s.median
    assert conventional < best(small, 0.7, "coded-padded").time_to_target_s.median


def test_claim_alpha_6_is_never_the_fastest(small):
    for target in (0.7, 0.93):
        six = best(small, target, "coded-padded", alpha=6).time_to_target_s.median
        others = [best(small, target, name).time_to_target_s.median for name in ("conventional", "coded-padded")]
        assert min(others) < six


def test_claim_dropping_the_slowest_loses_accuracy_on_sorted_data(small):
    dropping = best(small, 0.93, "drop-slowest").final_accuracy.median
    assert dropping < best(small, 0.93, "conventional").final_accuracy.median - 0.03


def test_claim_the_best_alpha_depends_on_the_length_of_the_training(small):
    """Sharing grows with alpha, epochs get shorter: alpha = 6 is ready first, alpha = 25 last."""
    shares = [best(small, 0.93, "coded-padded", alpha=alpha).sharing_s for alpha in (6, 16, 23, 25)]
    epochs = [best(small, 0.93, "coded-padded", alpha=alpha).epoch_s_mean for alpha in (6, 16, 23, 25)]
    assert shares == sorted(shares)
    assert epochs == sorted(epochs, reverse=True)


def test_the_literal_step_is_followed_to_the_end(small):
    """Half the step takes about twice the epochs, also for conventional FL."""
    rows = [row for row in small.schemes if (row.step, row.scheme) == ("literal", "conventional")]
    assert all(row.seeds_reached == row.seeds for row in rows)


def test_every_convention_has_its_verdict(small):
    """Two seeds: every claim is listed under each of six conventions, and none is judged."""
    timed = [claim for claim in small.claims if claim.sharing is not None]
    conventions = {(claim.sharing, claim.charged) for claim in timed}
    assert len(conventions) == 6
    assert len(timed) % 6 == 0
    assert {claim.verdict for claim in small.claims} == {"not judged"}


def test_unknown_experiments_are_refused(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        reproduce("cifar", ClaimScope())
    assert str(caught.value) == "experiment must be one of mnist, fashion-mnist, got 'cifar'"


@pytest.mark.mnist
@pytest.mark.xdist_group("mnist")
def test_small_mnist(tmp_path, monkeypatch):
    """500 features and every sixth image: the speed-up is in the paper's region already."""
    small = Experiment("mnist", "MNIST, small", (0.80, 0.90), 23, 6.6, max_epochs=300)
    monkeypatch.setitem(EXPERIMENTS, "mnist", small)
    results = reproduce("mnist", ClaimScope(seeds=[0], draws=20, n_features=500, rows=10_000))
    write_report(tmp_path / "mnist", results)
    check_folder(tmp_path / "mnist", 2)
    assert best(results, 0.9, "coded-keys", solver="cg").speedup_over_conventional.median > 3

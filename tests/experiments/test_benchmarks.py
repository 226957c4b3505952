"""Benchmarks of others: their measures by definition, their files by hash, and the page that they make."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from experiments.benchmarks import __main__ as benchmarks
from experiments.benchmarks import data
from experiments.benchmarks.bias import combined, draw, exact, together
from experiments.benchmarks.curves import shares
from experiments.benchmarks.measures import concordance

from codedfl.errors import DataUnavailable

ROOT = Path(__file__).parents[2]


def test_concordance_is_that_of_all_pairs():
    rng = np.random.default_rng(0)
    time, event = rng.integers(1, 20, 60).astype(np.float64), (rng.random(60) < 0.6).astype(np.float64)
    risk = np.round(-time / 10 + rng.normal(size=60), 1)
    won, pairs = 0.0, 0
    for one, other in combinations(range(60), 2):
        first, second = sorted((one, other), key=lambda row: (time[row], -event[row]))
        known = event[first] == 1 and (time[first] < time[second] or event[second] == 0)
        pairs += known
        won += known * ((risk[first] > risk[second]) + 0.5 * (risk[first] == risk[second]))
    assert concordance(time, event, risk) == pytest.approx(won / pairs, abs=1e-12)


def test_ours_are_the_coefficients_of_pooled_rows_and_combined_sites_are_not():
    sites = draw(1)
    truth, information = together(sites)
    X, y = (np.concatenate(parts) for parts in zip(*sites.values(), strict=True))
    assert np.allclose(truth, sm.Logit(y, X).fit(disp=0, tol=1e-12).params, atol=1e-9)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.abs((exact(sites) - truth) / errors).max() < 1e-6
    assert np.abs((combined(sites) - truth) / errors).max() > 0.05


def test_shares_are_those_of_kaplan_and_meier():
    rng = np.random.default_rng(0)
    grid = np.arange(10.0, 101.0, 10.0)
    time, died = rng.integers(1, 100, 200) * 1.0, (rng.random(200) < 0.5) * 1.0
    joined = grid[np.searchsorted(grid, time)]
    truth = sm.SurvfuncRight(joined, died)
    found = shares(time, died, grid)[np.searchsorted(grid, truth.surv_times)]
    assert np.allclose(found, truth.surv_prob, atol=1e-12)


def test_files_with_another_content_are_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CODEDFL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("codedfl_lab.datasets.fetch._from_mirror", lambda *_: "no network")
    (tmp_path / "fed-heart").mkdir()
    (tmp_path / "fed-heart" / "processed.va.data").write_text("63,1,4\n")
    with pytest.raises(DataUnavailable) as failed:
        data.heart(tmp_path)
    assert "processed.va.data must hold 6737 bytes of content, got 7" in str(failed.value)
    assert "4 of 4 files missing" in str(failed.value) and "archive.ics.uci.edu" in str(failed.value)


def test_the_page_has_the_parts_that_the_command_makes():
    page, source = (ROOT / "docs/benchmarks.md").read_text(), Path(benchmarks.__file__).read_text()
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert [one.replace("500", "{SITES}") for one in headings] == re.findall(r'yield f?"## (.+)"', source)
    assert page.startswith("# Benchmarks of others") and page.count("| codedfl") == 5

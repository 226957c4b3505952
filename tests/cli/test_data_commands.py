from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_runner import Run

from codedfl_lab import datasets
from codedfl_lab.datasets import fetch


def without_network(*_: Any) -> None:
    raise OSError("no network here")


def test_the_list_says_what_is_here(run: Run):
    result = run("lab", "data", "list")
    said = " ".join(result.stdout.split())
    assert "digits 1 797 handwritten digits" in said
    assert "where: comes with codedfl" in said
    assert "where: not on this machine yet: codedfl lab data fetch mnist" in said
    assert "licence: MIT (Zalando)" in said


def test_the_list_for_machines(run: Run):
    found = json.loads(run("lab", "data", "list", "--json", "-").stdout)["datasets"]
    assert [(one["name"], one["available"]) for one in found] == [
        ("digits", True),
        ("digits-shifted", True),
        ("mnist", False),
        ("fashion-mnist", False),
        ("cifar-10", False),
    ]
    assert set(found[0]) == {"name", "description", "licence", "available", "where"}


def test_digits_need_no_fetching(run: Run):
    result = run("lab", "data", "fetch", "digits")
    assert (result.exit_code, result.stdout) == (0, "digits comes with codedfl: there is nothing to fetch\n")


def test_fetched_files_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []

    def fetched(name: str, data_dir: Any, progress: Any) -> dict[str, Path]:
        asked.append((name, data_dir))
        progress("images.gz", 10, 100)
        progress("images.gz", 100, 100)
        return {"images": Path("cache/images.gz")}

    monkeypatch.setattr(datasets, "fetch_dataset", fetched)
    result = run("lab", "data", "fetch", "mnist", "--data-dir", "mine")
    assert asked == [("mnist", Path("mine"))]
    assert result.stdout == "mnist is here, hashes checked:\n  cache/images.gz\n"


@pytest.mark.parametrize(
    "command",
    [
        ("data", "fetch", "mnist", "--data-dir", "mine"),
        ("train", "mnist", "--set", "data_dir=mine"),
        ("reproduce", "mnist", "--data-dir", "mine"),
    ],
)
def test_what_to_do_when_nothing_works(run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]):
    monkeypatch.setattr(fetch, "_one_from_mirror", without_network)
    result = run("lab", *command)
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    assert lines[0] == "error: data set mnist is not available here: 4 of 4 files missing"
    assert lines[1] == "  1. the folder mine: no such folder"
    assert "no network here" in result.stderr
    assert lines[-1].startswith("  What helps: get train-images-idx3-ubyte.gz")
    assert "--data-dir or CODEDFL_DATA" in lines[-1]
    assert result.stdout == ""

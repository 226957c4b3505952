"""Bad input is exit code 2 and one line that names what is wrong; a bug keeps its traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_runner import Run
from table_files import write_csv

from codedfl_lab.cli import inputs as inputs_module

CASES = {
    "lab train": "codedfl lab train must have DATA, got none, as in: codedfl lab train digits --scheme coded-padded"
    " --reach 0.95",
    "lab plan study.toml": "DATA must be a data set or a table, got 'study.toml': a study has its scheme in it, and is"
    " timed on a fleet by codedfl study rehearse study.toml --tables FOLDER --fleet NAME",
    "lab train digits --solver magic": "solver must be one of gd, nesterov, cg, block-krylov, closed-form, got 'magic'",
    "lab train digits --solver closed-form": "solver must do without X'X itself, which this scheme does not reveal, got"
    " closed-form",
    "lab train nonsense": "data set must be one of digits, digits-shifted, mnist, fashion-mnist, cifar-10 or a file,"
    " got 'nonsense'",
    "lab train none.csv": "data file must exist, got 'none.csv'",
    "lab train digits --label x": "label must be left out for the data set 'digits', got 'x'",
    "lab train digits --alpha 3": (
        "--alpha must be left out with scheme role-keys, which has roles instead of a code, got 3"
    ),
    "lab train digits --scheme coded-keys --alpha 26": "alpha must be between 1 and the number of devices (25), got 26",
    "lab train digits --devices 1": "--devices must be between 2 and the number of training rows (1438), got 1",
    "lab train digits --devices 1439": "--devices must be between 2 and the number of training rows (1438), got 1439",
    "lab train digits --reach 95": "--reach must be at most 1, the best score there is, got 95.0",
    "lab train digits --epochs 0": "epochs must be at least 1, got 0",
    "lab train digits --n-features 0": "Invalid value for '--n-features': 0 is not in the range x>=1.",
    "lab train digits --set regularisation=-1": "regularisation must be at least 0, got -1.0",
    "lab train digits --fleet none": "fleet must be a readable TOML file or a shipped fleet (coming-and-going,"
    " congested, drifting, fast-processors, heavy-tailed, paper), got 'none'",
    "lab train digits --partition device": "--device-column must name a column for --partition device, got none",
    "lab train digits --partition dirichlet --set concentration=0": "concentration must be a positive number, got 0.0",
    "lab train digits --set concentration=1": "concentration must be left out with any partition but dirichlet,"
    " got 1.0",
    "lab train digits --set step=paper": "step must be left out with solver block-krylov, which needs none, got paper",
    "lab train digits --features linear --set gamma=1": (
        "gamma must be left out with --features linear, which has no kernel, got 1.0"
    ),
    "lab train digits --features linear --n-features 9": (
        "--n-features must be left out with --features linear, which takes the columns, got 9"
    ),
    "lab train garden.csv --label species --set drop=shape": (
        "a column to drop must be a column of garden.csv ('width', 'height', 'age', 'shop'), got 'shape'"
    ),
    "lab train garden.csv --label species --device-column shop --devices 3": (
        "--devices must be left out where a device column says who holds what, got 3"
    ),
    "lab train lonely.csv --device-column shop": "the device column must name at least two devices, got 1",
    "lab train digits --out garden.csv": "--out must be a folder that can be made, got 'garden.csv' (File exists)",
    "lab train digits --json .": "--json must be a file that can be written, got '.'",
    "lab train digits --json garden.csv/x": "--json must be in a folder that can be made, got 'garden.csv/x'"
    " (File exists)",
    "study predict none.safetensors digits": "the model file must exist, got 'none.safetensors'",
    "study evaluate garden.csv digits": (
        "the model file must be a codedfl model, got 'garden.csv' (Error while deserializing header: header too large)"
    ),
    "lab compare garden.csv --label species --device-column shop": (
        "--reach must be given for 'garden', such as 0.8,0.9; got none"
    ),
    "lab compare --reach high": "--reach must be numbers with commas between, got 'high'",
    "lab compare --reach 0.9,0.8": "--reach must ascend and lie above 0 and up to 1, got '0.9,0.8'",
    "lab compare --reach 95": "--reach must ascend and lie above 0 and up to 1, got '95'",
    "lab compare --devices 1": "--devices must be between 2 and the number of training rows (1438), got 1",
    "lab train digits --scheme one-shot --solver gd": "--solver must be left out with --scheme one-shot, which needs"
    " none, got gd",
    "lab reproduce cifar": "Invalid value for 'NAME': 'cifar' is not one of 'mnist', 'fashion-mnist', 'all',"
    " 'arithmetic', 'beyond', 'fleets', 'noise', 'frozen'.",
    "lab data fetch cifar": "data set must be one of digits, digits-shifted, mnist, fashion-mnist, cifar-10,"
    " got 'cifar'",
    "lab reproduce frozen": "--encoder must name an encoder's file: codedfl lab data encoder efficientnet-lite0"
    " makes one",
    "lab reproduce mnist --encoder e.toml": "--encoder must be left out with mnist, which does not read it, got e.toml",
    "lab fleet show --samples 24": "--samples must be at least the number of devices (25), got 24",
    "lab fleet show --devices 1": "the number of devices must be at least 2, got 1",
    "lab fleet show --devices 0": "n_devices must be an integer from 1 to 1000000, got 0",
}


@pytest.mark.parametrize("typed", CASES)
def test_the_whole_message(run: Run, typed: str):
    write_csv(Path("garden.csv"))
    Path("lonely.csv").write_text("a,shop,label\n" + "1,only,x\n2,only,y\n" * 10)
    result = run(*typed.split())
    assert (result.exit_code, result.stderr) == (2, f"error: {CASES[typed]}\n")
    assert result.stdout == ""


def test_a_label_of_a_named_data_set(run: Run, digits_model: Path):
    result = run("study", "evaluate", digits_model, "digits", "--label", "x")
    assert result.stderr == "error: --label must be left out for the data set 'digits', got 'x'\n"


def test_without_a_command_there_is_help_and_no_error_line(run: Run):
    result = run()
    assert (result.exit_code, result.stderr) == (2, "")
    assert "Usage: codedfl [OPTIONS] COMMAND" in result.stdout


def test_a_bug_keeps_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(inputs_module, "make_problem", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        run("lab", "train", "digits")

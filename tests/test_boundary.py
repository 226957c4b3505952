"""What every party installs never imports the laboratory, and needs neither matplotlib, scikit-learn nor scipy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from test_layers import modules

BLOCKED = ("codedfl_lab", "matplotlib", "sklearn", "scipy")
# Extras: the API of scikit-learn, a model handed over to it, and figures.
OF_EXTRAS = (
    "codedfl.estimators",
    "codedfl.data.sklearn_export",
    "codedfl.report.canvas",
    "codedfl.report.figures",
    "codedfl.__main__",
)
BLOCKER = f"""
import importlib.abc, importlib.util, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked)", name=name)
sys.meta_path.insert(0, Blocker())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {BLOCKED} else found(name, package)
"""


def blocked(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in which the laboratory and its packages cannot be imported."""
    command = [sys.executable, "-c", BLOCKER + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def command(words: str) -> str:
    return f"from codedfl.cli import main\nsys.argv = ['codedfl', *{words.split()}]\nmain()"


def test_the_blocker_blocks(tmp_path: Path):
    for name in BLOCKED:
        assert f"No module named '{name}' (blocked)" in blocked(f"import {name}", tmp_path).stderr


def test_every_module_of_the_product_is_imported_without_them(tmp_path: Path):
    names = [name for name in modules() if name.startswith("codedfl.") and not name.startswith(OF_EXTRAS)]
    assert len(names) > 150
    done = blocked("".join(f"import {name}\n" for name in names), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_study_is_run_without_them(tmp_path: Path):
    rows = "\n".join(f"{i % 17},{(7 * i) % 11},{3 * (i % 17) - (7 * i) % 11 + i % 3}" for i in range(300))
    (tmp_path / "t.csv").write_text(f"a,b,y\n{rows}\n", encoding="utf-8")
    for words in (
        "study new t.csv --target y",
        "study check study.toml t.csv",
        "study rehearse study.toml --tables t.csv --out out",
        "study predict out/model.safetensors t.csv --out said.csv",
    ):
        done = blocked(command(words), tmp_path)
        assert done.returncode == 0, done.stderr
    assert len((tmp_path / "said.csv").read_text(encoding="utf-8").splitlines()) == 301
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            command("lab compare digits"),
            "error: the command compare (codedfl_lab.cli.commands:COMPARE) could not be loaded:",
        ),
        ("from codedfl import CodedRidge", "scikit-learn must be installed for the estimators: pip install 'codedfl["),
        (
            "import codedfl.estimators.ridge_path",
            "scikit-learn must be installed for the estimators: pip install 'code",
        ),
        (
            "from codedfl.analyses.distributions import distributions; distributions()",
            "scipy must be installed for p values: pip install 'codedfl[inference]'",
        ),
    ],
)
def test_what_needs_them_says_so_in_one_line(code: str, line: str, tmp_path: Path):
    done = blocked(code, tmp_path)
    assert done.returncode != 0
    assert line in done.stderr.splitlines()[-1]

"""The device in JavaScript (examples/javascript): it passes the vectors, and completes a fleet."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from experiments.code_lines import ROOT

FOLDER = ROOT / "examples" / "javascript"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs beside their two packages."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", *(path.name for path in FOLDER.glob("*.mjs"))):
        shutil.copy(FOLDER / name, folder / name)
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if made.returncode:
        pytest.skip(f"npm cannot install the packages: {made.stderr[:200]}")
    return folder


@pytest.mark.nightly
def test_it_passes_the_vectors(installed: Path) -> None:
    vectors = ROOT / "spec" / "vectors"
    made = subprocess.run(
        ["node", "vectors.mjs", str(vectors)], cwd=installed, capture_output=True, text=True, timeout=120
    )
    assert made.returncode == 0, made.stdout
    passed = {line.partition(":")[0] for line in made.stdout.splitlines()}
    assert passed == {path.stem for path in vectors.iterdir()} - {"gradient_code"}  # which is of the paper's scheme


@pytest.mark.nightly
def test_it_completes_a_fleet(installed: Path) -> None:
    """As the device that is killed and returns: the model is the rehearsal's bit for bit, and its state is wiped.

    Its study has features enough for updates that the device fetches by pieces.
    """
    command = [sys.executable, "-m", "experiments.fleet", "--javascript", str(installed), "--features", "1700"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    assert "the rehearsal's model, bit for bit: True" in made.stdout
    assert "device-2 went on after its return: True" in made.stdout
    answers = re.search(r"answers in time: .*device-2 (\d+)", made.stdout)
    assert answers is not None and int(answers[1]) >= 1

"""What a device process imports: no scipy, scikit-learn or matplotlib, no planner and no simulator.

Every call of Flower starts a process, and small machines take seconds for each of these.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import codedfl

# numba looks at scipy's version when it is installed; that package without its parts is all it loads.
NUMBA = "import numba"
HEAVY = ("scipy", "sklearn", "matplotlib", "pandas", "pyarrow", "ray", "onnxruntime")
NOT_OURS_TO_RUN = ("codedfl_lab", "codedfl.run", "codedfl.estimators", "codedfl.report", "codedfl.cli")

DEVICE_SIDE = {
    "the public package": "import codedfl",
    "the machines": "import codedfl.protocol.schemes",
    "the host on a node": "import codedfl.engine.device_host",
    "the client app": "from codedfl.flower import make_client_app",
}


def loaded_by(code: str) -> set[str]:
    """Modules of a fresh interpreter after ``code``."""
    listing = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def within(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    return sorted(name for name in modules if name.startswith(tuple(f"{one}." for one in packages)) or name in packages)


@pytest.fixture(scope="module")
def loaded_by_numba() -> set[str]:
    return loaded_by(NUMBA)


@pytest.mark.parametrize("code", DEVICE_SIDE.values(), ids=DEVICE_SIDE)
def test_a_device_process_loads_no_more_than_it_runs(code: str, loaded_by_numba: set[str]):
    modules = loaded_by(code)
    assert any(name.startswith("codedfl.") for name in modules)
    assert within(modules - loaded_by_numba, HEAVY) == []
    assert within(modules, NOT_OURS_TO_RUN) == []


def test_the_machines_of_all_coded_schemes_are_there():
    modules = loaded_by(DEVICE_SIDE["the machines"])
    folder = Path(codedfl.__file__).parent / "protocol" / "schemes"
    expected = {f"codedfl.protocol.schemes.{file.stem}" for file in folder.glob("[!_]*.py")}
    assert len(expected) >= 3 and expected <= modules


def test_the_listing_sees_what_a_simulation_loads(loaded_by_numba: set[str]):
    """That the test above can fail."""
    modules = loaded_by("from codedfl_lab import simulate; from codedfl import CodedRidge")
    assert {"scipy.linalg", "sklearn.base"} <= set(within(modules - loaded_by_numba, HEAVY))
    assert {"codedfl_lab.comparing.simulator", "codedfl_lab.costs", "codedfl.estimators"} <= set(
        within(modules, NOT_OURS_TO_RUN)
    )

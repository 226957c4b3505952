"""What an owner's auditor has to read: the code lines that real processes of a device load, all threads together.

A linear study and one with random features are approved and run by real programs with a server and a broker
(``experiments.audited``). README names the number, and ``make house`` prints it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiments.audited import LIMIT, Loaded, loaded_by_a_device
from experiments.code_lines import ROOT

OURS = ROOT / "src" / "codedfl"
# What drafts and conducts studies, shows results, or asks devices.
OTHERS = ("authoring", "analyses", "solve", "report", "run", "estimators", "flower")
ASKING = ("sum/session.py", "sum/goals.py", "sum/known.py", "sum/store.py", "engines/mqtt_server.py")
LATER = ("contract/matching.py", "contract/between_studies.py", "contract/model_cells.py", "engines/pieces.py")
WORKED = (
    "contract/census.py",
    "sum/device.py",
    "statistics/gram.py",
    "statistics/products.py",
    "data/features/rbf.py",
    "mqtt/link.py",
)


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return loaded_by_a_device()


def test_a_device_loads_few_enough_lines_for_an_audit(loaded: Loaded):
    assert loaded.lines <= LIMIT
    said = re.search(r"([0-9] [0-9]{3}) lines of code", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert said is not None
    assert abs(int(said[1].replace(" ", "")) - loaded.lines) <= 250, "README says how many"


def test_the_servers_half_and_authoring_are_never_loaded(loaded: Loaded):
    files = {one.relative_to(OURS) for one in loaded.files if one.is_relative_to(OURS)}
    assert len(files) == len(loaded.files), "nothing of the laboratory"
    assert not {one for one in files if one.parts[0] in OTHERS}
    assert not files & set(map(Path, ASKING))


def test_what_a_first_study_does_not_need_is_not_loaded(loaded: Loaded):
    """What compares studies, counts single models and pulls large requests comes with the first that needs it."""
    files = {one.relative_to(OURS) for one in loaded.files}
    assert all((OURS / one).is_file() for one in LATER)
    assert not files & set(map(Path, LATER))


def test_what_did_the_work_is_among_them(loaded: Loaded):
    """The list is that of devices that approved, joined and replied, not of ones that ended before."""
    joined = {one.relative_to(OURS) for one in loaded.joined}
    assert set(map(Path, WORKED)) <= joined
    assert Path("contract/approval.py") in {one.relative_to(OURS) for one in loaded.approving} - joined

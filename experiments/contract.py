"""The contract line by line: what must hold, the tests that show it, and whether they pass. ``make contract``.

All tests that some line names are run once. A line holds if there are tests for each of its places and all of them
passed. The command ends with 1 where a line does not hold.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree

from experiments.code_lines import ROOT, by_folder

MOST_LINES = 25_000
PROMISE = (
    "over everything a device ever approves, whatever the server and any z devices do, they can compute only functions"
    " of sums of approved statistics over whole disclosure groups"
)
PROMISED_IN = ("DESIGN.md", "THREAT_MODEL.md", "docs/who-sees-what.md")  # README says it in fewer words


class Line(NamedTuple):
    """What must hold, and what shows it: files or folders of tests, each with a pattern of their names ("" is all)."""

    holds: str
    shown_by: dict[str, str]


class Outcome(NamedTuple):
    """One test: its file, its name, and whether it passed."""

    file: str
    name: str
    passed: bool


BETWEEN, FROM_TOTALS = "tests/attacks/test_between_runs.py", "tests/attacks/test_from_totals.py"
APPROVAL, CENSUS = "tests/contract/test_approval.py", "tests/contract/test_census.py"
STUDIES = "tests/attacks/test_between_studies.py"
AT_A_BROKER, DEVICE = "tests/engines/test_studies_at_a_broker.py", "tests/sum/test_device.py"
ANALYSIS = "tests/analyses/test_study_analysis.py"
LINES = (
    Line(
        "One contract: study, roster and server key; matrices; Flower names the study; fuzzed",
        {
            "tests/contract/test_study_file.py": "",
            "tests/contract/test_roster.py": "",
            "tests/flower/test_client_app.py": "",
            "tests/fuzz/test_files.py": "",
        },
    ),
    Line(
        "A device derives, compares, refuses: every field of every message and call",
        {DEVICE: "refused", "tests/statistics/test_asks.py": ""},
    ),
    Line(
        "Lists are unions of whole groups",
        {"tests/liars/test_any_request.py": "group|rule", "tests/sum/test_schedules.py": "group"},
    ),
    Line(
        "Snapshots; one judgement of all that was approved, by values; findings on record",
        {STUDIES: "", "tests/contract/test_snapshot.py": "", APPROVAL: ""},
    ),
    Line(
        "No rare level, missing value or class is reported, whatever the server merges",
        {BETWEEN: "rare|level|merg", CENSUS: ""},
    ),
    Line("Moving rows between devices changes no bit of a total", {BETWEEN: "moving_rows", "tests/statistics": ""}),
    Line(
        "One upload: refits, sub-models and inference without an owner",
        {"tests/analyses/test_linear.py": "", AT_A_BROKER: "absent"},
    ),
    Line("No announced moments; values on the unit of record", {BETWEEN: "announce", FROM_TOTALS: "grid|unit|means"}),
    Line("Enough rows in every pod", {BETWEEN: "one_row", FROM_TOTALS: "few_rows"}),
    Line("Judged and recorded before a byte leaves", {DEVICE: "argument|direction|numbers"}),
    Line(
        "Fields that are enforced: smallest cell, least rows, points, no noise, several analyses",
        {APPROVAL: "limits|points|noise", ANALYSIS: "", BETWEEN: "points|rare_class", DEVICE: "argument"},
    ),
    Line(
        "Every attack of the audit, on the old rule and on the new, for role keys and role sums",
        {
            BETWEEN: "",
            FROM_TOTALS: "",
            STUDIES: "",
            DEVICE: "",
            "tests/liars/test_any_request.py": "",
        },
    ),
    Line("The liar harness finds every mutant by itself", {"tests/liars": ""}),
    Line("Absence costs a group, nobody else", {AT_A_BROKER: "absent|groups|away"}),
    Line(
        "One stage runner; the rehearsal is the run, bit for bit",
        {"tests/run/test_rehearsal.py": "", AT_A_BROKER: "", "tests/flower/test_studies_on_flower.py": ""},
    ),
    Line("No option is swallowed", {"tests/cli/test_no_option_is_swallowed.py": ""}),
    Line(
        "The approval screen is the truth; codedfl site ledger",
        {"tests/cli/test_study_commands.py": "", APPROVAL: "screen|told"},
    ),
    Line("Disk: gone means gone; expiry also if nobody asks", {DEVICE: "generation"}),
    Line(
        "State folders and versions of 0.2, mixed fleets: one line with what to do",
        {APPROVAL: "0_2"},
    ),
)


def main() -> None:
    """Run the tests of all lines, and print what each line says and how many tests show it."""
    outcomes = _run(sorted({place for line in LINES for place in line.shown_by}))
    held = [_told(line.holds, *_shown(line, outcomes)) for line in LINES]
    missing = [page for page in PROMISED_IN if PROMISE not in _words(ROOT / page)]
    held.append(_told("The promise in one sentence", not missing, f"missing in {missing}" if missing else "4 pages"))
    both = (ROOT / "src" / "codedfl", ROOT / "lab" / "src" / "codedfl_lab")  # what moves to the laboratory still counts
    lines = sum(sum(by_folder(one).values()) for one in both)
    held.append(_told(f"Code lines below {MOST_LINES}", lines < MOST_LINES, str(lines)))
    sys.exit(int(not all(held)))


def _told(what: str, holds: bool, seen: str) -> bool:
    print(f"{'holds' if holds else 'FAILS'}  {what}: {seen}", flush=True)
    return holds


def _shown(line: Line, outcomes: list[Outcome]) -> tuple[bool, str]:
    """Whether each place has tests and all passed, and how that is said."""
    found = {
        place: [one for one in outcomes if one.file.startswith(place) and re.search(names, one.name)]
        for place, names in line.shown_by.items()
    }
    empty = [place for place, tests in found.items() if not tests]
    failed = [f"{one.file}::{one.name}" for tests in found.values() for one in tests if not one.passed]
    if empty or failed:
        return False, "; ".join([*(f"no tests in {place}" for place in empty), *failed[:5]])
    return True, f"{sum(map(len, found.values()))} passed in {', '.join(found)}"


def _run(places: list[str]) -> list[Outcome]:
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = (sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider")
        options = ("-m", "not nightly", "-o", "junit_family=xunit1", f"--junitxml={report}")
        done = subprocess.run([*command, *options, *places], cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
        cases = ElementTree.parse(report).getroot().iter("testcase")
        return [
            Outcome(
                case.get("file", case.get("classname", "").replace(".", "/") + ".py"),
                case.get("name", ""),
                all(child.tag not in ("failure", "error", "skipped") for child in case),
            )
            for case in cases
        ]


def _words(path: Path) -> str:
    """A page's text on one line, without marks, in small letters."""
    text = re.sub(r"\(\*\*.*?\)|[>*]", "", path.read_text(encoding="utf-8"))
    return " ".join(text.split()).lower().replace(" ,", ",")


if __name__ == "__main__":
    main()

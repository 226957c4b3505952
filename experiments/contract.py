"""The contract line by line: what must hold, the tests that show it, and whether they pass. ``make contract``.

Each line names the tests that would fail if it did not hold. The command ends with 1 where one does, or where a line's
tests are not there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import NamedTuple

from experiments.code_lines import ROOT, by_folder

MOST_LINES = 25_000


class Line(NamedTuple):
    """What must hold, and what shows it: files of tests, or a part of them by their names (``-k``)."""

    holds: str
    tests: tuple[str, ...]
    names: str = ""


LINES = (
    Line("One contract: study, roster, server key; matrices; fuzzed", ("tests/contract", "tests/fuzz/test_files.py")),
    Line(
        "A device derives, compares, refuses",
        ("tests/protocol/test_terms.py", "tests/engine", "tests/flower/test_client_app.py"),
    ),
    Line("Lists are unions of whole pods", ("tests/protocol/test_pods.py", "tests/liars/test_pods_over_runs.py")),
    Line(
        "Snapshots, editions and the row rule", ("tests/contract/test_row_rule.py", "tests/contract/test_approval.py")
    ),
    Line("One upload holds every linear model", ("tests/analyses", "tests/mqtt/test_studies_at_a_broker.py")),
    Line(
        "No announced moments; whole numbers of the unit of record",
        ("tests/statistics", "tests/attacks/test_between_runs.py"),
    ),
    Line("Judged and recorded before a byte leaves; disk", ("tests/engine",)),
    Line(
        "Smallest cell, least rows, points, no noise without sensitivity",
        ("tests/analyses", "tests/contract"),
        "cell or rare or rows or point or noise",
    ),
    Line(
        "Every attack of the audit, on the old rule and on the new",
        (
            *("tests/attacks/test_between_runs.py", "tests/attacks/test_from_totals.py", "tests/liars"),
            *("tests/contract/test_row_rule.py", "tests/engine/test_gone_means_gone.py"),
            "tests/engine/test_before_a_byte_leaves.py",
        ),
    ),
    Line("Absence costs a pod, nobody else", ("tests/mqtt/test_absence.py", "tests/protocol/test_pods.py")),
    Line(
        "The rehearsal is the run, bit for bit",
        ("tests/run/test_rehearsal.py", "tests/mqtt/test_studies_at_a_broker.py", "tests/flower/test_studies.py"),
    ),
    Line("No option is swallowed", ("tests/cli/test_no_option_is_swallowed.py",)),
    Line("The approval screen and the ledger", ("tests/cli/test_study_commands.py", "tests/contract/test_approval.py")),
)


def main() -> None:
    """Run the tests of every line and print how many passed."""
    failed = False
    for line in LINES:
        missing = [one for one in line.tests if not (ROOT / one).exists()]
        outcome = f"missing: {', '.join(missing)}" if missing else _run(line)
        good = outcome.endswith("passed")
        failed |= not good
        print(f"{'holds' if good else 'FAILS'}  {line.holds}: {outcome}", flush=True)
    both = (ROOT / "src" / "codedfl", ROOT / "lab" / "src" / "codedfl_lab")  # what moves to the laboratory still counts
    lines = sum(sum(by_folder(one).values()) for one in both)
    failed |= lines >= MOST_LINES
    print(f"{'holds' if lines < MOST_LINES else 'FAILS'}  Code lines below {MOST_LINES}: {lines}")
    sys.exit(int(failed))


def _run(line: Line) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
        *line.tests,
    ]
    done = subprocess.run(
        [*command, *(["-k", line.names] if line.names else [])], cwd=ROOT, capture_output=True, text=True, check=False
    )
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr.strip()[-200:]
    passed = re.search(r"(\d+) passed", last)
    return f"{passed[1]} passed" if done.returncode == 0 and passed else last


if __name__ == "__main__":
    main()

"""What a device derives from a study that it approved, as JSON: for a device in another language, which reads no study.

``python -m experiments.plain_terms STUDY ROSTER STATE NAME`` prints what holds for all runs: names, keys, pods. With
the ask of a run in hexadecimal behind that, it prints the run's parameters, what the frozen rows bring into the total,
and how many asks of its kind are answered over the life of the study; one that does not follow from the study fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from codedfl.analyses.study_plan import StudyRun
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.ledger import most_different
from codedfl.contract.roster import Roster, load_roster
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study
from codedfl.engine.approved_party import ApprovedParty
from codedfl.engine.keys import DEVICE_KEY, load_identity
from codedfl.protocol.agreement import ring_of_totals
from codedfl.protocol.contribution import Rows, WholeNumbers
from codedfl.statistics.statistic import Ask


def of_study(study: Study, roster: Roster, name: str) -> dict[str, Any]:
    """What holds for all runs of a study."""
    return {
        "name": name,
        "study": study.name,
        "digest": study.digest().hex(),
        "server": study.server_key,
        "roster": {one: key.hex() for one, key in roster.keys.items()},
        "pods": [sorted(pod) for pod in roster.pods],
        "least_owners": study.least_owners,
    }


def of_run(run: StudyRun, home: DeviceFolder) -> dict[str, Any]:
    """Of one run: whole numbers as texts (they may pass 2^53), or X and Y."""
    study, asked = run.study, run.ask.statistic
    alike, most = most_different(study, asked)
    found: dict[str, Any] = {
        "parameters": run.parameters.encode().hex(),
        "alike": sorted(alike),
        "statistic": asked,
        "most": most,
    }
    made = run.contribution(home.frozen(study.digest()))
    if isinstance(made, Rows):
        return {**found, "X": made.X.tolist(), "Y": made.Y.tolist()}
    assert isinstance(made, WholeNumbers)
    ring = ring_of_totals(run.parameters.total_limit)
    return {**found, "numbers": [str(one) for one in ring.to_integers(made.make(ring)).ravel()]}


def main() -> None:
    """For the device of this name in a folder of states; refused unless it approved the study."""
    study_file, roster_file, state, name, *asked = sys.argv[1:]
    study, roster, home = (
        load_study(Path(study_file)),
        load_roster(Path(roster_file)),
        DeviceFolder.of(Path(state), name),
    )
    ApprovedParty(name, study, roster, load_identity(Path(state) / name / DEVICE_KEY), home).check_approved()
    asks = [Ask.decode(bytes.fromhex(one), study) for one in asked]
    found = of_run(StudyRun(study, roster, asks[0]), home) if asks else of_study(study, roster, name)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

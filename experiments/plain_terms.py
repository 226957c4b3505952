"""What a device derives from a study that it approved, as JSON: for a device in another language, which reads no study.

``python -m experiments.plain_terms STUDY ROSTER STATE NAME`` prints what holds for all asks: keys, groups, budgets.
With an ask in hexadecimal behind that, it prints what follows from it: the layout, the groups of the sum, the bytes
that are padded; one that does not follow from the study fails.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.ledger import most_different
from codedfl.contract.roster import load_roster
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.device.approved import ApprovedStudy, approved_study
from codedfl.device.study_sums import StudySums
from codedfl.statistics.statistic import Ask


def of_study(study: Study, contract: ApprovedStudy, name: str) -> dict[str, Any]:
    """What holds for all asks."""
    terms = contract.terms
    return {
        "name": name,
        "key_file": str((Path(sys.argv[3]) / name / DEVICE_KEY).absolute()),
        "command": [sys.executable, "-m", "experiments.plain_terms", *sys.argv[1:]],
        "directions": study.epochs - 1,
        "study": {
            "digest": terms.study.hex(),
            "server": terms.server.hex(),
            "key": {one.name: one.key.hex() for one in terms.participants},
            "group": {number: [*names] for number, names in terms.groups.items()},
            "colluders": terms.colluders,
            "least_owners": terms.least_owners,
            "holders": terms.holders,
        },
    }


def of_ask(study: Study, contract: ApprovedStudy, name: str, ask: bytes) -> dict[str, Any]:
    """What follows from one ask; ``plain`` is empty for a device without rows."""
    layout, (alike, most) = contract.layout(ask), most_different(study, Ask.decode(ask, study).statistic)
    plain = layout.to_bytes(contract.words(ask)) if name in contract.terms.owners else b""
    told = {**asdict(layout), "limit": str(layout.limit), "room": str(layout.room)}
    found = {"layout": told, "fixed": sorted(contract.groups(ask)), "plain": plain.hex()}
    return {**found, "counted": ", ".join(sorted(alike)), "arguments": most}


def main() -> None:
    """For the device of this name in a folder of states; refused unless it approved the study."""
    study_file, roster_file, state, name, *asks = sys.argv[1:]
    study, roster, home = (
        load_study(Path(study_file)),
        load_roster(Path(roster_file)),
        DeviceFolder.of(Path(state), name),
    )
    sums = StudySums(study, roster)
    contract = approved_study(name, sums, load_identity(Path(state) / name / DEVICE_KEY), home)
    found = [of_ask(study, contract, name, bytes.fromhex(ask)) for ask in asks]
    print(json.dumps(found[0] if found else of_study(study, contract, name)))


if __name__ == "__main__":
    main()

"""Random faults on role keys: the exact model of the owners on the list, or an end that names who is missing.

``CODEDFL_FAULT_SCHEDULES`` sets how many schedules are run (``make nightly``: 10 000). A failure names its seed;
``FaultyRoles(seed)`` plays it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from faulty_roles import STRIKES, FaultyRoles

from codedfl.errors import RangeExceeded
from codedfl.protocol.schemes.role_keys.device import RoleDeviceSharing

SCHEDULES = int(os.environ.get("CODEDFL_FAULT_SCHEDULES", "304"))
BLOCKS = 8  # as many tests, so that both cores have some


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_of_faults_corrupts_a_model_or_hangs(block: int):
    ends: Counter[str] = Counter()
    for seed in range(block, SCHEDULES, BLOCKS):
        run = FaultyRoles(seed)
        try:
            ends[run.run()] += 1
        except Exception as error:
            story = "\n".join(run.log[-30:])
            raise AssertionError(f"seed {seed}, {run.setting}: {error!r}\n{story}") from error
    assert ends["exact"] > sum(ends.values()) / 2, ends


def test_the_schedules_do_what_they_say():
    """All faults, all strikes and all ends occur; some are left out, and some are fooled."""
    ends: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    explanations: set[str] = set()
    shorter = fooled = asked_again = 0
    for seed in range(60):
        run = FaultyRoles(seed)
        strike = run.strike
        ends[run.run()] += 1
        faults.update([*(line.split()[0] for line in run.log), strike])
        owners = run.server.sharing.owners
        shorter += owners is not None and len(owners.owners) < len(run.scenario.names)
        fooled += bool(run.fooled)
        asked_again += bool(run.server.sharing.keys.silent)
        if run.error is not None:
            explanations.add(run._explanation().split(" ")[0])
    assert set(ends) == {"exact", "NotEnoughDevices"}
    assert {"deadline", "look_who_is_gone", "equivocate", "kill", "end_for_good", *STRIKES} <= set(faults)
    assert min(shorter, fooled, asked_again) > 0
    assert explanations == {"too", "role"}


class LeavesPadsOn(RoleDeviceSharing):
    """Forgets to take off the pads of owners that were left out."""

    def _announce_if_ready(self) -> None:
        if self.owners and self.certified:
            listed = {self._session.agreed.position(name) for name in self.owner_names}
            self.seeds = {owner: seed for owner, seed in self.seeds.items() if owner in listed}
        super()._announce_if_ready()


class SumsTheFirst(RoleDeviceSharing):
    """Says that it is ready although a seed is missing."""

    def _announce_if_ready(self) -> None:
        if self.owners and self.certified:
            for owner in map(self._session.agreed.position, self.owner_names):
                self.seeds.setdefault(owner, bytes(32))
                self._vouched.add(owner)
        super()._announce_if_ready()


@pytest.mark.parametrize("mutant", [LeavesPadsOn, SumsTheFirst])
def test_the_schedules_find_rules_that_are_missing(mutant: type[RoleDeviceSharing]):
    class Mutated(FaultyRoles):
        settings = tuple(setting for setting in FaultyRoles.settings if not (setting.sums or setting.n_liars))
        device_sharing = mutant

    def is_caught(seed: int) -> bool:
        try:
            return Mutated(seed).run() == "RangeExceeded"
        except (AssertionError, RangeExceeded):
            return True

    assert any(is_caught(seed) for seed in range(400))

"""Random lies: in no schedule does the server learn more than honest runs show.

``CODEDFL_LIAR_SCHEDULES`` sets how many schedules are run (``make liars``: 12 000). A failure names its seed;
``LyingRun(seed)`` plays it again.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from adversary import SCHEMES
from lying_schedules import CONTRACTS_SHOWN, DOWNGRADES, LyingRun
from mutants import (
    AnswersAnyNumber,
    CountsWithinARun,
    DrawsNoiseAnew,
    ForgetsItsPod,
    GivesKeysToAnybody,
    KeepsItsPads,
    ListsAnyOwners,
    PadsOnTheDisk,
    ReadsItsTableAnew,
    ReadyWithWhatItHas,
    SealsToAnyKey,
    SignsAnyList,
    SignsShortLists,
    TakesAnybody,
    TakesAnyBounds,
    TakesAnyParameters,
    TwoAgreements,
    masks_for_all_epochs,
    masks_unbound,
)
from role_lies import ROLE_SCHEMES

SCHEDULES = int(os.environ.get("CODEDFL_LIAR_SCHEDULES", "160"))
BLOCKS = 16  # as many tests, so that both cores have some


def play(seeds: range) -> int:
    """How many schedules came as far as showing something."""
    told = 0
    for seed in seeds:
        run = LyingRun(seed)
        try:
            found = run.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}, {run.setting}: {error!r}\n" + "\n".join(run.log[-30:])) from error
        assert not found, f"seed {seed}, {run.setting}: {found}\n" + "\n".join(run.moves)
        told += bool(run.adversary.knowledge().fewest_devices())
    return told


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_of_lies_shows_more_than_honest_runs_do(block: int):
    seeds = range(block, SCHEDULES, BLOCKS)
    assert play(seeds) > len(seeds) / 3  # schedules that end all runs early would test little


CODED = {"schemes": tuple(SCHEMES)}
ROLES = {"schemes": tuple(ROLE_SCHEMES)}
CONTRACTS, LABORATORY = {"laboratories": 0.0}, {"laboratories": 1.0}
# Each rule that is missing, and within how many schedules it must be found.
MUTANTS: dict[str, tuple[dict[str, Any], int]] = {
    "masks unbound": ({**CODED, "rename": masks_unbound}, 40),
    "one mask for all epochs": ({**CODED, "rename": masks_for_all_epochs}, 20),
    "two agreements": ({**CODED, "party_type": TwoAgreements}, 60),
    "any parameters": ({**CONTRACTS, "party_type": TakesAnyParameters}, 80),
    "any list of owners": ({**CONTRACTS, "party_type": ListsAnyOwners}, 20),
    "anybody": ({**CONTRACTS, "party_type": TakesAnybody}, 40),
    "another pod": ({**CONTRACTS, **ROLES, "party_type": ForgetsItsPod}, 80),
    "two lists signed": ({**ROLES, **LABORATORY, "party_type": SignsAnyList}, 80),
    "role keys to anybody": ({**ROLES, "party_type": GivesKeysToAnybody}, 80),
    "seeds sealed to any key": ({**ROLES, "party_type": SealsToAnyKey}, 80),
    "pads used again": ({"party_type": KeepsItsPads}, 40),
    "pads on the disk": ({"party_type": PadsOnTheDisk}, 40),
    "short lists signed": ({**CONTRACTS, **ROLES, "party_type": SignsShortLists}, 40),
    "sums without a seed": ({**ROLES, "party_type": ReadyWithWhatItHas}, 60),
    "any bounds": ({**CONTRACTS, **ROLES, "party_type": TakesAnyBounds}, 80),
    "tables read anew": ({**CONTRACTS, **ROLES, "party_type": ReadsItsTableAnew}, 20),
    "noise drawn anew": ({**CONTRACTS, **ROLES, "party_type": DrawsNoiseAnew}, 80),
    "questions counted within a run": ({**CONTRACTS, "party_type": CountsWithinARun}, 40),
    "questions not counted": ({**CONTRACTS, "party_type": AnswersAnyNumber}, 40),
}


@pytest.mark.parametrize(("mutant", "within"), MUTANTS.values(), ids=MUTANTS)
def test_the_schedules_find_rules_that_are_missing(mutant: dict[str, Any], within: int):
    seed = next(seed for seed in range(within) if LyingRun(seed, **mutant).run())
    honest = {name: said for name, said in mutant.items() if name in ("schemes", "laboratories")}
    assert not LyingRun(seed, **honest).run(), "the rule is what stops it"


def test_a_schedule_is_repeatable():
    first, second = LyingRun(8), LyingRun(8)
    assert first.run() == second.run()
    assert first.log == second.log
    assert first.stage.wire == second.stage.wire


WANTED = {
    "two agreements",
    "another order",
    "some left out",
    "keys substituted",
    "other parameters",
    "probes",
    "twice in phase 1",
    "drop in phase 1",
    "roll back in phase 1",
    "roll back in phase 2",
    "a second e",
    "one and zero",
    "two kinds",
    "each its own",
    "all the same",
    "replay",
    "lists",
    "a key wanted",
    "other role keys",
    "rows dealt out",
    "a list of some pods",
    "pods left out",
    "tables change",
    *CONTRACTS_SHOWN,
    *(f"downgrade of {what}" for what in DOWNGRADES),
    *(f"scheme {name}" for name in (*SCHEMES, *ROLE_SCHEMES)),
    *(f"{count} devices" for count in range(2, 8)),
    *(f"{count} colluders" for count in range(3)),
}


def test_the_schedules_do_what_they_say():
    """Every lie, scheme and size occurs within 120 schedules; whoever has seen all need look no further."""
    seen: set[str] = set()
    for seed in range(120):
        run = LyingRun(seed)
        run.run()
        setting = run.setting
        seen |= {f"scheme {setting.scheme}", f"{setting.n_devices} devices", f"{len(setting.colluders)} colluders"}
        seen.update(run.moves)
        if seen >= WANTED:
            break
    assert seen >= WANTED
    assert not any(one.startswith("scheme ") or one.endswith(" colluders") for one in seen - WANTED)

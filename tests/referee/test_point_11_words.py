"""Words: "0.406 times faster", "1 others", "by the solver" where both descend, sixteen lines of seeds, one line of 37
reasons, five schemes joined by "and"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.comparing.results import ExposureResult, Gain, SchemeResult, Summary, Times
from codedfl_lab.planning.planner import Planning
from codedfl_lab.report.fastest import Leader, leading_four, who_is_fastest
from codedfl_lab.report.rows import listed, remarks, rows_at, split_of_gain, times_faster
from made_up_results import entry, timed


def coded(**changes: Any) -> SchemeResult:
    return entry(0.9, 10.0, alpha=23, **changes)


def test_slower_is_called_slower() -> None:
    assert times_faster(3.18) == "3.18 times faster"
    assert times_faster(0.406) == "2.46 times slower"
    said = Leader("Ours", coded(speedups=(0.4, 0.406, 0.5))).sentence
    assert "10.0\u202fs, 2.46 times slower;" in said


def test_what_descends_as_conventional_fl_does_owes_nothing_to_its_solver() -> None:
    gain = Gain(4.0, 2.5)
    assert split_of_gain(coded(gain=gain)) == " (4.00 by full batches, 2.50 by the code)"
    assert split_of_gain(coded(gain=gain, solver="cg")) == " (4.00 by the solver, 2.50 by the code)"
    mixed = split_of_gain(coded(gain=Gain(4.0, 0.5), solver="cg"))
    assert mixed == " (4.00 times faster by the solver, 2.00 times slower by the code)"
    assert split_of_gain(coded(gain=gain, scheme="conventional-full-batch")) == ""


@pytest.mark.parametrize(("exposed", "words"), [(0, "no other device."), (1, "one other."), (5, "5 others.")])
def test_one_other_is_not_others(exposed: int, words: str) -> None:
    said = Leader("Ours", coded(exposure=ExposureResult(0, exposed, None))).sentence
    assert said.endswith(f"and with one colluding device {words}")


def test_never_is_not_so_many_times_slower() -> None:
    never = replace(coded(speedups=(0.0, 0.4, 0.5)), time_to_target_s=Times(), seeds_reached=0)
    assert Leader("Ours", never).sentence.startswith("Ours, coded-padded (α = 23), never gets there; its server")
    assert rows_at([never], 0.9, "authors", "paper", "accuracy")[0].speedup == "–"


def test_never_is_said_of_no_seed_and_few_are_counted() -> None:
    """One cell said never where the line below it had the target reached in one seed of three."""
    few = timed(0.9, [10.0, None, None], alpha=23)
    none, all_of_them = timed(0.9, None, dropped=5), timed(0.9, 20.0)
    shown = rows_at([few, none, all_of_them], 0.9, "authors", "paper", "accuracy")
    assert [row.time for row in shown] == ["20.0", "1 of 3", "never"]
    assert [row.epochs for row in shown] == ["10", "–", "never"]
    assert "number of seeds that reach it" in " ".join(remarks(shown))
    said = who_is_fastest([all_of_them, few, none], "90 %")
    assert "; dropping the slowest 5 never gets there; coded-padded (α = 23) gets there in few seeds." in said
    assert Leader("Ours", few).sentence.startswith("Ours, coded-padded (α = 23), gets there in 1 of 3 seeds; its")


def test_few_seeds_are_one_sentence_and_none_are_in_the_table() -> None:
    lost = [entry(0.9, None, alpha=alpha) for alpha in range(1, 17)]
    assert remarks(rows_at(lost, 0.9, "authors", "paper", "accuracy")) == []
    some = [replace(one, seeds_reached=1) for one in lost[:3]]
    assert remarks(rows_at(some, 0.9, "authors", "paper", "accuracy")) == [
        "In some seeds only the target is reached by coded-padded (α = 1) in 1 of 2, coded-padded (α = 2) in 1 of 2 and"
        " coded-padded (α = 3) in 1 of 2. A seed that misses it counts as infinitely late: where that leaves no median,"
        " the number of seeds that reach it stands in place of a time, and never where none does."
    ]


def test_one_reason_is_said_once_for_all_it_holds_of() -> None:
    rows = [entry(0.9, None, alpha=a, final=None, reason="too large", diverged=True) for a in (1, 2, 3)]
    rows += [entry(0.9, None, delta=0.1, reason="no parity")]
    rows = [replace(row, final_accuracy=Summary()) for row in rows]
    assert remarks(rows_at(rows, 0.9, "authors", "paper", "accuracy")) == [
        "coded-padded (α = 1), coded-padded (α = 2) and coded-padded (α = 3) diverge: too large.",
        "CodedFedL (δ = 0.1) could not run: no parity.",
    ]


def test_a_winner_that_does_not_stay_there_is_said() -> None:
    """Descent on sorted mini-batches swings: it may touch 90 % once and end at 60 %."""
    first, second = entry(0.9, 5.0), coded()
    fell = replace(first, final_accuracy=Summary(0.6, 0.6, 0.6))
    stays = replace(first, final_accuracy=Summary(0.9, 0.9, 0.9))
    words = " Afterwards conventional FL falls below 90 % again, as its final score shows."
    assert who_is_fastest([fell, second], "90 %").endswith(words)
    assert "falls below" not in who_is_fastest([stays, second], "90 %")


def test_a_list_has_commas_and_one_and() -> None:
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    rows = [entry(0.9, 5.0), *(entry(0.9, None, alpha=alpha) for alpha in (1, 2, 3, 4, 5))]
    said = who_is_fastest(rows, "90 % on digits")
    assert said.count(" and ") == 1
    assert "coded-padded (α = 4) and coded-padded (α = 5) never get there." in said


def test_no_plan_is_one_short_line() -> None:
    planning = Planning(0.99, unreached=[f"scheme {i} reached 0.9{i} only" for i in range(37)], highest=0.97)
    with pytest.raises(InvalidInput) as caught:
        _ = planning.best
    assert str(caught.value) == (
        "target must be a score that a private scheme reaches, got 0.99 (the best without it: 0.97): take a lower one"
    )


def test_a_race_that_few_seeds_decide_says_so() -> None:
    plain = replace(entry(0.9, 20.0), time_to_target_s=Times(), seeds_reached=1)
    ours = coded(speedups=(2.0, 2.0, 2.0), solver="cg")
    few = replace(ours, speedup_over_conventional=replace(ours.speedup_over_conventional, seeds_compared=1))
    leaders = leading_four([plain, replace(few, scheme="coded-keys")], 0.9, "authors", "paper")
    assert "2.00 times faster in the 1 of 2 seeds in which conventional FL gets there;" in leaders[1].sentence
    assert ", where conventional FL gets in few seeds" in who_is_fastest([plain, few], "90 %")

"""Who is fastest, in words: one sentence for a whole race, and the four that it comes down to.

The four are conventional FL, the paper's scheme, ours, and the strongest baseline: conventional FL with our solver.
What it gains is the solver's, what is left is the code's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codedfl.report.text import number, seconds
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.comparing.names import FAIR_RIVAL, name_in_sentence
from codedfl_lab.comparing.results import Results, SchemeResult
from codedfl_lab.report.rows import by_time, entries_at, few_seeds, kinds, listed, split_of_gain, times_faster
from codedfl_lab.schemes.coded_padded import CodedPadded

BASELINE, PAPER_SCHEME = Conventional.name, CodedPadded.name


def who_is_fastest(entries: Iterable[SchemeResult], goal: str, from_zero: Sequence[SchemeResult] = ()) -> str:
    """Who is first, by how much and why, what its server sees, who never gets there; the table says who cannot run.

    ``from_zero`` has the leading rows with everything charged: what the private one's time leaves out is said then.
    """
    ranked = sorted((one for one in entries if one.reason is None), key=by_time)
    best = ranked[0].time_to_target_s.median if ranked else None
    if best is None:
        return f"No scheme reaches {goal} in half of the seeds: take a lower target or more epochs."
    first = ranked[0]
    sentence = f"To {goal}, {name_in_sentence(first)} is fastest with {seconds(best)}"
    plain = next((one for one in ranked if one.scheme == BASELINE), None)
    if plain is not None and plain is not first:
        if plain.time_to_target_s.median is None:
            sentence += f", where conventional FL {'gets in few seeds' if plain.seeds_reached else 'never gets'}"
        else:
            gain = times_faster(first.speedup_over_conventional.median or 1.0)
            sentence += f", {gain} than conventional FL with its {seconds(plain.time_to_target_s.median)}"
            sentence += split_of_gain(first)
    private = next((one for one in ranked if one.private), None)
    privately = None if private is None else private.time_to_target_s.median
    if private is first:
        sentence += ", and its server sees only the total"
    elif private is None or privately is None:
        sentence += "; no scheme whose server sees only the total gets there"
    else:
        sentence += (
            f"; the fastest whose server sees only the total, {name_in_sentence(private)}, takes"
            f" {seconds(privately)}, {number(privately / best)} times as long"
        )
    late = [one for one in ranked[1:] if one.time_to_target_s.median is None and one is not plain]
    lost = [name_in_sentence(one) for one in late if not one.seeds_reached]
    rare = [name_in_sentence(one) for one in late if one.seeds_reached]
    for names, when in ((lost, "never {} there"), (rare, "{} there in few seeds")):
        if names:
            sentence += f"; {listed(names)} {when.format('gets' if len(names) == 1 else 'get')}"
    final = first.final_accuracy.median
    again = final is not None and final < first.target_accuracy
    fell = f" Afterwards {name_in_sentence(first)} falls below {goal} again, as its final score shows." if again else ""
    return sentence + "." + ("" if private is None else _what_was_before(private, from_zero)) + fell


def _what_was_before(entry: SchemeResult, from_zero: Sequence[SchemeResult]) -> str:
    """What a private scheme's time does not hold, and how long it takes with that."""
    again = _again(entry, from_zero)
    if again is None or again.time_to_target_s.median is None:
        return ""
    own, gain = again.time_to_target_s.median, again.speedup_over_conventional.median
    faster = f", {times_faster(gain)} than conventional FL" if gain else ""
    rival = next((one for one in from_zero if (one.scheme, one.solver) == (FAIR_RIVAL, entry.solver)), None)
    if faster and rival is not None and rival.time_to_target_s.median is not None:
        faster += f" and {times_faster(rival.time_to_target_s.median / own)} than {name_in_sentence(rival)}"
    return (
        " That is from the call: keys, pads and sealed uploads made before it are not charged. From zero, charged for"
        f" all of it at a microcontroller's published prices, {name_in_sentence(entry)} takes {seconds(own)}{faster}."
    )


def _again(entry: SchemeResult, from_zero: Iterable[SchemeResult]) -> SchemeResult | None:
    """The same scheme and solver among the rows that are charged for everything."""
    return next((one for one in from_zero if (one.label, one.solver) == (entry.label, entry.solver)), None)


@dataclass(frozen=True)
class Leader:
    """One of the four, and what it is here for; ``again`` is its row from zero, where there is one."""

    who: str
    entry: SchemeResult
    again: SchemeResult | None = None

    @property
    def name(self) -> str:
        """Empty for conventional FL: who it is says it all."""
        return "" if self.entry.scheme == BASELINE else name_in_sentence(self.entry)

    @property
    def time(self) -> str:
        """To the target."""
        median, few = self.entry.time_to_target_s.median, few_seeds(self.entry)
        return seconds(median) if median is not None else f"gets there in {few} seeds" if few else "never gets there"

    @property
    def from_zero(self) -> str:
        """Such as "8.12 s from zero"; empty where nothing is prepared, as with what is not private."""
        again = self.again if self.entry.private else None
        return "" if again is None else f"{seconds(again.time_to_target_s.median)} from zero"

    @property
    def gain(self) -> str:
        """Such as "37.5 times faster (6.37 by the solver, 5.89 by the code)"; empty for the baseline itself."""
        gain, seeds = self.entry.speedup_over_conventional, self.entry.seeds
        if not gain.median or self.entry.time_to_target_s.median is None or self.entry.scheme == BASELINE:
            return ""
        compared = f" in the {gain.seeds_compared} of {seeds} seeds in which conventional FL gets there"
        return times_faster(gain.median) + split_of_gain(self.entry) + compared * (gain.seeds_compared < seeds)

    @property
    def view(self) -> str:
        """What its server sees, and what a colluder adds."""
        text = f"its server sees {'only the total' if self.entry.private else 'the gradient of each device'}"
        exposed = self.entry.exposure.one_colluder
        if self.entry.private and exposed is not None:
            others = {0: "no other device", 1: "one other"}.get(exposed, f"{exposed} others")
            text += f", and with one colluding device {others}"
        return text

    @property
    def sentence(self) -> str:
        """All of it, for the terminal."""
        name = f", {self.name}," if self.name else ""
        takes = self.time if self.entry.time_to_target_s.median is None else f"takes {self.time}"
        takes += f" ({self.from_zero})" if self.from_zero else ""
        gain = f", {self.gain}" if self.gain else ""
        return f"{self.who}{name} {takes}{gain}; {self.view}."


def leading_of(results: Results) -> list[Leader]:
    """Those of the four that results on one data set hold, at their headline target."""
    assert results.headline_target is not None
    schemes = results.schemes
    return leading_four(schemes, results.headline_target, *kinds(schemes)[0], results.from_zero)


def leading_four(
    schemes: Sequence[SchemeResult], target: float, sharing: str, step: str, from_zero: Sequence[SchemeResult] = ()
) -> list[Leader]:
    """Those of the four that the rows hold."""
    entries = [one for one in entries_at(schemes, target, sharing, step) if one.reason is None]
    ranked = sorted(entries, key=by_time)
    fastest = {one.scheme: one for one in reversed(ranked)}
    ours = next((one for one in ranked if one.private and one.scheme != PAPER_SCHEME), None)
    rivals = [one for one in entries if ours is not None and (one.scheme, one.solver) == (FAIR_RIVAL, ours.solver)]
    four = (
        ("Conventional FL", fastest.get(BASELINE)),
        ("The paper's scheme", fastest.get(PAPER_SCHEME)),
        ("Ours", ours),
        ("The strongest baseline", rivals[0] if rivals else None),
    )
    return [Leader(who, one, _again(one, from_zero)) for who, one in four if one is not None]

"""A study in plain words and numbers, for those who decide: what leaves a machine, who sees what, how long it takes.

Everything said here is computed: sizes from the recipe's shape, exposure from the scheme, times from the
fleet's latency model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.studies.study import NumberTarget, Study, StudyColumn
from codedfl.data.studies.sums import sum_lengths
from codedfl.data.vector_sums import n_sum_outputs
from codedfl.fleet.fleet import Fleet
from codedfl.schemes import CodedScheme, Conditions, GradientCoded, WorkShape
from codedfl.schemes.of_study import inference_scheme_of, scheme_of, sums_scheme_of
from codedfl.schemes.scheme import epoch_end_times

_DRAWS = 20


@dataclass(frozen=True)
class Section:
    """One question and its answers, a line each."""

    question: str
    answers: tuple[str, ...]


def explain(study: Study, fleet: Fleet) -> tuple[Section, ...]:
    """The study on a fleet of so many devices, question by question."""
    n_devices = fleet.n_devices
    scheme = scheme_of(study, n_devices)
    d, c = _shape(study)
    result = "coefficients with standard errors" if study.inference else "a model and its score"
    return (
        Section("What is it for?", (study.purpose or "the file does not say: ask before you approve",)),
        Section("What of a table is used?", (*map(_column, study.columns), _target(study))),
        Section("What leaves a machine?", _leaves(study, scheme, d, c, n_devices)),
        Section("Who sees what?", (*_seen(scheme, n_devices), *_directions(study, scheme, d, c, n_devices))),
        Section("How long will it take?", _duration(study, scheme, fleet, d, c)),
        Section(
            "What is agreed?",
            (
                f"no device takes part with fewer than {study.least_participants} participants, and all stages are"
                " over the same ones",
                f"protected by {scheme.label}",
                *_encoder(study),
                f"at most {study.epochs} exchanges, with at most {study.max_rows_per_device} rows on a device",
                f"{study.held_out:.0%} of each device's rows are kept out of training, for the score",
                f"the result is {result}",
                _noise(study),
                f"the study's digest is {study.digest().hex()}",
            ),
        ),
    )


def _noise(study: Study) -> str:
    if study.noise is None:
        return "no noise is added: what the total itself says about a person is not hidden"
    return f"noise is added by every machine: {study.noise.sentence()}"


def _encoder(study: Study) -> tuple[str, ...]:
    if study.encoder is None:
        return ()
    outputs = f"{study.n_features} outputs of the encoder {study.encoder}"
    return (f"rows are seen as the {outputs}, clipped at {study.encoder_bound:g}",)


def _shape(study: Study) -> tuple[int, int]:
    return study.feature_count, study.target.labels().n_outputs


def _column(one: StudyColumn) -> str:
    column = one.column
    if isinstance(column, CategoryColumn):
        gaps = "gaps are refused" if column.missing is None else f"a gap counts as {column.missing!r}"
        return f"{column.name}: one of {', '.join(column.levels)}; {gaps}"
    assert isinstance(column, NumberColumn)
    ends = "any number" if one.range is None else f"a number from {one.range[0]:g} to {one.range[1]:g}, else clipped"
    scale = "scaled by mean and deviation over all devices" if one.scale == "moments" else "scaled by that range"
    gaps = "gaps are refused" if column.missing is None else f"a gap becomes {column.missing:g}"
    return f"{column.name}: {ends}; {scale}; {gaps}"


def _target(study: Study) -> str:
    target = study.target
    if isinstance(target, NumberTarget):
        low, high = target.range
        return f"{target.name}, which is predicted: a number from {low:g} to {high:g}, else clipped"
    return f"{target.name}, which is predicted: one of {', '.join(map(str, target.classes))}"


def _leaves(study: Study, scheme: CodedScheme, d: int, c: int, n_devices: int) -> tuple[str, ...]:
    sums = "added up so that nobody sees one machine's"
    lines = []
    if study.needs_moments:
        width = study.table_columns.width
        squares = "its sum, its sum of squared deviations and how many values were clipped"
        lines.append(f"for each of {width} columns {squares}, {sums}")
    if study.needs_covariance:
        products = WorkShape(study.table_columns.width + 1, 1, np.ones(n_devices, dtype=np.int64)).bulk_numbers
        lines.append(f"once, {products} numbers under a pad (the products of the scaled columns with each other)")
    bulk = WorkShape(d, c, np.ones(n_devices, dtype=np.int64)).bulk_numbers
    lines.append(f"once, {bulk} numbers under a pad (the products of the columns with each other and with the target)")
    if not scheme.reveals_gram:
        answer = f"{d * c} numbers under a mask" if isinstance(scheme, GradientCoded) else f"{d * c} sums of pads"
        lines.append(f"in each exchange {answer}")
    if study.inference:
        wide = WorkShape(d + 1, 1, np.ones(n_devices, dtype=np.int64)).bulk_numbers
        lines.append(f"once more, for standard errors, {wide} numbers under a pad")
    if study.held_out > 0:
        lines.append(f"once, what the score is made of, counted on the rows kept out of training and {sums}")
    return (*lines, "never a row, and nothing without a pad or a mask")


def _seen(scheme: CodedScheme, n_devices: int) -> tuple[str, ...]:
    rows = scheme.privacy_rows(n_devices)
    return tuple(f"{row.party}: {row.follows}; {row.exposed} of {n_devices} devices exposed" for row in rows)


def _directions(study: Study, scheme: CodedScheme, d: int, c: int, n_devices: int) -> tuple[str, ...]:
    """How much of the total X'X the exchanges add up to: of an honest server, and of one that lies."""
    if study.needs_covariance:
        columns = "the whole covariance of the columns, which devices have to allow (allow-gram)"
        without = replace(study, features="rbf", components=None)
        return (f"server, before the training: {columns}", *_directions(without, scheme, d, c, n_devices))
    whole = "the whole total of X'X, which devices have to allow (allow-gram)"
    if scheme.reveals_gram or study.inference:
        return (f"server, after all exchanges: {whole}",)
    honest, parts = study.epochs - 1, scheme.quorum(n_devices).parts
    # One that asks different devices for different directions, as ``Agreement.directions`` counts it.
    each = [len(part.members) * honest // part.needed for part in parts]
    lying = min(each) if isinstance(scheme, GradientCoded) else max(each)
    shown = [min(d, c * count) for count in (honest, lying)]
    says = [whole if one == d else f"what the total X'X does to {one} of {d} directions" for one in shown]
    if shown[0] == shown[1]:
        return (f"server, after all exchanges: {says[0]}",)
    return (f"server, after all exchanges: {says[0]}", f"server that asks each device something else: {says[1]}")


def _duration(study: Study, scheme: CodedScheme, fleet: Fleet, d: int, c: int) -> tuple[str, ...]:
    n_devices = fleet.n_devices
    epochs = 1 if scheme.reveals_gram else study.epochs
    seconds = _seconds(study, scheme, fleet, d, c, epochs)
    sums = sums_scheme_of(study, n_devices)
    for length in sum_lengths(study):
        seconds += _seconds(study, sums, fleet, 1, n_sum_outputs(length), 1)
    if study.needs_covariance:
        width = study.table_columns.width + 1
        seconds += _seconds(study, inference_scheme_of(study, n_devices), fleet, width, 1, 1)
    if study.inference:
        seconds += _seconds(study, inference_scheme_of(study, n_devices), fleet, d + 1, 1, 1)
    return (f"about {seconds:.3g} s on the fleet {fleet.name!r} if all {epochs} exchanges are needed",)


def _seconds(study: Study, scheme: CodedScheme, fleet: Fleet, d: int, c: int, epochs: int) -> float:
    """Of one stage: the median over some draws of the fleet's latencies."""
    shape = WorkShape(d, c, np.full(fleet.n_devices, study.max_rows_per_device))
    _, ends = epoch_end_times(scheme, shape, Conditions(fleet), epochs, _DRAWS, np.random.default_rng(0))
    return float(np.median(ends[:, -1]))

"""Stages as bytes: what a server may send a device with a run, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.studies import NumberTarget, Study, StudyColumn
from codedfl.data.studies.sums import sum_lengths
from codedfl.engine.stages import Stage, stage_kinds
from codedfl.errors import MessageRefused

STUDY = Study(
    "stay",
    (StudyColumn(NumberColumn("age"), (0.0, 110.0)), StudyColumn(CategoryColumn("ward", ("a", "b")))),
    NumberTarget("days", (0.0, 60.0)),
    1000,
    300,
    4,
)

PRINCIPAL = replace(STUDY, features="pca-rbf", components=1)


def stage(kind: str, mean: int = 0, variance: int = 0, theta: int = 0, principal: int = 0) -> Stage:
    return Stage(kind, bytes(16), *(np.arange(1.0, count + 1) for count in (mean, variance, principal, theta)))


def test_the_stages_of_a_study():
    assert stage_kinds(STUDY) == ("sums", "squares", "training", "score")
    assert stage_kinds(replace(STUDY, inference=True, held_out=0.0)) == ("sums", "squares", "training", "inference")
    assert stage_kinds(replace(STUDY, features="rbf")) == ("training", "score")
    assert stage_kinds(PRINCIPAL) == ("covariance", "training", "score")
    assert sum_lengths(STUDY) == (6, 2, 5)


def test_components_come_from_the_covariance_on():
    assert Stage.decode(stage("training", principal=4).encode(), PRINCIPAL).principal.tolist() == [1, 2, 3, 4]
    with pytest.raises(MessageRefused, match=r"^a stage training must come with 4 numbers of components, got 0$"):
        Stage.decode(stage("training").encode(), PRINCIPAL)
    with pytest.raises(MessageRefused, match=r"^a stage covariance must come with 0 numbers of components, got 4$"):
        Stage.decode(stage("covariance", principal=4).encode(), PRINCIPAL)


@pytest.mark.parametrize(
    "sent", [stage("sums"), stage("squares", 2), stage("training", 2, 2), stage("score", 2, 2, 3)], ids=lambda s: s.kind
)
def test_a_stage_survives_the_way(sent: Stage):
    read = Stage.decode(sent.encode(), STUDY)
    assert (read.kind, read.series) == (sent.kind, sent.series)
    for name in ("mean", "variance", "theta"):
        assert getattr(read, name).tolist() == getattr(sent, name).tolist()
    assert read.digest(STUDY) == sent.digest(STUDY)
    assert read.digest(STUDY) != sent.digest(replace(STUDY, epochs=49))
    assert read.digest(STUDY) != replace(sent, series=b"1" * 16).digest(STUDY)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "a run must be a stage of the study on this node, got a training by itself"),
        (stage("inference", 2, 2).encode(), "a stage must be one of sums, squares, training, score, got 'inference'"),
        (
            replace(stage("sums"), series=b"1").encode(),
            "a stage must be one of sums, squares, training, score, got 'sums'",
        ),
        (stage("squares").encode(), "a stage squares must come with 2 means and 0 variances, got 0 and 0"),
        (stage("training", 2, 1).encode(), "a stage training must come with 2 means and 2 variances, got 2 and 1"),
        (
            replace(stage("squares", 2), mean=np.array([1.0, np.nan])).encode(),
            "what a stage comes with must be finite, and variances not negative: it is not",
        ),
        (
            replace(stage("training", 2, 2), variance=np.array([1.0, -1.0])).encode(),
            "what a stage comes with must be finite, and variances not negative: it is not",
        ),
    ],
)
def test_what_is_no_stage_is_refused(sent: bytes, message: str):
    with pytest.raises(MessageRefused, match=f"^{re.escape(message)}$"):
        Stage.decode(sent, STUDY)


def test_damage_anywhere_is_refused_or_another_stage():
    sent = stage("score", 2, 2, 3).encode()
    for place in range(len(sent)):
        damaged = sent[:place] + bytes([sent[place] ^ 0x55]) + sent[place + 1 :]
        try:
            read = Stage.decode(damaged, STUDY)
        except MessageRefused:
            continue
        assert read.digest(STUDY) != stage("score", 2, 2, 3).digest(STUDY)


def test_a_model_of_another_shape_is_refused():
    found = stage("score", 2, 2, 4)
    with pytest.raises(MessageRefused, match=r"^a model must have 3 x 1 numbers, got 4$"):
        found.model(found.recipe(STUDY))

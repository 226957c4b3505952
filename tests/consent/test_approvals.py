"""Consent: one record for one meaning of a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from codedfl.consent.approvals import Approval, approve, is_approved, load_approvals
from codedfl.consent.words import explain
from codedfl.data.columns import NumberColumn
from codedfl.data.studies import NumberTarget, Study, StudyColumn
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet

AGE = StudyColumn(NumberColumn("age"), (0.0, 110.0))
STUDY = Study("stay", (AGE,), NumberTarget("days", (0.0, 60.0)), 1000, 300, 4)


def test_an_approval_is_for_one_digest(tmp_path: Path):
    path = tmp_path / "private" / "approvals.toml"
    assert not is_approved(STUDY.digest(), path)
    first = approve(STUDY, path, who="Ada", when="2026-01-02T03:04:05Z")
    assert first == Approval(STUDY.digest().hex(), "stay", "Ada", "2026-01-02T03:04:05Z")
    assert is_approved(STUDY.digest(), path)
    changed = replace(STUDY, epochs=51)
    assert not is_approved(changed.digest(), path)
    approve(changed, path, who="Ada", when="later")
    assert [one.when for one in load_approvals(path)] == ["2026-01-02T03:04:05Z", "later"]
    assert approve(STUDY, path, who="Bob", when="again") == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "approvals.toml must be a file of approvals, got "),
        ('format = "y"', "approvals.toml must be a file of approvals (codedfl-approvals-1), got 'y'"),
        (
            'format = "codedfl-approvals-1"\n[[approval]]\ndigest = "a"',
            "approvals.toml must hold digest, study, who, when",
        ),
        (
            'format = "codedfl-approvals-1"\n[[approval]]\ndigest = "a"\nstudy = "s"\nwho = "w"\nwhen = "t"',
            "digest of an approval must be 64 hexadecimal digits, got 'a'",
        ),
    ],
)
def test_a_spoilt_file_approves_nothing(tmp_path: Path, text: str, message: str):
    path = tmp_path / "approvals.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as raised:
        is_approved(STUDY.digest(), path)
    assert str(raised.value).startswith(message)


def test_who_approves_must_be_said(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"^who of an approval must be text, got ' '$"):
        approve(STUDY, tmp_path / "a.toml", who=" ", when="now")


def test_plain_words():
    fleet = Fleet.load("paper").scaled_to(6)
    coded = replace(STUDY, scheme="coded-keys")
    sections = {one.question: one.answers for one in explain(coded, fleet)}
    used = sections["What of a table is used?"]
    assert used == (
        "age: a number from 0 to 110, else clipped; scaled by that range; gaps are refused",
        "days, which is predicted: a number from 0 to 60, else clipped",
    )
    # d = 2: 3 numbers of the triangle and 2 of X'Y.
    assert sections["What leaves a machine?"][1:3] == (
        "once, 5 numbers under a pad (the products of the columns with each other and with the target)",
        "in each exchange 2 numbers under a mask",
    )
    server = sections["Who sees what?"][0]
    assert server.startswith("server: ") and server.endswith("; 0 of 6 devices exposed")
    assert sections["Who sees what?"][-1].startswith("server, after all exchanges: the whole total of X'X")
    few = {one.question: one.answers for one in explain(replace(coded, epochs=2), fleet)}
    assert few["Who sees what?"][-2:] == (
        "server, after all exchanges: what the total X'X does to 1 of 2 directions",
        "server that asks each device something else: the whole total of X'X, which devices have to allow (allow-gram)",
    )
    uncoded = {one.question: one.answers for one in explain(replace(coded, epochs=2, alpha=1), fleet)}
    assert uncoded["Who sees what?"][-1] == "server, after all exchanges: what the total X'X does to 1 of 2 directions"
    assert "protected by coded-keys, α = 1" in uncoded["What is agreed?"]
    assert f"the study's digest is {coded.digest().hex()}" in sections["What is agreed?"]
    gram = {one.question: one.answers for one in explain(replace(STUDY, scheme="one-shot"), fleet)}
    assert len(gram["What leaves a machine?"]) == 4
    by_default = {one.question: one.answers for one in explain(STUDY, fleet)}
    assert "protected by role-keys, z = 1" in by_default["What is agreed?"]
    spread = {
        one.question: one.answers
        for one in explain(replace(STUDY, features="pca-rbf", components=1, n_features=500), fleet)
    }
    assert any(
        "the products of the scaled columns with each other" in line for line in spread["What leaves a machine?"]
    )
    assert (
        "server, before the training: the whole covariance of the columns, which devices have to allow (allow-gram)"
        in spread["Who sees what?"]
    )
    roles = replace(STUDY, colluders=2, holders=3)
    told = {one.question: one.answers for one in explain(roles, fleet)}
    assert "in each exchange 2 sums of pads" in told["What leaves a machine?"]
    assert "protected by role-keys, z = 2, 3 holders" in told["What is agreed?"]
    assert any(line.startswith("server and any 2 device(s): ") for line in told["Who sees what?"])
    with pytest.raises(InvalidInput, match=r"^colluders must be left out with the scheme coded-keys, got 2$"):
        explain(replace(coded, colluders=2), fleet)

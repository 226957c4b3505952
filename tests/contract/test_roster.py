"""Rosters: pods of z + 2 owners, one digest for one meaning, files that are read or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.contract.roster import Member, Roster, load_roster, save_roster
from codedfl.errors import InvalidInput


def keys(*names: str) -> dict[str, bytes]:
    return {name: name.encode().rjust(32, b"\0") for name in names}


def clinics(count: int, first: int = 0) -> dict[str, bytes]:
    return keys(*(f"clinic-{i:03}" for i in range(first, first + count)))


@given(st.integers(0, 60), st.integers(0, 4))
def test_pods_are_as_many_as_there_can_be_and_even(count: int, colluders: int):
    if count < colluders + 2:
        with pytest.raises(
            InvalidInput, match=rf"^owners must be at least colluders \+ 2 \({colluders + 2}\), got {count}$"
        ):
            Roster.draft(clinics(count), colluders)
        return
    roster = Roster.draft(clinics(count), colluders)
    sizes = [len(pod) for pod in roster.pods]
    assert len(sizes) == count // (colluders + 2)
    assert max(sizes) - min(sizes) <= 1 and sum(sizes) == count
    roster.check(colluders)
    assert [name for pod in roster.pods for name in sorted(pod)] == sorted(clinics(count)), "in the order of names"


def test_helpers_do_not_count():
    roster = Roster.draft({**clinics(3), **keys("helper")}, 1, helpers=["helper"])
    assert (roster.helpers, len(roster.owners), roster.pod_of("helper")) == (("helper",), 3, frozenset())
    assert repr(roster) == "<Roster of 3 owners in 1 groups, 1 with keys only>"
    with pytest.raises(InvalidInput, match=r"^owners must be at least"):
        Roster.draft(clinics(3), 1, helpers=["clinic-000"])
    with pytest.raises(InvalidInput, match=r"^helpers must be among the devices, got 'x'$"):
        Roster.draft(clinics(3), 1, helpers=["x"])
    moved = Roster(tuple(replace(one, pod=int(one.name == "clinic-000")) for one in roster.members))
    with pytest.raises(InvalidInput, match=r"^each pod must have at least colluders \+ 2 \(3\) owners, got 2 in pod 0"):
        moved.check(1)


def test_the_digest_is_that_of_the_meaning(tmp_path: Path):
    roster = Roster.draft({**clinics(7), **keys("helper")}, 1, helpers=["helper"])
    save_roster(roster, tmp_path / "roster.toml")
    assert load_roster(str(tmp_path / "roster.toml")) == roster
    assert Roster(roster.members[::-1]).digest() == roster.digest()
    first, *rest = roster.members
    others = [
        replace(first, name="x"),
        replace(first, key=bytes(32)),
        replace(first, pod=1),
        replace(first, helper=True),
    ]
    assert len({Roster((one, *rest)).digest() for one in (first, *others)}) == 5


def test_renewed_keys_and_newcomers():
    roster = Roster.draft(clinics(6), 1)
    renewed = roster.renewed("clinic-001", bytes(32))
    assert renewed.pods == roster.pods and renewed.keys["clinic-001"] == bytes(32)
    more = roster.with_newcomers(clinics(7, first=10), 1)
    assert more.pods[:2] == roster.pods and [len(pod) for pod in more.pods] == [3, 3, 4, 3]
    for change in (lambda: roster.with_newcomers(clinics(2, first=10), 1), lambda: roster.renewed("x", bytes(32))):
        with pytest.raises(InvalidInput):
            change()
    with pytest.raises(InvalidInput, match=r"^each name must be on the roster once, got 'clinic-000' twice$"):
        roster.with_newcomers(clinics(3), 1)


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "é" * 33, "\u202eabc", " a", "Klinik Süd", "a/b", "a+b", ".a"])
def test_names_that_cannot_be_shown_are_refused(name: str):
    with pytest.raises(
        InvalidInput, match=r"^a name on the roster must (have 1 to 64 bytes|be printable, without spaces)"
    ):
        Member(name, bytes(32), 0)


DEVICE = f'[[device]]\nname = "a"\nkey = "{"ab" * 32}"\npod = 0\n'


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "",
        'format = "codedfl-roster-2"\n' + DEVICE,
        'format = "codedfl-roster-1"\nmore = 1\n' + DEVICE,
        'format = "codedfl-roster-1"\ndevice = 3',
        'format = "codedfl-roster-1"\n' + DEVICE.replace("pod = 0", "pod = true"),
        'format = "codedfl-roster-1"\n' + DEVICE.replace("pod = 0", "pod = -1"),
        'format = "codedfl-roster-1"\n' + DEVICE.replace("ab", "xy"),
        'format = "codedfl-roster-1"\n' + DEVICE + "extra = 1\n",
        'format = "codedfl-roster-1"\n' + DEVICE + DEVICE,
    ],
)
def test_a_spoilt_file_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "roster.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as raised:
        load_roster(path)
    assert "\n" not in str(raised.value)

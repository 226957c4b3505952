"""The command said "computed, not from prose", and role-keys' rows were literals: "all devices but one" and "two
runs that differ by one" were missing, and role-sums copied role-keys and did not mention X'X."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from codedfl_lab.privacy.rows import PrivacyRow, privacy_rows
from codedfl_lab.privacy.views import THE_SERVER, Seen, Views, unit_forms
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.registry import SCHEMES, make_scheme
from codedfl_lab.schemes.role_keys import RoleKeys, RoleSums

Run = Callable[..., Result]
PARTIES = [
    "server",
    "one device",
    "all devices but one, without the server",
    "server, after two runs that differ by one device",
    "server and one device",
    "server and two devices (worst pair)",
]
PRODUCTS, SUMS = "the total of X'Y and X'X e, for each e", "the total of X'X and X'Y"


def rows_of(scheme: Scheme, n_devices: int) -> dict[str, PrivacyRow]:
    return {row.party: row for row in scheme.privacy_rows(n_devices)}


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_has_every_row(name: str) -> None:
    rows = make_scheme(name, 7).privacy_rows(7)
    assert [row.party for row in rows][:6] == PARTIES
    assert all(row.gram_functionals is not None for row in rows)


@pytest.mark.parametrize("scheme", [RoleKeys(1), CodedKeys(5), CodedPadded(5)], ids=lambda one: one.name)
def test_what_follows_of_products(scheme: Scheme) -> None:
    rows = rows_of(scheme, 7)
    assert rows["server"].follows == rows["one device"].follows == PRODUCTS
    assert rows["server"].gram_functionals == 0, "X'X itself is shown to nobody"
    assert rows[PARTIES[2]].exposed == rows[PARTIES[3]].exposed == 1


@pytest.mark.parametrize("scheme", [RoleSums(1), OneShot(5)], ids=lambda one: one.name)
def test_what_follows_where_the_total_of_the_gram_matrix_is_shown(scheme: Scheme) -> None:
    rows = rows_of(scheme, 7)
    assert rows["server"].follows == SUMS and rows["server"].gram_functionals == 1
    assert rows[PARTIES[2]].exposed == 0, "devices see no e: nothing until the model is published"
    assert rows[PARTIES[3]].exposed == 1 and rows[PARTIES[3]].follows.startswith("X'X and X'Y of one single device")


@pytest.mark.parametrize(("n", "z"), [(6, 0), (6, 1), (7, 2), (8, 3)])
def test_role_keys_bear_z_colluders_and_no_more(n: int, z: int) -> None:
    rows = [row for row in RoleKeys(z).privacy_rows(n) if row.party.startswith("server and")]
    exposed = {int({"one": 1, "two": 2}.get(row.party.split()[2], row.party.split()[2])): row.exposed for row in rows}
    assert {count: found for count, found in exposed.items() if found} == {
        count: n - count for count in exposed if count > z
    }
    assert max(exposed) == max(2, z + 1)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("n", [3, 5, 8])
def test_the_worst_found_is_the_worst_there_is_and_what_plans_say(name: str, n: int) -> None:
    """Over all sets of one and two, by the algebra; ``Scheme.exposure``, which plans use, says the same."""
    scheme = make_scheme(name, n)
    views = scheme.views(n)
    found = {row.party: row.exposed for row in privacy_rows(views)}
    said = scheme.exposure(n)
    for count, party, planned in ((1, PARTIES[4], said.one_colluder), (2, PARTIES[5], said.two_colluders)):
        sets = itertools.combinations(range(n), count)
        worst = max(len(views.exposed([THE_SERVER, *chosen]) - set(chosen)) for chosen in sets)
        assert found.get(party, worst) == worst == planned, party
    assert found["server"] == said.server_alone


def mutated(views: Views, *, server: Sequence[Seen] = (), everybody_more: Sequence[Seen] = ()) -> list[PrivacyRow]:
    return privacy_rows(
        replace(views, server=[*views.server, *server], devices=[[*one, *everybody_more] for one in views.devices])
    )


def test_a_changed_scheme_has_another_row() -> None:
    """No row is a literal: a seed too many in some hands, a number too many on the wire, and the table says so."""
    views = RoleKeys(1).views(6)
    columns, n = views.server[0].forms.shape[1], 6
    seed = Seen("a seed of role 1 of device 3", unit_forms(columns, [n * 2 + 3]))
    honest = {row.party: row.exposed for row in privacy_rows(views)}
    assert honest[PARTIES[4]] == 0
    with_seed = {row.party: row.exposed for row in mutated(views, everybody_more=[seed])}
    assert with_seed[PARTIES[4]] == 1, "a device of role 0 has both seeds of device 3"
    unpadded = Seen("device 2 in the clear", unit_forms(columns, [2]))
    alone = mutated(views, server=[unpadded])[0]
    assert alone.exposed == 1 and "X'X and X'Y of one single device" in alone.follows
    half = Seen("the sum of the first three", unit_forms(columns, [0, 1, 2]).sum(axis=0, keepdims=True))
    assert mutated(views, server=[half])[0].follows == "2 combinations of X'Y and X'X e, for each e"


def test_a_scheme_that_shows_its_sums_says_so() -> None:
    """The same machines, but the first answer carries X'X: the row of the server is another one."""
    views = RoleKeys(1).views(6)
    whole = replace(views, server=[replace(one, whole=True) for one in views.server])
    assert privacy_rows(views)[0].follows == PRODUCTS
    assert privacy_rows(whole)[0].follows == SUMS


def test_masks_are_what_leaves_the_total_only() -> None:
    views = CodedKeys(3).views(6)
    columns = views.server[0].forms.shape[1]
    masks = Seen("all mask seeds", unit_forms(columns, range(12, 18)))
    assert np.array_equal(views.known([THE_SERVER]), np.ones((1, 6)))
    assert mutated(views, server=[masks])[0].follows.startswith("4 combinations of")


def test_the_command_prints_and_writes_them(run: Run, tmp_path: Path) -> None:
    said = run("lab", "privacy", "role-sums", "--devices", "6", "--json", "rows.json")
    assert said.exit_code == 0 and "X'X" in said.output
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["party"] for row in rows] == PARTIES
    assert rows[0]["gram_functionals"] == 1

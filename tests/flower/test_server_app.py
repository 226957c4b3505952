"""The server app's entry: what it is told, what it keeps to itself and what it leaves behind."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from app_nodes import DEVICES, Machines
from experiments.federation import APP

from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.flower.server import KEYS, serve
from codedfl.private_files import make_private_folder, sole_user
from wording import exactly


class EmptyGrid:
    """A grid without nodes."""

    def get_node_ids(self) -> list[int]:
        return []


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(tmp_path_factory.mktemp("machines"))


def test_the_app_names_every_key_that_is_read():
    """Flower refuses to override what the app does not name; the server refuses what nobody reads."""
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert tuple(config) == KEYS


def test_a_key_that_nobody_reads_is_refused(machines: Machines):
    message = (
        "the run configuration must hold only study-file, roster, output-dir, server-key-file, patience-file,"
        " got 'epochs'"
    )
    with pytest.raises(InvalidInput, match=exactly(message)):
        serve(EmptyGrid(), {**machines.config(), "epochs": 7})  # type: ignore[arg-type]


def test_two_server_apps_cannot_have_the_same_output_folder(machines: Machines, tmp_path: Path):
    folder = make_private_folder(tmp_path / "run")
    message = f"output-dir must not be in use by another process, got {str(folder)!r}"
    config = machines.config() | {"output-dir": str(folder)}
    with sole_user(folder, "output-dir"), pytest.raises(InvalidInput, match=exactly(message)):
        serve(EmptyGrid(), config)  # type: ignore[arg-type]
    with sole_user(folder, "output-dir"):
        assert list(folder.iterdir()) == []


def test_a_server_with_another_key_than_the_study_names_is_refused(machines: Machines, tmp_path: Path):
    config = machines.config() | {"server-key-file": str(tmp_path / "keys" / "another.key")}
    with pytest.raises(InvalidInput, match=r"^server_key of the study must be this server's, "):
        serve(EmptyGrid(), config)  # type: ignore[arg-type]
    assert (tmp_path / "keys" / "another.key").stat().st_mode & 0o777 == 0o600


def test_without_nodes_it_ends_and_says_who_is_absent(machines: Machines):
    names = ", ".join(machines.made.names)
    message = (
        "at least 5 owners in whole disclosure groups must take part (least_participants of the study file), got 0;"
        f" absent (start codedfl site join there, or the SuperNode): {names}."
        " Start the same command again when that is mended: it continues where it was"
    )
    assert len(machines.made.names) == DEVICES
    with pytest.raises(NotEnoughDevices, match=exactly(message)):
        serve(EmptyGrid(), machines.config(join=0.0))  # type: ignore[arg-type]

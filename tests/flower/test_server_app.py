"""The server app's entry: what it keeps to itself and what it leaves behind."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from experiments.federation import app_config

from codedfl.engine.keys import load_identity
from codedfl.engine.private_files import make_private_folder, sole_user
from codedfl.engine.run_config import RunConfig
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.flower.server import train
from wording import exactly


def config_in(folder: Path, **changes: Any) -> RunConfig:
    return RunConfig.from_config(app_config(output_dir=str(folder), **changes))


def test_two_server_apps_cannot_have_the_same_output_folder(tmp_path: Path):
    folder = make_private_folder(tmp_path / "run")
    message = f"output-dir must not be in use by another process, got {str(folder)!r}"
    with sole_user(folder, "output-dir"), pytest.raises(InvalidInput, match=exactly(message)):
        train(None, config_in(folder))
    with sole_user(folder, "output-dir"):
        assert list(folder.iterdir()) == []


class EmptyGrid:
    """A grid without nodes."""

    def get_node_ids(self) -> list[int]:
        return []


def test_the_server_key_is_not_made_anew_with_another_output_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    key = tmp_path / "state" / "codedfl" / "server.key"
    for name in ("first", "second"):
        config = config_in(tmp_path / name, server_key_file=str(key), join_seconds=0.0)
        with pytest.raises(NotEnoughDevices, match=r"got 0 \(none\)$"):
            train(EmptyGrid(), config)  # type: ignore[arg-type]
    expected = f"the server's public key is {load_identity(key).public.hex()}"
    assert [text for _, _, text in caplog.record_tuples].count(expected) == 2
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    make_private_folder(key.parent.parent)  # folders made on the way are closed, too

"""What ``codedfl join`` and ``serve`` say before they reach a broker: one line, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import Run

from codedfl.engine.private_files import make_private_folder, sole_user

pytestmark = pytest.mark.usefixtures("study")

TABLE = "age,days\n" + "".join(f"{20 + row},{row % 7}.5\n" for row in range(40))
BROKER = ("--broker", "mqtt://127.0.0.1:1")


@pytest.fixture
def study(run: Run) -> None:
    Path("mine.csv").write_text(TABLE)
    assert run("study", "new", "mine.csv", "--target", "days", "--task", "regression").exit_code == 0
    assert run("study", "approve", "study.toml", "--who", "A. Lovelace").exit_code == 0


def test_a_table_without_rows(run: Run):
    Path("none.csv").write_text("age,days\n")
    result = run("join", "study.toml", *BROKER, "--table", "none.csv", "--name", "clinic", "--state", "state")
    assert (result.exit_code, result.stderr) == (2, "error: none.csv must have at least one row, got none\n")
    assert run("study", "check", "study.toml", "none.csv").exit_code == 2


def test_a_state_folder_that_cannot_be_made(run: Run):
    result = run("join", "study.toml", *BROKER, "--table", "mine.csv", "--name", "clinic", "--state", "mine.csv")
    message = (
        "error: the disk must be writable and have room, got [Errno 17] File exists: 'mine.csv'; started again, it"
        " goes on where it was\n"
    )
    assert (result.exit_code, result.stderr) == (2, message)


def test_a_folder_that_another_server_uses_is_refused_before_the_broker_is_asked(run: Run):
    with sole_user(make_private_folder(Path("out").absolute()), "it"):
        result = run("serve", "study.toml", *BROKER, "--out", "out")
    message = "error: output-dir must not be in use by another process, got 'out'\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_an_output_folder_that_cannot_be_made(run: Run):
    result = run("serve", "study.toml", *BROKER, "--out", "mine.csv")
    message = (
        "error: the disk must be writable and have room, got [Errno 17] File exists: 'mine.csv'; started again with"
        " the same --out, it goes on where it was\n"
    )
    assert (result.exit_code, result.stderr) == (2, message)


def test_a_run_that_is_over_is_not_begun_anew(run: Run):
    """As when a machine starts its services after a restart: no broker is asked, and the model stays."""
    Path("done").mkdir()
    model = Path("done/model.safetensors")
    model.write_bytes(b"the model")
    result = run("serve", "study.toml", *BROKER, "--out", "done")
    message = "the run in done is over: another --out begins a new one\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "done/model.safetensors\n", message)
    assert [path.name for path in Path("done").iterdir()] == ["model.safetensors"]
    assert model.read_bytes() == b"the model"


def test_a_run_whose_model_so_far_is_there_goes_on(run: Run):
    checkpoint = Path("half/checkpoint-training")
    checkpoint.mkdir(parents=True)
    Path("half").chmod(0o700)
    Path("half/model.safetensors").write_bytes(b"the model so far")
    (checkpoint / "index.msgpack").write_bytes(b"")
    result = run("serve", "study.toml", *BROKER, "--out", "half")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the broker must be reachable at mqtt://127.0.0.1:1")

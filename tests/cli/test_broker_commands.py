"""What ``codedfl site join`` and ``serve`` say before they reach a broker: one line, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_runner import Run
from kit_files import enrol, kit_of, server_key

from codedfl.contract.names import SERVER_NAME
from codedfl.errors import InvalidInput
from codedfl.private_files import make_private_folder, sole_user

pytestmark = pytest.mark.usefixtures("study")

TABLE = "age,days\n" + "".join(f"{20 + row},{row % 7}.5\n" for row in range(40))
NAMES = ("clinic-0", "clinic-1", "clinic-2")
JOIN = ("site", "join", "clinic-1.kit")
SERVE = ("server", "run", "codedfl-server.kit", "--state", "state")


@pytest.fixture
def study(run: Run) -> None:
    """Of three clinics, whose keys and server are in the study."""
    Path("mine.csv").write_text(TABLE)
    assert run("roster", "new", *enrol(*NAMES)).exit_code == 0
    drafted = run("study", "new", "mine.csv", "--target", "days", "--task", "regression", "--participants", "3")
    assert drafted.exit_code == 0
    lines = run("roster", "show", "roster.toml").stdout.splitlines()
    roster = next(line for line in lines if line.startswith("roster = "))
    text = Path("study.toml").read_text()
    text = text.replace("held_out = 0.2", "held_out = 0.0")  # which rows are held out, a device draws
    text = re.sub("(?m)^# roster = .*", roster, text)
    Path("study.toml").write_text(re.sub("(?m)^# server_key = .*", server_key(), text))
    for name in ("clinic-1", SERVER_NAME):
        kit_of(name)


def approve(run: Run, name: str = "clinic-1") -> None:
    options = ("--table", "mine.csv", "--who", "A. Lovelace", "--state", "state")
    assert run("site", "approve", kit_of(name), *options).exit_code == 0


def test_a_study_that_was_not_approved(run: Run):
    result = run(*JOIN, "--state", "state")
    assert result.exit_code == 2
    assert re.fullmatch(
        r"error: the study 'days' must be approved on this device, got no approval of [0-9a-f]{16}:"
        r" codedfl site approve records one\n",
        result.stderr,
    )


def test_an_approved_study_only_lacks_its_broker(run: Run):
    approve(run)
    result = run(*JOIN, "--state", "state")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the broker must be reachable at mqtt://127.0.0.1:1")


def test_a_device_with_another_key_than_the_rosters(run: Run):
    enrol("clinic-1", state="elsewhere")
    result = run(*JOIN, "--state", "elsewhere")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: 'clinic-1' must be on the roster with this device's key ")
    assert result.stderr.endswith("codedfl roster renew names the new one\n")


def test_a_kit_whose_roster_is_not_the_studys(run: Run):
    """As one that was put together by hand, with a fingerprint that fits."""
    assert run("roster", "add", "roster.toml", *enrol("new-0", "new-1", "new-2")).exit_code == 0
    with pytest.raises(InvalidInput, match=r"^the roster must be the one that the study names, "):
        kit_of("clinic-1")


def test_a_server_with_another_key_than_the_studys(run: Run):
    result = run(*SERVE[:3], "--state", "elsewhere", "--out", "out")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: server_key of the study must be this server's, ")


def test_a_state_folder_that_is_none(run: Run):
    result = run(*JOIN, "--state", "mine.csv")
    message = (
        "error: the kit must be of a device that enrolled on this machine (none), got one of 'clinic-1': --state names"
        " the folder\n"
    )
    assert (result.exit_code, result.stderr) == (2, message)


def test_a_folder_that_another_server_uses_is_refused_before_the_broker_is_asked(run: Run):
    with sole_user(make_private_folder(Path("out").absolute()), "it"):
        result = run(*SERVE, "--out", "out")
    message = "error: output-dir must not be in use by another process, got 'out'\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_an_output_folder_that_cannot_be_made(run: Run):
    result = run(*SERVE, "--out", "mine.csv")
    message = (
        "error: the disk must be writable and have room, got [Errno 17] File exists: 'mine.csv'; started again with"
        " the same --out, it continues where it was\n"
    )
    assert (result.exit_code, result.stderr) == (2, message)


def test_a_patience_with_a_key_that_nobody_reads(run: Run):
    Path("patience.toml").write_text("join-second = 3.0\n")
    result = run(*SERVE, "--out", "out", "--patience", "patience.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the patience must be a TOML file of join, upload, reply, retry, ")
    assert result.stderr.endswith("got 'patience.toml' (unknown: join-second)\n")


def test_a_study_that_is_over_is_not_begun_anew(run: Run):
    """As when a machine starts its services after a restart: no broker is asked, and the result stays."""
    Path("done").mkdir()
    kept = Path("done/result.json")
    kept.write_bytes(b"the result")
    result = run(*SERVE, "--out", "done")
    message = "the study in done is over: another --out begins a new run\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "done/result.json\n", message)
    assert [path.name for path in Path("done").iterdir()] == ["result.json"]
    assert kept.read_bytes() == b"the result"


def test_a_study_whose_replies_are_there_goes_on(run: Run):
    Path("half").mkdir(mode=0o700)
    Path("half/replies.sqlite").touch(mode=0o600)
    result = run(*SERVE, "--out", "half")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the broker must be reachable at mqtt://127.0.0.1:1")


def test_a_run_that_0_3_began_is_finished_with_0_3(run: Run):
    Path("half/checkpoint-gram").mkdir(parents=True)
    result = run(*SERVE, "--out", "half")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --out (output-dir on Flower) must not hold a run that codedfl 0.3 began, got 'half': finish it with"
        " that version, or choose another\n"
    )

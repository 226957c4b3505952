"""``codedfl roster``: who takes part, under which keys, and in which disclosure groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from codedfl.cli import options
from codedfl.cli.output_files import check_writable
from codedfl.cli.screen import Screen, table
from codedfl.contract.enrolment import enrolments, load_enrolment
from codedfl.contract.names import SERVER_NAME
from codedfl.contract.roster import Roster, load_roster, save_roster
from codedfl.crypto.sealed import fingerprint
from codedfl.errors import InvalidInput

Requests = Annotated[
    list[Path], typer.Argument(metavar="REQUEST...", help="What codedfl site enrol wrote, or folders of such files.")
]
RosterFile = Annotated[Path, typer.Argument(metavar="ROSTER", help="A roster (TOML).")]
Colluders = Annotated[int, typer.Option(min=0, help="z: a disclosure group has at least z + 2 owners of rows.")]
Out = Annotated[Path, typer.Option(metavar="FILE", help="Where the roster goes.")]
NewOut = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where the roster goes.", show_default="the same file")
]


def new(
    requests: Requests,
    colluders: Colluders = 1,
    helper: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A key-only participant: a device without rows.")
    ] = None,
    out: Out = Path("roster.toml"),
) -> None:
    """Divide devices into disclosure groups, as many as there can be.

    A device's rows stay in its group as long as the roster lives.

    Example: `codedfl roster new requests --out roster.toml`
    """
    if out.exists():
        raise InvalidInput(f"--out must be a new file, got {str(out)!r}, which exists")
    _write(Roster.draft(_keys(requests), colluders, helper or ()), out)


def add(roster: RosterFile, requests: Requests, colluders: Colluders = 1, out: NewOut = None) -> None:
    """Add newcomers, who form disclosure groups of their own.

    Example: `codedfl roster add roster.toml new-requests`
    """
    _write(load_roster(roster).with_newcomers(_keys(requests), colluders), out or roster)


def renew(
    roster: RosterFile,
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="What codedfl site enrol wrote there.")],
    out: NewOut = None,
) -> None:
    """Give a device a new key; its name and disclosure group stay.

    Example: `codedfl roster renew roster.toml site-1.request`
    """
    found = load_enrolment(request)
    _write(load_roster(roster).renewed(found.name, found.key), out or roster)


def show(roster: RosterFile, json: options.Json = None) -> None:
    """Show disclosure groups and keys, and the digest that a study names.

    Example: `codedfl roster show roster.toml`
    """
    screen = Screen(json)
    found = load_roster(roster)
    shown = table("device", "group", "key", left=3)
    for one in found.members:
        shown.add_row(Text(one.name), "keys only" if one.helper else str(one.pod), fingerprint(one.key))
    screen.show(shown)
    screen.say(f'roster = "{found.digest().hex()}"')
    pods = [sorted(pod) for pod in found.pods]
    screen.write_json({"command": "roster show", "digest": found.digest().hex(), "pods": pods})


def _write(roster: Roster, out: Path) -> None:
    check_writable("--out", out)
    save_roster(roster, out)
    screen = Screen()
    groups, only = len(roster.pods), len(roster.helpers)
    keys = f", {only} key-only participant{'s' * (only != 1)}" if only else ""
    screen.say(f"wrote {out}: {len(roster.owners)} owners in {groups} disclosure group{'s' * (groups != 1)}{keys}")
    screen.say("a study names it by")
    screen.say(f'roster = "{roster.digest().hex()}"')
    screen.sentence(absence(roster))


def absence(roster: Roster) -> str:
    """What a study has to say for anybody to be absent."""
    left, _ = roster.without_one()
    if not left:
        return "sums are over whole disclosure groups and there is one: nobody may be absent when a study begins"
    return (
        "sums are over whole disclosure groups: for any one device to be absent, least_participants of the study must"
        f" be at most {left}"
    )


def _keys(requests: list[Path]) -> dict[str, bytes]:
    """By name, of requests and of folders of them; the server has no place on a roster."""
    return {name: one.key for name, one in enrolments(requests).items() if name != SERVER_NAME}

"""``codedfl roster change``, ``codedfl site sign-roster``: other disclosure groups, signed by all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli.broker_options import State
from codedfl.cli.output_files import check_writable
from codedfl.cli.roster import RosterFile
from codedfl.cli.screen import Screen
from codedfl.contract.names import checked_name
from codedfl.contract.roster import load_roster
from codedfl.contract.roster_change import ENDING, RosterChange, computable, load_change, save_change
from codedfl.contract.words import printable
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.errors import InvalidInput
from codedfl.private_files import default_state_dir

ChangeFile = Annotated[Path, typer.Argument(metavar="CHANGE", help="What codedfl roster change wrote.")]


def change(
    roster: RosterFile,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The roster with the other groups (TOML).")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the change goes.")] = Path(f"change{ENDING}"),
) -> None:
    """Draft a change of disclosure groups, which all owners of the groups that it touches sign.

    It says what becomes computable: sums over both rosters can be subtracted.

    Example: `codedfl roster change roster.toml new-roster.toml --out change.codedfl`
    """
    if out.exists():
        raise InvalidInput(f"--out must be a new file, got {str(out)!r}, which exists")
    check_writable("--out", out)
    made, screen = RosterChange(load_roster(roster), load_roster(new)), Screen()
    save_change(made, out)
    _show(screen, made)
    screen.say(f"wrote {out}")


def signatures(
    copies: Annotated[list[Path], typer.Argument(metavar="CHANGE...", help="Copies of one change, signed.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where all signatures go.", show_default="nowhere")
    ] = None,
) -> None:
    """Put the signatures of several copies of a change together, and say whose are missing.

    Example: `codedfl roster signatures from-clinic-1.codedfl from-clinic-2.codedfl --out change.codedfl`
    """
    first, *others = map(load_change, copies)
    for one in others:
        first = first.with_signatures(one)
    if out is not None:
        check_writable("--out", out)
        save_change(first, out)
    _show(Screen(), first)


def sign_roster(
    change: ChangeFile,
    name: Annotated[str, typer.Option(metavar="NAME", help="This device's name, as on the roster.")],
    state: State = None,
    yes: Annotated[bool, typer.Option("--yes", help="Sign without asking at the terminal.")] = False,
) -> None:
    """Sign a change of disclosure groups with this device's key, after reading what becomes computable.

    The signature is added to the file, which goes to the next owner, or back to the coordinator.

    Example: `codedfl site sign-roster change.codedfl --name site-1`
    """
    found, screen = load_change(change), Screen()
    folder = (state or default_state_dir()) / checked_name(name, "the device's name")
    made = found.signed(load_identity(folder / DEVICE_KEY))
    _show(screen, found)
    if not yes and sys.stdin.isatty():
        typer.confirm("Sign this change with this device's key?", abort=True)
    save_change(made, change)
    screen.sentence(f"signed by {printable(name)}; still missing: {_names(made.missing)}")


def _show(screen: Screen, change: RosterChange) -> None:
    screen.say(f"from the roster {change.old.digest().hex()[:32]} to {change.new.digest().hex()[:32]}")
    screen.say(f"it touches {_names(sorted(set(change.touched.values())))}")
    screen.say("no sum tells these owners apart, of those that are in either roster:")
    groups = {*change.old.pods, *change.new.pods}
    for owners, alone in computable((change.old, change.new)):
        own = "; a disclosure group" if owners in groups else "; THEIR OWN SUM CAN BE COMPUTED by subtracting" * alone
        screen.item(f"{_names(sorted(owners))}{own}")
    screen.sentence(f"not signed by: {_names(change.missing)}")


def _names(names: list[str] | tuple[str, ...]) -> str:
    return printable(", ".join(names)) or "nobody"

"""``codedfl site approve``: what this site agrees to take part in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codedfl.cli import options
from codedfl.cli.broker_options import State
from codedfl.cli.screen import Screen
from codedfl.cli.sections import show_sections
from codedfl.contract.kit import load_kit
from codedfl.errors import InvalidInput
from codedfl.on_demand import loading
from codedfl.private_files import default_state_dir

if TYPE_CHECKING:
    from codedfl.contract.findings import DisclosureFinding
    from codedfl.contract.roster_change import RosterChange


def approve_study(
    kit: options.KitFile,
    who: Annotated[str, typer.Option(metavar="NAME", help="Who approves it.")],
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="This device's rows, which are frozen.",
            show_default="none, for a key-only participant",
        ),
    ] = None,
    state: State = None,
    policy: Annotated[Path | None, typer.Option(metavar="FILE", help="What this device allows (TOML).")] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND=WHY", help="Accept findings of this kind, on record.", show_default="none"),
    ] = None,
    roster_change: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A change of groups that all have signed.", show_default="none"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show and judge only: nothing is recorded.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Record without asking at the terminal.")] = False,
) -> None:
    """Read what a study means on this device's rows, and record that it may take part in exactly it.

    The rows are frozen: later runs read what was approved, and nothing else. First it says the kit's fingerprint: the
    coordinator and every other site must have the same.

    Example: `codedfl site approve hospital-3.kit --table my.csv --who "Dr. Example"`
    """
    screen, found, states = Screen(), load_kit(kit), state or default_state_dir()
    with loading():  # what judges it, once there is something to judge
        from codedfl.contract.approval import Deciding, approve
        from codedfl.contract.device_folder import DeviceFolder
        from codedfl.contract.policy import Policy, load_policy
        from codedfl.contract.words import printable
        from codedfl.crypto.key_files import DEVICE_KEY, load_identity
        from codedfl.data.tables import read_file
        from codedfl.device.membership import checked_owner
        from codedfl.statistics.statistic import words_of

    name, loaded = checked_owner(found, states), found.study
    screen.say(f"fingerprint of the kit: {found.fingerprint}")
    with screen.busy("reading"):
        rows = None if table is None else read_file(table, empty=True)
    approval = approve(
        loaded,
        found.roster,
        name,
        load_identity(states / name / DEVICE_KEY).public,
        rows,
        DeviceFolder.of(states, name),
        Deciding(
            who,
            datetime.now(UTC).isoformat(timespec="seconds"),
            load_policy(policy) if policy else Policy(),
            accepted_kinds(accept or ()),
            _nobody if dry_run or yes or not sys.stdin.isatty() else _why,
            _changes(roster_change or ()),
        ),
        show=lambda sections: show_sections(screen, sections),
        words=words_of(loaded),
        dry_run=dry_run,
        confirm=lambda: None if yes else _confirm(),
    )
    said = f"{approval.name} ({approval.digest.hex()[:16]}...) is approved by {approval.who} since {approval.when}"
    screen.say()
    if dry_run:
        screen.sentence(_dry(sorted({kind for kind, _, _, why in approval.accepted if not why})))
        return
    screen.sentence(f"{printable(said)}, with {approval.rows} rows, {approval.held_out} of them held out")


def accepted_kinds(given: Sequence[str]) -> dict[str, str]:
    """From KIND=WHY, for each kind why it is accepted.

    Examples
    --------
    >>> from codedfl.cli.approve import accepted_kinds
    >>> accepted_kinds(["rows=they gave their consent"])
    {'rows': 'they gave their consent'}
    """
    from codedfl.contract.findings import KINDS

    found = {}
    for one in given:
        kind, _, why = one.partition("=")
        if kind not in KINDS or not why.strip():
            raise InvalidInput(f"--accept must be KIND=WHY with a kind of {', '.join(KINDS)}, got {one!r:.80}")
        found[kind] = why.strip()
    return found


def _dry(left: Sequence[str]) -> str:
    """What a dry run ends with; left: kinds of findings that nobody has accepted."""
    if left:
        how = " ".join(f"--accept {kind}='why'" for kind in left)
        return f"nothing was recorded: before it can be, somebody has to accept what was found ({how})"
    return "nothing speaks against this study, and nothing was recorded: approve it without --dry-run"


def _changes(paths: Sequence[Path]) -> tuple[RosterChange, ...]:
    if not paths:
        return ()
    from codedfl.contract.roster_change import load_change  # groups hardly ever change

    return tuple(map(load_change, paths))


def _nobody(_finding: DisclosureFinding) -> str:
    return ""


def _why(finding: DisclosureFinding) -> str:
    """At a terminal a finding is asked about, and the reason is recorded."""
    from codedfl.contract.words import printable

    said: str = typer.prompt(
        f"\n{printable(finding.words)}\nWhy is this accepted? (nothing: it is not)", default="", show_default=False
    )
    return said.strip()


def _confirm() -> None:
    """At a terminal somebody is asked before anything is recorded; a script has decided by itself."""
    if sys.stdin.isatty():
        typer.confirm("Approve this study on this device?", abort=True)

"""``codedfl site ledger``, ``accept`` and ``withdraw``: what a device approved and contributed, and what it cost.

And what its operator adds to it, or takes back, beside approvals.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from codedfl.cli import options
from codedfl.cli.broker_options import State
from codedfl.cli.screen import Screen, table
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.ledger import Approval
from codedfl.contract.words import printable
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import DELTA, spent_sentence
from codedfl.private_files import default_state_dir
from codedfl.typing import JsonObject


def show_ledger(
    name: Annotated[str, typer.Argument(help="The device's name, as on the roster.")],
    state: State = None,
    json: options.Json = None,
) -> None:
    """Show every study that this device approved, and how often it contributed to each.

    Example: `codedfl site ledger site-1`
    """
    screen = Screen(json)
    folder = DeviceFolder.of(Path(state or default_state_dir()), name)
    if not folder.path.exists():
        raise InvalidInput(
            f"name must be of a device with approvals under {folder.path.parents[1]}, got {name!r}:"
            " --state names the folder"
        )
    with folder.ledger() as ledger:
        pass
    withdrawn = folder.base.withdrawn()
    shown = table("study", "digest", "version", "approved by", "when", "rows", "contributions")
    for column in (shown.columns[0], shown.columns[3]):
        column.no_wrap = False  # names may be long; times and counts are never cut
    rows = []
    for one in ledger.approvals:
        given = [c for c in ledger.contributions if c.digest == one.digest]
        rows.append(
            {
                "study": one.name,
                "digest": one.digest.hex(),
                "edition": one.edition,
                "who": one.who,
                "when": one.when,
                "pod": sorted(one.pod),
                "rows": one.rows,
                "held_out": one.held_out,
                "accepted": [
                    {"kind": kind, "words": words, "who": who, "why": why} for kind, words, who, why in one.accepted
                ],
                "contributions": [
                    {"statistic": c.statistic, "argument": c.argument.hex(), "when": c.when} for c in given
                ],
            }
        )
        when, counts = one.when[:16].replace("T", " "), (str(one.rows), str(len(given)))
        texts = (one.name, one.digest.hex()[:8], str(one.edition), one.who, when, *counts)
        shown.add_row(*(Text(printable(text)) for text in texts))
    screen.show(shown)
    if ledger.contributions:
        screen.sentence(
            "A contribution is recorded before anything leaves: also of a run that ended without a sum, or whose sum"
            " left this device's disclosure group out."
        )
    for one in ledger.approvals:
        for kind, words, who, why in one.accepted:
            screen.sentence(printable(f"accepted for {one.name} by {who} ({kind}): {words}. Why: {why}"))
    for other in ledger.accepted:
        name_of = next((one.name for one in ledger.approvals if one.digest == other.digest), other.digest.hex()[:8])
        screen.sentence(printable(f"sums of {name_of} over other groups are accepted by {other.who}: {other.why}"))
    for one in withdrawn:
        screen.sentence(printable(f"withdrawn: {one.name}, version {one.edition}, approved by {one.who} {one.when}"))
    costs = [one.rho for one in ledger.approvals]
    total = None if None in costs else sum(cost for cost in costs if cost is not None)
    screen.sentence(spent_sentence(total, len(costs), DELTA))
    screen.write_json(
        {"command": "site ledger", "device": name, "approvals": rows, "withdrawn": [_gone(one) for one in withdrawn]}
    )


def _gone(one: Approval) -> JsonObject:
    return {"study": one.name, "digest": one.digest.hex(), "edition": one.edition, "who": one.who, "when": one.when}


def accept_groups(
    digest: Annotated[str, typer.Argument(help="How the study's digest begins, as codedfl site ledger shows it.")],
    groups: Annotated[str, typer.Option(metavar="N,N", help="The disclosure groups, as codedfl roster show has them.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="This device's name, as on the roster.")],
    who: Annotated[str, typer.Option(metavar="NAME", help="Who accepts it.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record.")],
    state: State = None,
) -> None:
    """Accept that a study's sums are over other disclosure groups than before, on record.

    For example since a hospital has left, or is back. The difference of both sums is about those groups alone.

    Example: `codedfl site accept 1a2b3c --groups 0,1 --name site-1 --who "Dr. Example" --why "site-7 has left"`
    """
    try:
        numbers = [int(one) for one in groups.split(",")]
    except ValueError:
        raise InvalidInput(f"--groups must be numbers with commas, got {groups!r:.80}") from None
    when = datetime.now(UTC).isoformat(timespec="seconds")
    with DeviceFolder.of(state or default_state_dir(), name).ledger() as ledger:
        ledger.accept_groups(digest, numbers, who, why, when)
    Screen().sentence(f"sums over the disclosure groups {groups} are accepted by {printable(who)}: {printable(why)}")


def withdraw_approval(
    digest: Annotated[str, typer.Argument(help="How the study's digest begins, as codedfl site ledger shows it.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="This device's name, as on the roster.")],
    state: State = None,
) -> None:
    """Take back an approval to which this device has not contributed yet.

    For example of a file with a mistake. Its rows are then free for another study. What was contributed cannot be taken
    back.

    Example: `codedfl site withdraw 1a2b3c --name site-1`
    """
    gone = DeviceFolder.of(state or default_state_dir(), name).withdraw(digest)
    Screen().sentence(f"{printable(gone.name)}, version {gone.edition}, is not approved any more; its rows are free")

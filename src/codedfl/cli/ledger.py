"""``codedfl site ledger``: what a device approved and contributed, and what that may have cost its rows."""

from __future__ import annotations

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

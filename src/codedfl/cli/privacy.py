"""``codedfl privacy``: what each party sees under a scheme, what follows from it, and what a collusion adds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import click
import typer

from codedfl.cli import options
from codedfl.cli.screen import Screen
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.report.privacy_table import privacy_table
from codedfl.schemes import SCHEMES, CodedKeys, CodedScheme, coded_scheme, make_scheme


def show_privacy(
    scheme: Annotated[str, typer.Argument(metavar="[SCHEME]", click_type=click.Choice(list(SCHEMES)))] = CodedKeys.name,
    alpha: Annotated[
        int | None, typer.Option(help="Of a coded scheme.", show_default="D - 2, at least 1, in a group")
    ] = None,
    groups: Annotated[int, typer.Option(min=1, help="Groups with a code each.")] = 1,
    fleet_name: options.FleetName = "paper",
    devices: Annotated[
        int | None,
        typer.Option(metavar="D", help="Number of devices.", show_default="the fleet's", rich_help_panel=options.FLEET),
    ] = None,
    json: options.Json = None,
) -> None:
    """Say what each party sees under a scheme, what follows from it, and what a collusion adds.

    SCHEME is coded-keys unless said otherwise. Who is exposed follows from the code and the masks, not from prose: it
    is computed, and tests hold it to all functionals that a party can form modulo a prime.
    """
    screen = Screen(json)
    fleet = Fleet.load(fleet_name)
    count = fleet.n_devices if devices is None else devices
    if issubclass(SCHEMES[scheme], CodedScheme):
        chosen = max(1, count // groups - 2) if alpha is None else alpha
        rows = coded_scheme(scheme, chosen, groups).privacy_rows(count)
        title = f"{scheme}, α = {chosen} of {count} devices"
    else:
        if alpha is not None or groups != 1:
            raise InvalidInput(f"--alpha and --groups must be left out with {scheme}, which has no code")
        rows = make_scheme(scheme, count).privacy_rows(count)
        title = f"{scheme}, {count} devices"
    screen.show(privacy_table(rows, title))
    screen.write_json({"command": "privacy", "scheme": scheme, "devices": count, "rows": [asdict(row) for row in rows]})

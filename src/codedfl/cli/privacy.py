"""``codedfl privacy``: what each party sees under a scheme, what follows from it, and what a collusion adds."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import click
import typer

from codedfl.cli import options
from codedfl.cli.options import refuse_unread
from codedfl.cli.screen import Screen
from codedfl.engine.ledger_file import LedgerFile
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.privacy.budget import DELTA, Budget, spent_sentence
from codedfl.report.privacy_table import privacy_table
from codedfl.schemes import SCHEMES, CodedScheme, RoleKeys, Scheme, coded_scheme, make_scheme
from codedfl.schemes.coded import usual_alpha

NOISE = "Noise"


def show_privacy(
    scheme: Annotated[str, typer.Argument(metavar="[SCHEME]", click_type=click.Choice(list(SCHEMES)))] = RoleKeys.name,
    colluders: Annotated[
        int | None,
        typer.Option(min=0, metavar="Z", help="Of role-keys and role-sums.", show_default="1; 0 below four devices"),
    ] = None,
    alpha: Annotated[
        int | None, typer.Option(help="Of a coded scheme.", show_default="D - 2, at least 1, in a group")
    ] = None,
    groups: Annotated[
        int | None, typer.Option(min=1, help="Groups with a code each.", show_default="as many as the scheme takes")
    ] = None,
    fleet_name: options.FleetName = "paper",
    devices: Annotated[
        int | None,
        typer.Option(metavar="D", help="Number of devices.", show_default="the fleet's", rich_help_panel=options.FLEET),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="With noise: what a run may cost a row.", rich_help_panel=NOISE)
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="D", help="The probability with which it may not hold.", rich_help_panel=NOISE),
    ] = None,
    honest: Annotated[
        int | None, typer.Option(metavar="N", help="Devices assumed to add their noise.", rich_help_panel=NOISE)
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A device's ledger: what all its runs cost a row.", rich_help_panel=NOISE),
    ] = None,
    json: options.Json = None,
) -> None:
    """Say what each party sees under a scheme, what follows from it, and what a collusion adds.

    SCHEME is role-keys unless said otherwise. Who is exposed follows from the code and the masks, not from prose: it
    is computed, and tests hold it to all functionals that a party can form modulo a prime. With --epsilon or --ledger a
    sentence says what noise promises for single rows.
    """
    screen = Screen(json)
    promised = _promises(scheme, epsilon, delta, honest, ledger)
    fleet = Fleet.load(fleet_name)
    count = fleet.n_devices if devices is None else devices
    chosen = _chosen(scheme, count, colluders, alpha, groups)
    rows = chosen.privacy_rows(count)
    screen.show(privacy_table(rows, f"{chosen.label}, {count} devices"))
    for sentence in promised:
        screen.say()
        screen.sentence(sentence)
    screen.write_json(
        {
            "command": "privacy",
            "scheme": scheme,
            **chosen.parameters,
            "devices": count,
            "protection": chosen.exposure(count).words,
            "rows": [asdict(row) for row in rows],
            "noise": promised,
        }
    )


def _chosen(name: str, count: int, colluders: int | None, alpha: int | None, groups: int | None) -> Scheme:
    usual = make_scheme(name, count)
    if isinstance(usual, RoleKeys):
        _refuse_code(name, alpha, groups)
        return usual if colluders is None else replace(usual, colluders=colluders)
    refuse_unread("--colluders", colluders, f"{name}, which has no roles")
    if isinstance(usual, CodedScheme) and (alpha is not None or groups is not None):
        dealt = groups or 1
        return coded_scheme(name, usual_alpha(count, dealt) if alpha is None else alpha, dealt)
    if isinstance(usual, CodedScheme):
        return usual
    _refuse_code(name, alpha, groups)
    return usual


def _refuse_code(name: str, alpha: int | None, groups: int | None) -> None:
    if alpha is not None or groups is not None:
        raise InvalidInput(f"--alpha and --groups must be left out with {name}, which has no code")


def _promises(
    scheme: str, epsilon: float | None, delta: float | None, honest: int | None, ledger: Path | None
) -> list[str]:
    """For this run, and over the ledger."""
    if ledger is not None and not ledger.is_file():
        raise InvalidInput(f"--ledger must be a file, got {str(ledger)!r}")
    budget = Budget.asked(epsilon, None if epsilon is None else delta, honest, None)
    kind = SCHEMES[scheme]
    if budget is not None and not (issubclass(kind, CodedScheme) and kind.server_type.adds_noise):
        raise InvalidInput(f"--epsilon must go with role-sums or role-keys, got {scheme}, whose devices add no noise")
    found = [] if budget is None else [budget.sentence()]
    if ledger is not None:
        with LedgerFile(ledger).open() as runs:
            found.append(spent_sentence(runs.rho, len(runs.entries), DELTA if delta is None else delta))
    return found

"""``codedfl lab privacy``: what each party sees under a scheme, what follows from it, and what a collusion adds."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated

import click
import typer

from codedfl.cli import options
from codedfl.cli.screen import Screen
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl_lab.cli.asked_scheme import asked_scheme
from codedfl_lab.report.privacy_table import privacy_table
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.registry import SCHEMES, make_scheme
from codedfl_lab.schemes.role_keys import RoleKeys

in_noise = partial(typer.Option, rich_help_panel="Noise")


def show_privacy(
    scheme: Annotated[str, typer.Argument(metavar="[SCHEME]", click_type=click.Choice(list(SCHEMES)))] = RoleKeys.name,
    colluders: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="Z",
            help="How many devices may collude, in role-keys and role-sums.",
            show_default="1; 0 below four devices",
        ),
    ] = None,
    alpha: Annotated[
        int | None,
        typer.Option(
            help="Devices that can answer for each other, in a coded scheme.",
            show_default="D - 2, at least 1, in a group",
        ),
    ] = None,
    groups: Annotated[
        int | None, typer.Option(min=1, help="Groups with a code each.", show_default="as many as the scheme takes")
    ] = None,
    devices: Annotated[int, typer.Option(metavar="D", help="Number of devices.")] = 25,
    epsilon: Annotated[
        float | None, in_noise(metavar="E", help="With noise: how much a run may tell about a row.")
    ] = None,
    delta: Annotated[
        float | None, in_noise(metavar="D", help="With noise: the probability with which that may fail.")
    ] = None,
    honest: Annotated[int | None, in_noise(metavar="N", help="Devices assumed to add their noise.")] = None,
    json: options.Json = None,
) -> None:
    """Say what each party sees under a scheme, what follows from it, and what a collusion adds.

    SCHEME is role-keys unless said otherwise. Every row is computed: from what each party reads in a run, all
    combinations in which every unknown pad and mask drops out. Tests hold that to running machines. Beyond 60 devices
    the scheme's own rule counts. With --epsilon a sentence says what noise promises for single rows; codedfl site
    ledger says it over all that a device approved.

    Example: `codedfl lab privacy coded-padded --devices 25 --alpha 5`
    """
    screen = Screen(json)
    promised = _promises(scheme, epsilon, delta, honest)
    chosen = asked_scheme(make_scheme(scheme, devices), devices, colluders, alpha, groups)
    with screen.busy("counting what each can compute"):
        rows = chosen.privacy_rows(devices)
    screen.show(privacy_table(rows, f"{chosen.label}, {devices} devices"))
    for sentence in promised:
        screen.say()
        screen.sentence(sentence)
    screen.write_json(
        {
            "command": "lab privacy",
            "scheme": scheme,
            **chosen.parameters,
            "devices": devices,
            "protection": chosen.exposure(devices).words,
            "rows": [asdict(row) for row in rows],
            "noise": promised,
        }
    )


def _promises(scheme: str, epsilon: float | None, delta: float | None, honest: int | None) -> list[str]:
    budget = Budget.asked(epsilon, delta, honest, None)
    kind = SCHEMES[scheme]
    if budget is not None and not (issubclass(kind, CodedScheme) and kind.adds_noise):
        raise InvalidInput(f"--epsilon must go with role-sums or role-keys, got {scheme}, whose devices add no noise")
    return [] if budget is None else [budget.sentence()]

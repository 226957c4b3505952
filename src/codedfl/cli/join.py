"""``codedfl join``: take part in a study with this machine's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli import broker_options
from codedfl.cli.screen import INTERRUPTED, Screen
from codedfl.engine.logs import use_console
from codedfl.engine.policy_config import load_policy
from codedfl.engine.private_files import default_state_dir
from codedfl.engine.study_config import load_agreed
from codedfl.protocol import Policy

_GOES_ON = "started again, it goes on where it was"


def join_study(
    study: broker_options.Study,
    broker: broker_options.Broker,
    table: Annotated[Path, typer.Option(metavar="FILE", help="This device's rows: .csv, .npz or .parquet.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="This device's name, as in its certificate.")],
    authority: broker_options.Authority = None,
    certificate: broker_options.Certificate = None,
    key: broker_options.Key = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keys, and what must survive a restart.", show_default="~/.local/state"),
    ] = None,
    server_key: Annotated[
        str, typer.Option("--server-key", metavar="HEX", help="Trust this server only; it logs its key.")
    ] = "",
    roster: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pinned public keys of all devices.", show_default=False)
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What this device allows (TOML): least-joiners, ...", show_default=False),
    ] = None,
    approvals: Annotated[
        Path, typer.Option(metavar="FILE", help="Studies approved on this machine (codedfl study approve).")
    ] = Path("approvals.toml"),
    once: Annotated[bool, typer.Option("--once", help="Leave when one run is over; else wait for the next.")] = False,
) -> None:
    """Take part in a study: a process that stays, answers the server through a broker, and survives restarts.

    STUDY is a study file, which must be approved on this machine, or a run's flat configuration (docs/deploy.md).

    The rows never leave this machine. What must survive is on the disk before an answer leaves; start it again after
    anything, and it goes on. Ctrl-C ends it, and so does SIGTERM.
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.address import BrokerAddress
    from codedfl.mqtt.joining import Membership, join

    screen = Screen()
    use_console(screen.remarks)
    address = BrokerAddress.parse(broker, authority, certificate, key)
    allowed = load_policy(policy) if policy else Policy()
    membership = Membership(name, table, state or default_state_dir(), server_key, roster, allowed, approvals)
    try:
        with broker_options.disk_failures_told(_GOES_ON):
            join(load_agreed(study), address, membership, once=once)
    except KeyboardInterrupt:
        screen.remark(f"left: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None

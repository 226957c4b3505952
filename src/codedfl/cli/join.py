"""``codedfl join``: take part in a study with this machine's rows."""

from __future__ import annotations

from typing import Annotated

import typer

from codedfl.cli import broker_options
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.screen import Screen
from codedfl.contract.toml_file import load_study
from codedfl.engine.logs import use_console
from codedfl.private_files import default_state_dir

_GOES_ON = "started again, it goes on where it was"


def join_study(
    study: broker_options.Study,
    broker: broker_options.Broker,
    name: Annotated[str, typer.Option(metavar="NAME", help="This device's name, as on the roster.")],
    roster: broker_options.Roster,
    authority: broker_options.Authority = None,
    certificate: broker_options.Certificate = None,
    key: broker_options.Key = None,
    state: broker_options.State = None,
    once: Annotated[bool, typer.Option("--once", help="Leave when the study is over; else stay.")] = False,
) -> None:
    """Take part in a study: a process that stays, answers the server through a broker, and survives restarts.

    The study must be approved on this machine (codedfl study approve), which froze the rows that it uses. They never
    leave this machine. What must survive is on the disk before an answer leaves; start it again after anything, and it
    goes on. Ctrl-C ends it, and so does SIGTERM.
    """
    broker_options.require_mqtt()
    from codedfl.engine.membership import Membership
    from codedfl.mqtt.address import BrokerAddress
    from codedfl.mqtt.joining import join

    screen = Screen()
    use_console(screen.remarks)
    address = BrokerAddress.parse(broker, authority, certificate, key)
    try:
        with broker_options.disk_failures_told(_GOES_ON):
            join(load_study(study), address, Membership(name, state or default_state_dir(), roster), once=once)
    except KeyboardInterrupt:
        screen.remark(f"left: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None

"""``codedfl study kit``: from the requests of all sites to one file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from codedfl.cli import broker_options, options
from codedfl.cli.roster import absence
from codedfl.cli.screen import Screen, table
from codedfl.contract.enrolment import enrolments
from codedfl.contract.roster import load_roster
from codedfl.contract.toml_file import load_study
from codedfl.crypto.sealed import fingerprint
from codedfl.errors import InvalidInput
from codedfl.run.kits import Admits, HostedBroker, Kits


def make_kits(
    study: options.StudyFile,
    requests: Annotated[
        list[Path], typer.Option(metavar="PATH", help="A request (site enrol), or a folder of them; can be repeated.")
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the kits go, with study and roster.")],
    broker: Annotated[
        str,
        typer.Option(
            metavar="BROKER",
            help="A folder of codedfl broker new, or mqtts://host:port.",
            show_default="none: Flower",
        ),
    ] = "",
    roster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The roster that the study names.", show_default="a new one, of all"),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--ca", metavar="FILE", help="With a URL: who signed the broker's certificate.", show_default="the system's"
        ),
    ] = None,
    certificates: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With a URL: NAME.pem for each request.", show_default="none"),
    ] = None,
) -> None:
    """Make of a study and the requests of all sites one kit for each: a file of public parts.

    Without --roster all requests make a new roster; study and roster are written beside the kits. Before a site
    approves, its people read the kits' fingerprint to each other: it is the same for all.

    Example: `codedfl study kit study.toml --requests requests --broker broker --out kits`
    """
    screen = Screen()
    load_study(study)  # what is wrong is said with the file's name
    asked = enrolments(requests)
    at = _broker(broker, authority, certificates)
    known = None if roster is None else load_roster(roster)
    made = Kits.made(study.read_text(encoding="utf-8"), asked, at, known)
    paths = made.save(out)
    shown = table("kit", "key, read out by who has it", "certificate until", left=3)
    for name, path in paths.items():
        until = made.kits[name].until
        shown.add_row(Text(str(path)), fingerprint(asked[name].key), f"{until:%Y-%m-%d}" if until else "-")
    screen.show(shown)
    if missing := [name for name in made.roster.keys if name not in asked]:
        screen.sentence(f"without a request, hence without a kit: {', '.join(missing)}")
    if roster is None:
        screen.sentence(absence(made.roster))
    screen.say(f"fingerprint of the kits: {next(iter(made.kits.values())).fingerprint}")


def _broker(said: str, authority: Path | None, certificates: Path | None) -> Admits:
    if said and "://" not in said:
        broker_options.require_mqtt()
        from codedfl.mqtt.broker_folder import BrokerFolder

        options.refuse_unread("--ca", authority, "the folder of a broker")
        options.refuse_unread("--certificates", certificates, "the folder of a broker")
        return BrokerFolder(Path(said))
    if said:
        broker_options.require_mqtt()
        from codedfl.mqtt.address import BrokerAddress

        BrokerAddress.parse(said)
    if authority is None:
        return HostedBroker(said, "", certificates)
    if not authority.is_file():
        raise InvalidInput(f"--ca must be a readable file, got {str(authority)!r}")
    return HostedBroker(said, authority.read_text(encoding="ascii", errors="replace"), certificates)

"""``codedfl site enrol`` and ``server enrol``: keys that stay, and the request that goes to the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli.broker_options import State
from codedfl.cli.output_files import check_writable
from codedfl.cli.screen import Screen
from codedfl.contract.enrolment import ENDING, EnrolmentRequest
from codedfl.contract.names import SERVER_NAME, checked_device
from codedfl.crypto.key_files import DEVICE_KEY, SERVER_KEY, load_identity
from codedfl.crypto.sealed import fingerprint
from codedfl.crypto.tls_keys import TlsKeys
from codedfl.device.membership import TLS_FOLDER
from codedfl.private_files import default_state_dir

Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where the request goes.", show_default=f"NAME{ENDING}, here")
]


def enrol_site(
    name: Annotated[str, typer.Argument(help="The device's name, as it will be on the roster.")],
    state: State = None,
    out: Out = None,
) -> None:
    """Make this device's keys, which stay here, and write the request that its coordinator needs.

    The long-term key is made once. Every request is for a new key at the broker; a certificate that is in use keeps
    until it expires. So the same command asks for the next certificate. The coordinator sends back a kit.

    Example: `codedfl site enrol hospital-3`
    """
    checked_device(name, "the device's name")
    _enrol(name, Path(name) / DEVICE_KEY, state, out)


def enrol_server(state: State = None, out: Out = None) -> None:
    """Make the server's keys, which stay here, and write its request.

    Again for another certificate in time, as codedfl site enrol.

    Example: `codedfl server enrol --out requests/codedfl-server.request`
    """
    _enrol(SERVER_NAME, Path(SERVER_KEY), state, out)


def _enrol(name: str, key_file: Path, state: Path | None, out: Path | None) -> None:
    screen, folder = Screen(), state or default_state_dir()
    path = out or Path(f"{name}{ENDING}")
    check_writable("--out", path)
    identity = load_identity(folder / key_file)
    request = TlsKeys(folder / name / TLS_FOLDER).request(name)
    EnrolmentRequest.signed(name, identity, request.decode()).save(path)
    screen.sentence(f"wrote {path}: send it to the coordinator of the study; nothing in it is secret")
    screen.say(f"fingerprint, to read out by telephone: {fingerprint(identity.public)}")

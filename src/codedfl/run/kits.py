"""The coordinator's side of kits: the requests of all sites become a roster, a bound study and one kit for each.

``codedfl study kit`` is its command. What admits parties is a broker's folder, or a folder of certificates that a
hosted broker's operator has signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from codedfl.contract.binding import bound_text
from codedfl.contract.enrolment import EnrolmentRequest
from codedfl.contract.kit import ENDING, Kit
from codedfl.contract.names import SERVER_NAME
from codedfl.contract.roster import Roster, save_roster
from codedfl.contract.toml_file import parse_study
from codedfl.crypto.certificates import key_digest, read_certificate, read_request
from codedfl.crypto.sealed import fingerprint
from codedfl.errors import InvalidInput
from codedfl.files import write_text

STUDY_FILE, ROSTER_FILE = "study.toml", "roster.toml"


class Admits(Protocol):
    """A broker as kits need it: ``mqtt.broker_folder.BrokerFolder``, or one that others run."""

    @property
    def url(self) -> str:
        """Where parties reach it."""

    @property
    def authority(self) -> str:
        """Who signed its certificate, as PEM; empty trusts the system's authorities."""

    def admit(self, name: str, request: str) -> str:
        """The certificate (PEM) for a party's request; empty where the broker asks for none."""


@dataclass(frozen=True)
class HostedBroker:
    """A broker that others run: their authority and certificates, if they have any; an empty URL is no broker.

    Examples
    --------
    >>> HostedBroker("mqtts://broker.example").admit("clinic-1", "")
    ''
    """

    url: str = ""
    authority: str = ""
    certificates: Path | None = None

    def admit(self, name: str, request: str) -> str:
        """The certificate that was signed for the request, by the party's name."""
        if self.certificates is None:
            return ""
        path = self.certificates / f"{name}.pem"
        if not path.is_file():
            raise InvalidInput(f"--certificates must have {path.name}, got no such file in {str(self.certificates)!r}")
        found = read_certificate(path.read_bytes())
        if key_digest(found) != key_digest(read_request(name, request.encode())):
            raise InvalidInput(f"{path} must be for the key of the request of {name!r}, got one for another key")
        return path.read_text(encoding="ascii")


@dataclass(frozen=True)
class Kits:
    """A study with all that its parties need.

    text: of the study, with roster and server filled in. kits: by name, the server's among them if it has enrolled.

    Examples
    --------
    See ``codedfl study kit``.
    """

    text: str
    roster: Roster
    kits: Mapping[str, Kit]

    @classmethod
    def made(
        cls, text: str, requests: Mapping[str, EnrolmentRequest], broker: Admits, roster: Roster | None = None
    ) -> Kits:
        """Of the text of a study and everybody's requests; without a roster they are divided into new groups."""
        study, sites = parse_study(text), {name: one.key for name, one in requests.items() if name != SERVER_NAME}
        if roster is None:
            if study.roster:
                raise InvalidInput("--roster must be given for a study that names one, got none")
            roster = Roster.draft(sites, study.colluders, honest=study.honest)
        if len(roster.owners) < study.least_participants:
            raise InvalidInput(
                f"sites must be at least least_participants of the study ({study.least_participants}), got"
                f" {len(roster.owners)}"
            )
        for name, key in sites.items():
            _check_key(name, key, roster.member(name).key)
        server = requests.get(SERVER_NAME)
        if server is None and not study.server_key:
            raise InvalidInput("the requests must have the server's, got none: codedfl server enrol writes it")
        if server is not None and study.server_key:
            _check_key(SERVER_NAME, server.key, bytes.fromhex(study.server_key))
        bound = bound_text(text, roster.digest().hex(), server.key.hex() if server else study.server_key)
        kits = {}
        # Checked without certificates first: a study or roster that does not fit must not have anybody admitted.
        for name in requests:
            Kit(name, bound, roster, broker.url, broker.authority)
        for name, one in requests.items():
            kits[name] = Kit(name, bound, roster, broker.url, broker.authority, broker.admit(name, one.request))
        return cls(bound, roster, kits)

    def save(self, folder: Path) -> dict[str, Path]:
        """One file for each party, with study and roster beside them; kits of another study are not overwritten."""
        study = folder / STUDY_FILE
        if study.is_file() and study.read_text(encoding="utf-8") != self.text:
            raise InvalidInput(
                f"--out must be a new folder or hold kits of the same study, got {str(folder)!r}, which has another"
                f" {STUDY_FILE}: another edition goes to another folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_text(study, self.text)
        save_roster(self.roster, folder / ROSTER_FILE)
        paths = {name: folder / f"{name}{ENDING}" for name in self.kits}
        for name, path in paths.items():
            self.kits[name].save(path)
        return paths


def _check_key(name: str, key: bytes, known: bytes) -> None:
    if key != known:
        renew = "" if name == SERVER_NAME else ": codedfl roster renew takes a new one, for a new edition"
        raise InvalidInput(
            f"the request of {name!r} must be signed by the key that is known, {fingerprint(known)}, got"
            f" {fingerprint(key)}{renew}"
        )

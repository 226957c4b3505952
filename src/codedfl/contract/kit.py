"""A kit: what one site needs for a study, as one file of public parts.

Study, roster, the broker's URL and authority are everybody's, and their fingerprint is the same at all sites, who
compare it with each other. Name and certificate are the site's own: the certificate must name the device, and be for a
key that was made on its machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from cryptography import x509

from codedfl.contract.names import SERVER_NAME, checked_name
from codedfl.contract.public_files import read_texts, write_texts
from codedfl.contract.roster import Roster, parse_roster, roster_text
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study, parse_study
from codedfl.crypto.certificates import common_name, read_certificate
from codedfl.data.canonical import canonical_digest
from codedfl.errors import InvalidInput

FORMAT = "codedfl-kit-1"
ENDING = ".kit"
_COMMON = ("study", "roster", "broker", "authority")
_KEYS = ("name", "fingerprint", *_COMMON, "certificate")
_LARGEST = 1 << 23


@dataclass(frozen=True)
class Kit:
    """One site's, or the server's; its parts fit together.

    name: whose it is.
    study_text: the study as its author wrote it, comments included.
    roster: the one that the study names.
    broker: where to meet, such as mqtts://broker.example:8883; empty where it is not for a broker.
    authority: who signed the broker's certificate, as PEM; empty trusts the system's authorities.
    certificate: this party's, as PEM; empty where the broker asks for none.

    Examples
    --------
    ``load_kit(Path("hospital-3.kit")).study``: see ``codedfl site approve``.
    """

    name: str
    study_text: str
    roster: Roster
    broker: str = ""
    authority: str = ""
    certificate: str = ""

    def __post_init__(self) -> None:
        if checked_name(self.name, "the name in a kit") != SERVER_NAME:
            self.roster.member(self.name)
        self.roster.check_bound(self.study)
        if not self.study.server_key:
            raise InvalidInput("the study of a kit must say server_key, got nothing: codedfl study kit fills it in")
        if self.authority:
            try:
                x509.load_pem_x509_certificates(self.authority.encode())
            except ValueError as error:
                raise InvalidInput(f"the authority of a kit must be PEM, got something else ({error})") from None
        if self.certificate and (said := common_name(read_certificate(self.certificate.encode()))) != self.name:
            raise InvalidInput(f"the certificate of the kit must name {self.name!r}, got {said!r}")

    @cached_property
    def study(self) -> Study:
        return parse_study(self.study_text, "the study of the kit")

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over what is everybody's, to be read out: all kits of a study have the same."""
        return canonical_digest(FORMAT, [self._texts()[key].strip() for key in _COMMON]).hex()[:32]

    @property
    def until(self) -> datetime | None:
        """When its certificate ends; None where it has none."""
        return read_certificate(self.certificate.encode()).not_valid_after_utc if self.certificate else None

    def _texts(self) -> dict[str, str]:
        study = self.study_text.replace("\r\n", "\n")
        return dict(zip(_COMMON, (study, roster_text(self.roster), self.broker, self.authority), strict=True))

    def save(self, path: Path) -> None:
        """Write its file."""
        said = f"The kit of {self.name} for a study: public parts only. codedfl site approve and site join take it."
        own = {"format": FORMAT, "name": self.name, "fingerprint": self.fingerprint}
        write_texts(path, said, {**own, **self._texts(), "certificate": self.certificate})


def load_kit(path: Path) -> Kit:
    """Read a kit and check that its parts fit together; what is wrong is said in one line.

    >>> load_kit(Path("no-such.kit"))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the kit must be a readable file, got 'no-such.kit'
    """
    texts = read_texts(path, "the kit", FORMAT, _KEYS, _LARGEST)
    digest = canonical_digest(FORMAT, [texts[key].strip() for key in _COMMON]).hex()[:32]
    if digest != texts["fingerprint"]:
        raise InvalidInput(
            f"{path.name} must have the fingerprint that it says, {texts['fingerprint'][:32]!r}, got {digest}: it was"
            " changed or damaged on its way, ask for it again"
        )
    roster = parse_roster(texts["roster"], "the roster of the kit")
    own = texts["broker"], texts["authority"], texts["certificate"]
    return Kit(texts["name"], texts["study"], roster, *own)


def study_and_roster(path: Path) -> tuple[Study, Roster | None]:
    """The study and the roster of a kit; of a study file the study alone.

    >>> study_and_roster(Path("no-such.toml"))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the study file must exist, got 'no-such.toml'
    """
    if path.suffix != ENDING:
        return load_study(path), None
    kit = load_kit(path)
    return kit.study, kit.roster

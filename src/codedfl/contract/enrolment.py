"""A request to take part: a site's name and public key, and its request for a certificate, all signed by that key.

Who reads the key's fingerprint to the coordinator over the telephone has vouched for the whole of it. Later requests,
for another certificate, are believed because the roster has the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from codedfl.contract.names import checked_name
from codedfl.contract.public_files import read_texts, write_texts
from codedfl.crypto.certificates import read_request
from codedfl.crypto.key_files import parse_public
from codedfl.crypto.sealed import SIGNATURE_BYTES, Identity, verify
from codedfl.errors import InvalidInput, MessageRefused

FORMAT = "codedfl-request-1"
ENDING = ".request"
_KEYS = ("name", "key", "signature", "certificate_request")
_LARGEST = 1 << 14
_SAID = "A request to take part, for the coordinator of a study. It holds nothing secret."


@dataclass(frozen=True)
class EnrolmentRequest:
    """One site's, or the server's.

    name: the device's, as it will be on the roster and in its certificate.
    key: its long-term public key.
    request: for a certificate at the broker, as PEM.
    signature: of name and request, by the key.

    Examples
    --------
    >>> from codedfl.contract.enrolment import EnrolmentRequest
    >>> from codedfl.crypto.authority import Requested
    >>> from codedfl.crypto.sealed import Identity
    >>> made = EnrolmentRequest.signed("clinic-1", Identity(bytes(32)), Requested.created("clinic-1").request.decode())
    >>> made.name, made.key.hex()[:8]
    ('clinic-1', 'cc37d632')
    """

    name: str
    key: bytes
    request: str
    signature: bytes

    def __post_init__(self) -> None:
        checked_name(self.name, "the name in a request")
        read_request(self.name, self.request.encode())
        try:
            verify(self.key, _signed(self.name, self.request), self.signature)
        except MessageRefused:
            raise InvalidInput(
                f"the request of {self.name!r} must be signed by the key in it, got another signature: it was changed"
                " or damaged on its way"
            ) from None

    @classmethod
    def signed(cls, name: str, identity: Identity, request: str) -> EnrolmentRequest:
        """A party's own."""
        return cls(name, identity.public, request, identity.sign(_signed(name, request)))

    def save(self, path: Path) -> None:
        """Write its file."""
        texts = {"name": self.name, "key": self.key.hex(), "signature": self.signature.hex()}
        write_texts(path, _SAID, {"format": FORMAT, **texts, "certificate_request": self.request})


def load_enrolment(path: Path) -> EnrolmentRequest:
    """Read a request; what is wrong is said in one line.

    >>> load_enrolment(Path("no-such.request"))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the request must be a readable file, got 'no-such.request'
    """
    texts = read_texts(path, "the request", FORMAT, _KEYS, _LARGEST)
    name = texts["name"]
    try:
        signature = bytes.fromhex(texts["signature"])
    except ValueError:
        signature = b""
    if len(signature) != SIGNATURE_BYTES:
        raise InvalidInput(f"the signature of {path.name} must have {SIGNATURE_BYTES} bytes in hex, got something else")
    key = parse_public(texts["key"], f"key of {name!r:.80}")
    return EnrolmentRequest(name, key, texts["certificate_request"], signature)


def enrolments(paths: Iterable[Path]) -> dict[str, EnrolmentRequest]:
    """By name, of files and of folders of such files; each name once.

    >>> enrolments([])
    {}
    """
    found: dict[str, EnrolmentRequest] = {}
    for path in paths:
        for one in sorted(path.glob(f"*{ENDING}")) if path.is_dir() else [path]:
            read = load_enrolment(one)
            if read.name in found:
                raise InvalidInput(f"each party must send one request, got two of {read.name!r}: {one.name} is one")
            found[read.name] = read
    return found


def _signed(name: str, request: str) -> bytes:
    return b"codedfl request|" + name.encode() + b"|" + request.encode()

"""Where a broker is, and how to be admitted: ``mqtts://host:port`` with certificates, or ``mqtt://`` without."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from codedfl.crypto.certificates import common_name, read_certificate
from codedfl.crypto.tls_keys import TlsKeys
from codedfl.errors import InvalidInput
from codedfl.private_files import make_private_folder, write_private

_MINUTES = "%Y-%m-%d %H:%M"
_PORTS = {"mqtts": 8883, "mqtt": 1883}


@dataclass(frozen=True)
class BrokerAddress:
    """A broker, and the files to be admitted with.

    Attributes
    ----------
    authority: who signed the broker's certificate; None trusts the system's authorities.
    certificate, key: this party's own, both or neither. Without them the broker must know it otherwise, or not at all.
    """

    host: str
    port: int
    tls: bool
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def parse(
        cls,
        url: str,
        authority: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> BrokerAddress:
        """Read a URL; ports are 8883 and 1883 unless it says others."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or parts.scheme not in _PORTS or parts.path not in ("", "/") or parts.username:
            raise InvalidInput(f"broker must be mqtts://host:port or mqtt://host:port, got {url!r}")
        tls = parts.scheme == "mqtts"
        if (certificate is None) != (key is None):
            raise InvalidInput("a certificate must come with its key and a key with its certificate, got one of them")
        if not tls and (authority or certificate):
            raise InvalidInput(f"certificates must go with mqtts://, got {url!r}")
        for what, path in (("authority", authority), ("certificate", certificate), ("key", key)):
            if path is not None and not path.is_file():
                raise InvalidInput(f"the {what} must be a readable file, got {str(path)!r}")
        return cls(host, port or _PORTS[parts.scheme], tls, authority, certificate, key)

    @classmethod
    def laid_out(cls, url: str, authority: str, certificate: str, folder: Path) -> BrokerAddress:
        """With public parts as a kit has them (PEM, or empty); ``folder`` has the key that the certificate is for."""
        key = TlsKeys(folder).key_for(certificate.encode()) if certificate else None
        return cls.parse(url, _written(folder, authority), _written(folder, certificate), key)

    def __str__(self) -> str:
        return f"mqtt{'s' if self.tls else ''}://{self.host}:{self.port}"

    def client_id(self, identity: str) -> str:
        """Under which id to connect: nobody without the same private key knows it.

        Whoever connects with an id takes the connection of the one who has it, and brokers let any client choose any.
        """
        secret = b"" if self.key is None else self.key.read_bytes()
        tag = hashlib.sha256(b"codedfl client id|" + identity.encode() + b"|" + secret).hexdigest()
        return f"{identity}-{tag[:32]}"

    def named(self) -> tuple[str, datetime] | None:
        """Whom this party's certificate names, and until when; one that is not valid by this clock is refused."""
        if self.certificate is None:
            return None
        found = read_certificate(self.certificate.read_bytes())
        first, last, now = found.not_valid_before_utc, found.not_valid_after_utc, datetime.now(UTC)
        if not first <= now <= last:
            raise InvalidInput(
                f"the certificate must be valid now, {now:{_MINUTES}} by this clock, got one from {first:{_MINUTES}} to"
                f" {last:{_MINUTES}}: set the clock, or request another (codedfl site enrol)"
            )
        return common_name(found), last

    def context(self) -> ssl.SSLContext | None:
        """TLS 1.2 or newer, the broker's name and certificate checked; None without TLS."""
        if not self.tls:
            return None
        self.named()
        try:
            context = ssl.create_default_context(cafile=self.authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate is not None and self.key is not None:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(f"the certificates must be readable PEM files that belong together ({error})") from None
        return context


def _written(folder: Path, pem: str) -> Path | None:
    """A public part as a file, which TLS wants, under the name of its content."""
    if not pem:
        return None
    path = make_private_folder(folder) / f"{hashlib.sha256(pem.encode()).hexdigest()[:32]}.pem"
    if not path.is_file():
        write_private(path, [pem.encode()])
    return path

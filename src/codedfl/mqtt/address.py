"""Where a broker is, and how to be let in: ``mqtts://host:port`` with certificates, or ``mqtt://`` without."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from codedfl.errors import InvalidInput

_MINUTES = "%Y-%m-%d %H:%M"
_PORTS = {"mqtts": 8883, "mqtt": 1883}


@dataclass(frozen=True)
class BrokerAddress:
    """A broker, and the files to be let in with.

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
        try:
            found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        except ValueError as error:
            raise InvalidInput(f"the certificate must be a PEM file, got {str(self.certificate)!r} ({error})") from None
        first, last, now = found.not_valid_before_utc, found.not_valid_after_utc, datetime.now(UTC)
        if not first <= now <= last:
            raise InvalidInput(
                f"the certificate must be valid now, {now:{_MINUTES}} by this clock, got one from {first:{_MINUTES}} to"
                f" {last:{_MINUTES}}: set the clock, or have codedfl broker renew make another"
            )
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(names[0].value) if names else "", last

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

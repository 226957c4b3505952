"""A small certificate authority: for parties who know each other, without the openssl program.

It issues certificates to programs that listen (their names and addresses) and, by request, to parties that connect
(their common name is who they are), and keeps the list of those it has revoked. A party makes its own key, of which
the authority sees the public half only.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from codedfl.crypto.certificates import CURVE, MOST_NAME, check_name, read_request
from codedfl.errors import InvalidInput

_PEM = serialization.Encoding.PEM
_SLACK = datetime.timedelta(minutes=5)  # clocks differ
_USAGES = dict.fromkeys(
    ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
) | {"encipher_only": False, "decipher_only": False}


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Requested:
    """A request for a certificate (PKCS#10) and the private key that it is for, as PEM."""

    request: bytes
    key: bytes

    @classmethod
    def created(cls, name: str) -> Requested:
        """A new key, and a request to certify it for who has this name."""
        check_name(name)
        key = ec.generate_private_key(CURVE())
        builder = x509.CertificateSigningRequestBuilder(_named(name))
        return cls(builder.sign(key, hashes.SHA256()).public_bytes(_PEM), _pem(key))


class Authority:
    """Signs with one key. ``created`` makes a new one, ``loaded`` takes up one from its files' contents."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def created(cls, name: str, days: int) -> Authority:
        key = ec.generate_private_key(CURVE())
        builder = _builder(_named(name), _named(name), key.public_key(), days)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**_USAGES, key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA384())
        )
        return cls(certificate, key)

    @classmethod
    def loaded(cls, certificate: bytes, key: bytes) -> Authority:
        try:
            private = serialization.load_pem_private_key(key, None)
            found = x509.load_pem_x509_certificate(certificate)
        except ValueError:
            raise InvalidInput("the authority must be a PEM certificate and its key, got something else") from None
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != found.public_key():
            raise InvalidInput("the authority's certificate and key must belong together, got two that do not")
        return cls(found, private)

    @property
    def certificate(self) -> bytes:
        return self._certificate.public_bytes(_PEM)

    @property
    def key(self) -> bytes:
        return _pem(self._key)

    def for_listener(self, hosts: Sequence[str], days: int) -> Issued:
        """For a program reached under these names or addresses."""
        alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        key = ec.generate_private_key(CURVE())
        name, usage = hosts[0][:MOST_NAME], ExtendedKeyUsageOID.SERVER_AUTH
        return Issued(self._sign(name, key.public_key(), days, usage, alternatives), _pem(key))

    def for_request(self, name: str, request: bytes, days: int) -> bytes:
        """A certificate for who connects as ``name``, for the key of its request. Nothing else of a request is read."""
        found = read_request(name, request)
        return self._sign(name, found.public_key(), days, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _sign(
        self,
        name: str,
        key: Any,
        days: int,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> bytes:
        builder = (
            _builder(self._certificate.subject, _named(name), key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return builder.sign(self._key, hashes.SHA384()).public_bytes(_PEM)

    def revocations(self, revoked: Sequence[bytes], days: int) -> bytes:
        """The signed list of these certificates (PEM), which are not admitted any more. Empty revokes nobody."""
        now = datetime.datetime.now(datetime.UTC) - _SLACK
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate.subject)
            .last_update(now)
            .next_update(now + datetime.timedelta(days=days))
        )
        for certificate in revoked:
            serial = x509.load_pem_x509_certificate(certificate).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self._key, hashes.SHA384()).public_bytes(_PEM)


def _builder(issuer: x509.Name, subject: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC) - _SLACK
    return (
        x509.CertificateBuilder(issuer, subject, key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

"""Certificates for a SuperLink and keys for SuperNodes, without the openssl and ssh-keygen programs.

For a federation among people who know each other: one authority of their own, one certificate for the SuperLink, and
one key pair per SuperNode, which the SuperLink's operator registers. docs/deploy.md shows how they are used.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from codedfl.engine.private_files import make_private_folder, write_private
from codedfl.errors import InvalidInput

_PEM = serialization.Encoding.PEM
_CURVE = ec.SECP384R1  # what Flower asks of the keys of SuperNodes; good for certificates too


@dataclass(frozen=True)
class SuperLinkCertificate:
    """Files for ``flower-superlink`` (all three) and for whoever connects to it (the authority only)."""

    authority: Path
    certificate: Path
    key: Path


def make_certificate(folder: Path, hosts: Sequence[str], days: int = 365) -> SuperLinkCertificate:
    """A new authority and a certificate for a SuperLink reached under these names or addresses.

    The authority's own key is thrown away: it signs this one certificate and no other.
    """
    make_private_folder(folder)
    made = SuperLinkCertificate(folder / "ca.pem", folder / "superlink.pem", folder / "superlink.key")
    for path in (made.authority, made.certificate, made.key):
        _check_new(path)
    authority_key, key = ec.generate_private_key(_CURVE()), ec.generate_private_key(_CURVE())
    authority_name, name = _named("codedfl federation authority"), _named(hosts[0])
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # clocks differ
    until = now + datetime.timedelta(days=days)
    usages = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    ) | {"encipher_only": False, "decipher_only": False}
    authority = (
        x509.CertificateBuilder(authority_name, authority_name, authority_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usages, key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    certificate = (
        x509.CertificateBuilder(authority_name, name, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    made.authority.write_bytes(authority.public_bytes(_PEM))
    made.certificate.write_bytes(certificate.public_bytes(_PEM))
    pkcs8, open_ = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    write_private(made.key, [key.private_bytes(_PEM, pkcs8, open_)])
    return made


def make_node_key(folder: Path, name: str) -> Path:
    """A SuperNode's authentication key in OpenSSH's form, with the public one beside it in ``.pub``."""
    make_private_folder(folder)
    path = folder / name
    _check_new(path)
    key = ec.generate_private_key(_CURVE())
    openssh, open_ = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    write_private(path, [key.private_bytes(_PEM, openssh, open_)])
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_name(f"{name}.pub").write_bytes(public + b"\n")
    return path


def _check_new(path: Path) -> None:
    """What uses a key stops working when another takes its place."""
    if path.exists():
        raise InvalidInput(f"a key or certificate must not be overwritten: delete it first, got {str(path)!r}")


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

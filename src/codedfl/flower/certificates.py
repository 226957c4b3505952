"""Certificates for a SuperLink and keys for SuperNodes, without the openssl and ssh-keygen programs.

For a federation among people who know each other: one authority of their own, one certificate for the SuperLink, and
one key pair per SuperNode, which the SuperLink's operator registers. docs/deploy-flower.md shows how they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from codedfl.crypto.authority import Authority
from codedfl.errors import InvalidInput
from codedfl.private_files import make_private_folder, write_private

_NODE_CURVE = ec.SECP384R1  # what Flower asks of the keys of SuperNodes
_PEM = serialization.Encoding.PEM


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
    authority = Authority.created("codedfl federation authority", days)
    issued = authority.for_listener(hosts, days)
    made.authority.write_bytes(authority.certificate)
    made.certificate.write_bytes(issued.certificate)
    write_private(made.key, [issued.key])
    return made


def make_node_key(folder: Path, name: str) -> Path:
    """A SuperNode's authentication key in OpenSSH's form, with the public one beside it in ``.pub``."""
    make_private_folder(folder)
    path = folder / name
    _check_new(path)
    key = ec.generate_private_key(_NODE_CURVE())
    openssh, open_ = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    write_private(path, [key.private_bytes(_PEM, openssh, open_)])
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_name(f"{name}.pub").write_bytes(public + b"\n")
    return path


def _check_new(path: Path) -> None:
    """What uses a key stops working when another takes its place."""
    if path.exists():
        raise InvalidInput(f"a key or certificate must not be overwritten: delete it first, got {str(path)!r}")

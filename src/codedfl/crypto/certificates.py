"""Certificates and requests for them, read: whom they name, and for which key they are. ``authority`` makes them."""

from __future__ import annotations

import hashlib

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from codedfl.errors import InvalidInput

CURVE = ec.SECP256R1  # a thousand devices that connect at once are a thousand signatures of the broker
MOST_NAME = 64  # characters of a common name, by X.520


def read_request(name: str, request: bytes) -> x509.CertificateSigningRequest:
    """A request that says this name and is signed by the key that it is for; any other is refused."""
    check_name(name)
    try:
        found = x509.load_pem_x509_csr(request)
        public, fits = found.public_key(), found.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidInput(f"the certificate request of {name!r} must be PKCS#10 as PEM, got something else") from None
    if not fits or not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, CURVE):
        raise InvalidInput(
            f"the certificate request of {name!r} must be signed by its own key on {CURVE.name}, got another signature"
            " or key"
        )
    if (said := common_name(found)) != name:
        raise InvalidInput(f"the certificate request must be for {name!r}, got one for {said!r}")
    return found


def read_certificate(certificate: bytes) -> x509.Certificate:
    """One certificate from its PEM; anything else is refused."""
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise InvalidInput(f"the certificate must be PEM, got something else ({error})") from None


def common_name(found: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Whom a certificate or a request names; empty where it names nobody."""
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def key_digest(found: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """32 hex digits of SHA-256 over the public key, a point of the curve: which key a certificate or request is for."""
    public = found.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise InvalidInput(
            f"the certificate of {common_name(found)!r} must be for a key on {CURVE.name}, got another kind"
        )
    point = public.public_numbers()
    return hashlib.sha256(f"{public.curve.name}|{point.x}|{point.y}".encode()).hexdigest()[:32]


def check_name(name: str) -> None:
    """Refuse a name that no certificate can have."""
    if not 1 <= len(name) <= MOST_NAME:
        raise InvalidInput(f"a name in a certificate must have 1 to {MOST_NAME} characters, got {name[:80]!r}")

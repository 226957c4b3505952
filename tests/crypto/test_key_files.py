"""Key files, rosters and certificates."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from codedfl.crypto.key_files import load_identity
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput
from codedfl.flower.certificates import make_certificate, make_node_key
from codedfl.private_files import make_private_folder, write_private
from wording import exactly


def test_a_key_file_is_made_once_and_closed_to_others(tmp_path: Path):
    first = load_identity(tmp_path / "keys" / "device.key")
    assert load_identity(tmp_path / "keys" / "device.key").public == first.public
    assert load_identity(tmp_path / "keys" / "other.key").public != first.public
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "keys" / "device.key").stat().st_mode) == 0o600


def test_a_key_file_or_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Closed as it may be: its owner can open it again. The mode alone was looked at before."""
    path = tmp_path / "keys" / "device.key"
    load_identity(path)
    owner = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    for what, place, call in (
        ("the key file", path, lambda: load_identity(path)),
        ("the private folder", path.parent, lambda: make_private_folder(path.parent)),
    ):
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0
        message = f"{what} must belong to the user who runs this ({owner + 1}), got one of user {owner}: {place}"
        with pytest.raises(InvalidInput, match=exactly(message)):
            call()


def test_of_two_processes_that_make_a_key_file_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "keys" / "device.key"
    write = write_private
    others: list[Identity] = []

    def write_after_another(candidate: Path, pieces: Any) -> None:
        monkeypatch.setattr("codedfl.crypto.key_files.write_private", write)
        others.append(load_identity(path))
        write(candidate, pieces)

    monkeypatch.setattr("codedfl.crypto.key_files.write_private", write_after_another)
    assert load_identity(path).public == others[0].public
    assert [entry.name for entry in path.parent.iterdir()] == ["device.key"]


def test_existing_keys_and_certificates_are_not_overwritten(tmp_path: Path):
    key = make_node_key(tmp_path / "keys", "node-0")
    made = make_certificate(tmp_path / "tls", ["localhost"])
    before = key.read_bytes(), made.key.read_bytes()
    rule = "a key or certificate must not be overwritten: delete it first, got "
    with pytest.raises(InvalidInput, match=exactly(f"{rule}{str(key)!r}")):
        make_node_key(tmp_path / "keys", "node-0")
    with pytest.raises(InvalidInput, match=exactly(f"{rule}{str(made.authority)!r}")):
        make_certificate(tmp_path / "tls", ["localhost"])
    made.authority.unlink()
    made.certificate.unlink()
    with pytest.raises(InvalidInput, match=exactly(f"{rule}{str(made.key)!r}")):
        make_certificate(tmp_path / "tls", ["localhost"])
    assert (key.read_bytes(), made.key.read_bytes()) == before


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path):
    tmp_path.chmod(0o700)
    path = tmp_path / "device.key"
    load_identity(path)
    path.chmod(0o640)
    with pytest.raises(
        InvalidInput, match=exactly(f"the key file must be closed to other users (chmod go= {path}), got mode 0640")
    ):
        load_identity(path)


@pytest.mark.parametrize("content", ["", "xyz", "ab" * 31, "ab" * 33])
def test_a_damaged_key_file_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "device.key"
    path.write_text(content)
    path.chmod(0o600)
    message = f"the key file must hold 32 bytes in hex, got something else in {str(path)!r}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        load_identity(path)


def test_the_certificate_is_for_its_hosts_and_signed_by_its_authority(tmp_path: Path):
    made = make_certificate(tmp_path / "certificates", ["fl.example.org", "127.0.0.1"])
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    authority = x509.load_pem_x509_certificate(made.authority.read_bytes())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.example.org"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(made.certificate, made.key)


def test_a_node_key_is_what_flower_wants(tmp_path: Path):
    path = make_node_key(tmp_path / "keys", "node-0")
    private = load_ssh_private_key(path.read_bytes(), None)
    public = load_ssh_public_key(path.with_name("node-0.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey) and isinstance(public, ec.EllipticCurvePublicKey)
    assert private.public_key().public_numbers() == public.public_numbers()
    assert public.curve.name == "secp384r1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

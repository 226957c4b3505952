"""A broker's folder: closed, complete, and with access lists that let a device do no more than it must."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from codedfl.contract.names import SERVER_NAME
from codedfl.crypto.authority import Requested
from codedfl.errors import InvalidInput
from codedfl.mqtt.broker_folder import BrokerFolder, may_publish, may_read
from codedfl_lab.training.local_party import local_party


@pytest.fixture
def folder(tmp_path: Path) -> BrokerFolder:
    return BrokerFolder.create(tmp_path / "broker", ["127.0.0.1", "fl.example.org"], 18883)


def requested(name: str) -> str:
    return Requested.created(name).request.decode()


def test_a_party_is_admitted_by_the_request_for_its_key(folder: BrokerFolder, tmp_path: Path):
    for name in ("device-0", SERVER_NAME):
        party = local_party(folder, name, tmp_path / name)
        assert party.named()[0] == name
        party.context()  # certificate and key belong together
    assert BrokerFolder(folder.path).url == "mqtts://127.0.0.1:18883"


def test_it_has_no_private_key_but_its_own(folder: BrokerFolder):
    folder.admit("device-0", requested("device-0"))
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    secret = [path for path in folder.path.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert sorted(path.name for path in secret) == ["broker.key", "ca.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


def test_the_same_request_has_the_same_certificate_while_half_of_its_time_is_left(
    folder: BrokerFolder, monkeypatch: pytest.MonkeyPatch
):
    request = requested("device-0")
    first = folder.admit("device-0", request)
    assert folder.admit("device-0", request) == first
    other = folder.admit("device-0", requested("device-0"))
    assert len({first, other, folder.admit("device-0", request)}) == 3
    with monkeypatch.context() as patch:
        patch.setattr("codedfl.mqtt.broker_folder.DAYS", 800)
        assert folder.admit("device-0", request) != first


@pytest.mark.parametrize(
    ("name", "request_of", "message"),
    [
        ("device-0", "device-1", "the certificate request must be for 'device-0', got one for 'device-1'"),
        ("../up", "up", "a party's name must be printable, without spaces, / \\ + # and a dot in front, got '../up'"),
        ("device-0", "", "the certificate request of 'device-0' must be PKCS#10 as PEM, got something else"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(folder: BrokerFolder, name: str, request_of: str, message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
        folder.admit(name, requested(request_of) if request_of else "junk")
    assert not list((folder.path / "parties").iterdir())


def test_a_request_must_be_signed_by_the_key_that_it_is_for(folder: BrokerFolder):
    """Or somebody could have another's public key certified in his own name."""
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "device-0")])
    other = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    good = x509.load_pem_x509_csr(requested("device-0").encode()).public_bytes(serialization.Encoding.DER)
    spoiled = x509.load_der_x509_csr(good[:-1] + bytes([good[-1] ^ 1]))
    for one in (other, spoiled):
        with pytest.raises(InvalidInput, match=r"must be signed by its own key on secp256r1, got another signature or"):
            folder.admit("device-0", one.public_bytes(serialization.Encoding.PEM).decode())


def test_the_configuration_of_mosquitto_says_who_and_how_much(folder: BrokerFolder):
    lines = (folder.path / "mosquitto.conf").read_text().splitlines()
    for line in (
        "listener 18883 0.0.0.0",
        "require_certificate true",
        "use_identity_as_username true",
        "allow_anonymous false",
        f"acl_file {folder.path / 'acl'}",
        f"crlfile {folder.path / 'revoked.pem'}",
        "max_packet_size 131072",
        "max_queued_bytes 33554432",
        "persistence false",
    ):
        assert line in lines
    assert (folder.path / "acl").read_text().splitlines()[1:] == [
        "user codedfl-server",
        "topic readwrite codedfl/#",
        "",
        "pattern write codedfl/+/%u/out",
        "pattern write codedfl/+/%u/here",
        "pattern read codedfl/+/%u/in",
        "pattern read codedfl/+/server",
    ]


@pytest.mark.parametrize(
    ("name", "topic", "publish", "read"),
    [
        ("device-0", "codedfl/digits/device-0/out", True, False),
        ("device-0", "codedfl/digits/device-0/here", True, False),
        ("device-0", "codedfl/digits/device-0/in", False, True),
        ("device-0", "codedfl/digits/server", False, True),
        ("device-0", "codedfl/digits/device-1/out", False, False),
        ("device-0", "codedfl/digits/device-1/in", False, False),
        ("device-0", "codedfl/digits/+/in", False, False),
        ("device-0", "codedfl/#", False, False),
        ("device-0", "#", False, False),
        ("device-0", "elsewhere", False, False),
        ("", "codedfl/digits/device-0/out", False, False),
        (SERVER_NAME, "codedfl/digits/device-0/in", True, True),
        (SERVER_NAME, "codedfl/digits/+/out", True, True),
        (SERVER_NAME, "elsewhere", False, False),
    ],
)
def test_who_may_do_what(name: str, topic: str, publish: bool, read: bool):
    assert (may_publish(name, topic), may_read(name, topic)) == (publish, read)


def test_a_revoked_certificate_is_on_the_list_and_its_key_is_not_let_in_again(folder: BrokerFolder):
    requests = [requested("device-1") for _ in range(2)]
    lost = [x509.load_pem_x509_certificate(folder.admit("device-1", one).encode()).serial_number for one in requests]
    folder.revoke("device-1")
    listed = x509.load_pem_x509_crl((folder.path / "revoked.pem").read_bytes())
    assert {entry.serial_number for entry in listed} == set(lost)
    with pytest.raises(InvalidInput, match=r"^the party must be one that has a certificate here, got 'device-1'$"):
        folder.revoke("device-1")
    for one in requests:
        with pytest.raises(
            InvalidInput, match=r"^the request of 'device-1' must be for a key that was not revoked, got"
        ):
            folder.admit("device-1", one)
    fresh = x509.load_pem_x509_certificate(folder.admit("device-1", requested("device-1")).encode())
    assert fresh.serial_number not in lost


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1883), "hosts must name at least one name or address of the broker, got none"),
        ((["h"], 0), "port must be between 1 and 65535, got 0"),
    ],
)
def test_bad_arguments_leave_no_folder(tmp_path: Path, arguments: tuple[list[str], int], message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerFolder.create(tmp_path / "broker", *arguments)
    assert not (tmp_path / "broker").exists()


def test_a_folder_in_use_is_not_overwritten(folder: BrokerFolder):
    message = f"the broker's folder must be new or empty, got {str(folder.path)!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerFolder.create(folder.path, ["localhost"])


def test_another_folder_is_refused(tmp_path: Path):
    message = f"the broker's folder must be one of codedfl broker new, got {str(tmp_path)!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerFolder(tmp_path)


def test_an_unknown_program_is_refused(folder: BrokerFolder):
    with pytest.raises(InvalidInput, match=r"^the broker's program must be mosquitto \(installed\) or small, got 'x'$"):
        folder.start("x")

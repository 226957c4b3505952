"""A broker's folder: closed, complete, and with access lists that let a device do no more than it must."""

from __future__ import annotations

import re
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from codedfl.errors import InvalidInput
from codedfl.mqtt.broker_folder import SERVER_NAME, BrokerFolder, may_publish, may_read


@pytest.fixture
def folder(tmp_path: Path) -> BrokerFolder:
    return BrokerFolder.create(tmp_path / "broker", ["127.0.0.1", "fl.example.org"], ["device-0", "device-1"], 18883)


def common_name(path: Path) -> str:
    subject = x509.load_pem_x509_certificate(path.read_bytes()).subject
    return str(subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def test_every_party_has_a_certificate_with_its_name(folder: BrokerFolder):
    for name in ("device-0", "device-1", SERVER_NAME):
        party = folder.party(name)
        assert common_name(party.certificate) == name
        context = ssl.create_default_context(cafile=party.authority)
        context.load_cert_chain(party.certificate, party.key)  # they belong together
    assert BrokerFolder(folder.path).port == 18883


def test_keys_are_closed_to_other_users(folder: BrokerFolder):
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    keys = list(folder.path.rglob("*.key"))
    assert len(keys) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


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


def test_a_revoked_certificate_is_on_the_list_and_can_be_replaced(folder: BrokerFolder):
    lost = x509.load_pem_x509_certificate(folder.party("device-1").certificate.read_bytes())
    folder.revoke("device-1")
    listed = x509.load_pem_x509_crl((folder.path / "revoked.pem").read_bytes())
    assert [entry.serial_number for entry in listed] == [lost.serial_number]
    with pytest.raises(InvalidInput, match=r"^the party must be one that has a certificate here, got 'device-1'$"):
        folder.party("device-1")
    fresh = x509.load_pem_x509_certificate(folder.add("device-1").certificate.read_bytes())
    assert fresh.serial_number != lost.serial_number
    folder.revoke("device-1")
    listed = x509.load_pem_x509_crl((folder.path / "revoked.pem").read_bytes())
    assert {entry.serial_number for entry in listed} == {lost.serial_number, fresh.serial_number}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], ["a"], 1883), "hosts must name at least one name or address of the broker, got none"),
        ((["h"], ["a"], 0), "port must be between 1 and 65535, got 0"),
        ((["h"], ["a", "a"], 1883), "devices must be named once each, got a, a"),
        ((["h"], [SERVER_NAME], 1883), f"a device's name must not be that of the server, got {SERVER_NAME!r}"),
        (
            (["h"], ["a/b"], 1883),
            "a device's name must be printable, without spaces, / \\ + # and a dot in front, got 'a/b': write 'a-b'",
        ),
    ],
)
def test_bad_arguments_leave_no_folder(tmp_path: Path, arguments: tuple[list[str], list[str], int], message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerFolder.create(tmp_path / "broker", *arguments)
    assert not (tmp_path / "broker").exists()


def test_a_folder_in_use_is_not_overwritten(folder: BrokerFolder):
    message = f"the broker's folder must be new or empty, got {str(folder.path)!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerFolder.create(folder.path, ["localhost"], [])
    message = "a device with a certificate must be revoked before it gets another, got 'device-0'"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        folder.add("device-0")


def test_another_folder_is_refused(tmp_path: Path):
    message = f"the broker's folder must be one of codedfl broker new, got {str(tmp_path)!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerFolder(tmp_path)


def test_an_unknown_program_is_refused(folder: BrokerFolder):
    with pytest.raises(InvalidInput, match=r"^the broker's program must be mosquitto \(installed\) or small, got 'x'$"):
        folder.start("x")

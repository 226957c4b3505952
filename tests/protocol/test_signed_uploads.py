"""An upload of role keys is signed, and with z >= 1 not sealed: its pads hide it from whoever has at most z roles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from crafted import refused
from role_runs import scenario_of

from codedfl.crypto.sealed import fingerprint
from codedfl.protocol.messages import SERVER, Kind, Message, Shares
from scenario import Network, decoded

SENDER = "device-0"


def uploaded(colluders: int) -> tuple[Network, Message]:
    """A run with all uploads on their way, and one of them."""
    network = Network.of(scenario_of(colluders))
    network.run_until(Kind.SHARES)
    return network, next(decoded(list(network.up[SENDER]), Kind.SHARES))


def again(network: Network, message: Message, **changes: Any) -> bytes:
    """Changed, and signed by its sender all the same."""
    return replace(message, **changes).signed_by(network.devices[SENDER].identity).encode()


def test_with_colluders_the_padded_numbers_travel_as_they_are():
    network, message = uploaded(1)
    p, ring = network.server.parameters, network.server.agreement.ring
    assert len(message.attachment) == ring.bytes_per_number * (p.triangle_length + p.constant_length)
    assert Shares.decode(message.body).for_server == b""


def not_signed(network: Network, name: str) -> str:
    key = fingerprint(network.devices[name].identity.public)
    return f"the signature must be by key {key}: it is not, or was damaged"


@pytest.mark.parametrize("place", [0, -1])
def test_one_byte_changed_on_the_way_is_refused(place: int):
    network, message = uploaded(1)
    damaged = bytearray(message.attachment)
    damaged[place] ^= 1
    refused(network.server, replace(message, attachment=bytes(damaged)).encode(), not_signed(network, SENDER))


def test_an_upload_in_the_name_of_another_device_or_agreement_is_refused():
    network, message = uploaded(1)
    refused(network.server, replace(message, sender="device-1").encode(), not_signed(network, "device-1"))
    words = "the message must belong to the frozen participant set: it names another"
    refused(network.server, again(network, message, agreement=bytes(32)), words)


def test_a_shorter_upload_is_refused_also_if_it_is_signed():
    network, message = uploaded(1)
    count, size = 19, len(message.attachment)
    words = f"{count} ring numbers must take {size} bytes, got {size - 1}"
    refused(network.server, again(network, message, attachment=message.attachment[:-1]), words)


def test_a_sealed_one_is_refused_with_colluders():
    network, message = uploaded(1)
    shares = replace(Shares.decode(message.body), for_server=bytes(48))
    words = "the upload of 'device-0' must travel as it is with z >= 1: it is sealed"
    refused(network.server, again(network, message, body=shares.encode()), words)


def test_without_colluders_it_stays_sealed_and_a_plain_one_is_refused():
    """Every holder has the whole pad then."""
    network, message = uploaded(0)
    header = Message(Kind.SHARES, message.run, message.agreement, SENDER, SERVER)
    sealed = Shares.decode(message.body).for_server
    assert len(network.opened(header.with_body(sealed))) > 64  # content key and digest
    plain = replace(Shares.decode(message.body), for_server=b"")
    words = "a sealed message must have at least 48 bytes, got 0"
    refused(network.server, again(network, message, body=plain.encode()), words)

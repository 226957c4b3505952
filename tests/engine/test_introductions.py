"""Who a device is: the key and the name it introduced itself with, for the whole of a run, with a roster or without."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.crypto.sealed import Identity, fingerprint, verify
from codedfl.engine.calls import Call, Hello, Introduction, Refused, Reply, Step, introduction_text
from codedfl.engine.conductor import Conductor
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.directory import Contact, Directory
from codedfl.engine.letters import Parcel
from codedfl.errors import MessageRefused
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.server import Server
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.run.in_process import run_in_process
from fake_post import FakePost, make_conductor, make_hosts, party_of
from scenario import Scenario, descent, repeatable, wire

VICTIM, THIEF = "device-0", "device-4"


class Impostor(DeviceHost):
    """Introduces itself truly, and then joins in the name of another as well, with a key of its own."""

    def handle(self, call: Call) -> Reply:
        reply = super().handle(call)
        if not isinstance(call, Step) or not isinstance(reply, Parcel):
            return reply
        for letter in call.parcel.letters:
            if Message.decode(letter.head).kind is Kind.INVITATION:
                identity = Identity.generate(repeatable("a key of the thief's own"))
                lab = party_of(self)
                rows = Rows(*lab.scenario.data[lab.index])
                puppet = Device(lab.scenario.plan, VICTIM, rows, identity=identity)
                (join,) = wire(puppet.receive(letter.head))
                return replace(reply, newest=join)
        return reply


def with_impostor(scenario: Scenario, folder: Path) -> FakePost:
    """The thief is quick, its victim slow to join."""
    hosts = make_hosts(scenario, folder)
    for node, host in list(hosts.items()):
        if host.name == THIEF:
            hosts[node] = Impostor(**{name: getattr(host, name) for name in host.__dataclass_fields__})
    slow = {VICTIM: 30.0}
    return FakePost(hosts, delay=lambda host, call: slow.get(host.name, 0.3) if isinstance(call, Step) else 0.1)


class TakesAnyName(Conductor):
    """The rule as it was: whoever brings a message may bring it in any name, and the first key of a name counts."""

    def _unpack(self, server: Server, contact: Contact, reply: Parcel) -> None:
        receive = server.receive
        server.receive = lambda data, bulk=b"", sender=None: receive(data, bulk)  # type: ignore[method-assign]
        try:
            super()._unpack(server, contact, reply)
        finally:
            del server.receive


def conductor_without_rules(scenario: Scenario, post: FakePost, folder: Path) -> Conductor:
    made = make_conductor(scenario, post, folder, descent)
    make_server = made._make_server

    def trusting(introduced: Mapping[str, bytes]) -> Server:
        server = make_server(introduced)
        server.joining._roster = None
        return server

    made.__class__ = TakesAnyName
    made._make_server = trusting
    return made


def test_under_the_old_rule_a_peer_joins_in_anothers_name(scenario: Scenario, tmp_path: Path):
    post = with_impostor(scenario, tmp_path)
    conductor = conductor_without_rules(scenario, post, tmp_path)

    def tick() -> None:
        if conductor.server is not None and VICTIM in conductor.server.joined:
            raise InterruptedError

    post.tick = tick
    with pytest.raises(InterruptedError):
        conductor.run()
    assert conductor.server is not None
    joined = conductor.server.joining._joined[VICTIM]
    assert post.hosts[100].identity.public not in (joined, getattr(joined, "identity", None))


def test_a_join_over_another_contact_is_refused_and_in_the_log(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    post = with_impostor(scenario, tmp_path)
    model = make_conductor(scenario, post, tmp_path, descent).run()
    assert np.array_equal(model, run_in_process(scenario.server(), scenario.devices()))
    said = [text for _, level, text in caplog.record_tuples if level == logging.ERROR]
    assert said == [
        f"a message of {THIEF} is refused: a message must be in the name under which its device introduced itself"
        f" ({THIEF!r}), got {VICTIM!r}"
    ]


def test_the_keys_of_the_introductions_are_the_roster_of_the_run(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    conductor = make_conductor(scenario, post, tmp_path, descent)
    conductor.run()
    assert conductor.server is not None
    assert conductor.server.joining._roster == {host.name: host.identity.public for host in post.hosts.values()}


# -- what is signed


def former_text(challenge: bytes, name: str) -> bytes:
    """The rule as it was."""
    return b"codedfl introduction v1|" + challenge + name.encode()


def test_under_the_old_rule_one_name_passes_for_another():
    identity = Identity.generate(repeatable("3"))
    signature = identity.sign(former_text(b"0123456789device-", "3"))
    verify(identity.public, former_text(b"0123456789", "device-3"), signature)


def test_a_signature_holds_for_one_name_one_challenge_and_one_server():
    identity = Identity.generate(repeatable("3"))
    asked = Hello(b"0123456789", b"server")
    signature = identity.sign(introduction_text(asked, "device-3"))
    verify(identity.public, introduction_text(asked, "device-3"), signature)
    for other, name in (
        (Hello(b"0123456789device-", b"server"), "3"),
        (Hello(b"0123456789", b"serve"), "device-3"),
        (Hello(b"r0123456789", b"serve"), "device-3"),
        (Hello(b"0123456789", b""), "device-3"),
    ):
        with pytest.raises(MessageRefused, match=r"^the signature must be by key"):
            verify(identity.public, introduction_text(other, name), signature)


def host_of(scenario: Scenario, folder: Path, **options: Any) -> DeviceHost:
    return make_hosts(scenario, folder, **options)[100]


def test_a_node_introduces_itself_to_its_own_server_only(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    host, other = host_of(scenario, tmp_path), Identity.generate(repeatable("other")).public
    assert isinstance(host.handle(Hello(b"x", host.server_public)), Introduction)
    for key in (other, b""):
        assert host.handle(Hello(b"x", key)) == Refused(DOES_NOT_TAKE_PART)
    rule = f"the server's key must be {fingerprint(host.server_public)}, got {fingerprint(other)}"
    assert f"{host.name} refuses: {rule}" in caplog.messages


def test_an_introduction_made_for_another_server_is_not_taken(scenario: Scenario, tmp_path: Path):
    """A server that asks a device on behalf of another gets nothing it could use there."""
    host = host_of(scenario, tmp_path)
    post = FakePost({100: host})
    true = Identity.generate(repeatable("server")).public
    for asked_for, met in ((true, []), (host.server_public, ["device-0"])):
        directory = Directory(post, None, post.clock, server_public=asked_for)
        directory.look()
        ((number, (_, hello)),) = directory._hellos.items()
        assert hello is not None and hello.server_public == asked_for
        directory.take(number, host.handle(replace(hello, server_public=host.server_public)))
        assert list(directory.contacts) == met


def test_a_fingerprint_has_128_bits():
    assert len(fingerprint(bytes(32))) == 32

"""The device's roster of pinned keys, and what a lying relay reads without one."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
from crafted import EVE, EVES_KEY, from_server, refused

import oracle
from codedfl.crypto import sealed
from codedfl.crypto.sealed import fingerprint
from codedfl.protocol.agreement import Member, seated
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Kind, Message, Secrets, Shares
from scenario import Network, Scenario, decoded, descent, wire


class Relay:
    """A server that replaces a device's key by its own in the agreement, so as to read what is sealed for it."""

    def __init__(self, *, pinned: bool) -> None:
        self.scenario = Scenario(owners=4)
        server = self.scenario.server()
        terms = self.scenario.terms(server) if pinned else None
        self.network = Network(server, self.scenario.devices(terms=terms))
        self.network.send(self.network.server.invite())
        self.network.run_until(Kind.AGREEMENT)
        true = self.network.server.agreement
        self.lie = replace(true, members=seated([self._swapped(member) for member in true.members], true.run, 1))
        self.data = from_server(self.network, Kind.AGREEMENT, self.lie.encoded)

    def _swapped(self, member: Member) -> Member:
        """device-3's join as Eve would have made it: she signs for her own keys, having no other."""
        if member.name != "device-3":
            return member
        statement = self.network.server.invitation.join_statement(member.name, EVES_KEY.public)
        return replace(member, identity=EVE.public, run_key=EVES_KEY.public, signature=EVE.sign(statement))

    @property
    def victim(self) -> Device:
        return self.network.devices["device-0"]


def test_a_lying_relay_is_caught_by_the_roster():
    relay = Relay(pinned=True)
    message = (
        f"the key of 'device-3' must be {fingerprint(relay.scenario.roster['device-3'])} as on the roster,"
        f" got {fingerprint(EVE.public)}: the relay may be lying"
    )
    refused(relay.victim, relay.data, message)
    # With the truth all goes well.
    relay.network.run()
    assert np.array_equal(relay.network.server.model, relay.scenario.expected_models(descent())[-1])


def test_without_a_roster_a_lying_relay_reads_the_data():
    """This is what the roster is for: the swapped key opens what device-0 seals for device-3, and the server knows
    the pad, so X'X of device-0 lies open."""
    relay = Relay(pinned=False)
    victim, server = relay.victim, relay.network.server
    victim.receive(relay.data)
    pad_seed = bytes(32)
    header = Message(Kind.PAD_SEED, server.run, relay.lie.hash, SERVER, "device-0")
    seal = relay.network.sealed(header, "device-0", pad_seed)
    (shares,) = decoded(wire(victim.receive(header.with_body(seal).encode())), Kind.SHARES)
    envelope = Shares.decode(shares.body).envelopes["device-3"]
    context = replace(shares, kind=Kind.SHARE, receiver="device-3").context()
    victims_key = relay.network.run_keys["device-0"].public
    secrets = Secrets.decode(sealed.open_sealed(EVES_KEY, victims_key, context, envelope))
    padded = sealed.decrypt_bulk(secrets.content_key, shares.context(), secrets.digest, shares.attachment)
    ring = relay.lie.fixed_point.ring
    recovered = []
    for x in range(10):
        residues = []
        for k, prime in enumerate(ring.primes):
            pad = list(islice(oracle.pad_residues(pad_seed, "gram", k, prime), 10))
            residues.append((int.from_bytes(padded[30 * k + 3 * x :][:3], "little") - pad[x]) % prime)
        recovered.append(oracle.from_residues(residues, ring.primes))
    gram = relay.scenario.totals(server.agreement).grams[0]
    assert recovered == [gram[a][b] for a in range(4) for b in range(a, 4)]

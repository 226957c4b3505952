"""What a server may choose: every field of every message it sends is changed, and the honest device refuses.

What it accepts all the same is listed in ``FREE`` with the reason why any choice of it is safe. The server here has its
own key and signs every lie properly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from crafted import EVE, EVES_KEY, refused
from pod_runs import SERVERS_IDENTITY, PodScenario, drive
from test_state import plain

from codedfl.crypto.sealed import Identity, RunKey, fingerprint
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.privacy.calibration import noise_for
from codedfl.protocol.agreement import Agreement, Invitation, Member, Parameters, seated
from codedfl.protocol.contribution import WholeNumbers
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Commitments, Kind, Message, Share, Update, pack_list
from codedfl.protocol.owner_list import Certificate, OwnerList
from codedfl.protocol.role_key import RoleKey, decode_keys, encode_keys, signed_role_key
from codedfl.protocol.schemes.role_keys import ROLE_SUMS
from codedfl.protocol.server_session import Phase
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, StepSchedule
from scenario import Network, joined, snapshot, wire
from wording import exactly

NOISE = noise_for(2.0, 1e-5, 2, clip_norm=1.5)
FREE = {
    # The envelope.
    "* sender": "nobody reads it of what the server signs itself",
    "* attachment": "nobody reads it",
    "invitation agreement": "nobody reads it: there is no agreement yet",
    "agreement agreement": "nobody reads it: the agreement is in the body",
    # The invitation.
    "invitation run": "an id that pads are made for; seeds are new in every run anyway",
    "invitation server_key": "what is sealed to the server, the server may have",
    # The agreement.
    "agreement members: one is missing": "its pod is in no list then",
    "agreement members: a whole pod is missing": "as many owners as agreed on must be on the list",
    "agreement members: no helper": "helpers have no data",
    "agreement roles": "z devices hold z roles at most, whichever; the pads of one more stay unknown",
    # Phase 1.
    "roll-call body": "it asks for nothing but names",
    "owners: one pod less": "what is told is a sum over whole pods",
    "owners: another digest of an upload": "no answer is made of uploads; the server has them and harms its own total",
    "agreement members: run_key": "whoever seals to it checks the join; what counts is signed for the agreement",
    "agreement members: signature": "as with a run key",
    "role-key-wanted: all co-holders": "they are entitled to the key, and their joins are checked",
    "role-key-wanted: nobody": "the device signs the key that it has",
    "role-keys: without one of three signatures": "more than must sign have",
    "share signed by another": "who sealed it is its author, whoever relays it",
    "share not signed": "the same",
    "certificate signed by another": "the signatures in it are the devices'",
    "certificate not signed": "the same",
    "role-keys signed by another": "the same",
    "role-keys not signed": "the same",
    # Phase 2.
    "update epoch": "it only counts up, and a question counts whatever its number",
    "update fraction_bits": "nobody reads it: the server's own scale",
    "update numbers: another e": "within the number of questions agreed on",
    "update numbers: the constant": "the total that the run is for",
    "finish body": "nobody reads it: a server may end a run at any time",
}


ENVELOPES = (
    Kind.INVITATION,
    Kind.AGREEMENT,
    Kind.ROLE_KEYS,
    Kind.SHARE,
    Kind.OWNERS,
    Kind.CERTIFICATE,
    Kind.UPDATE,
    Kind.FINISH,
)

# -- the run that the lies are told in


def scenario_of(what: str) -> PodScenario:
    """d = 1, so that every field of the parameters can be changed alone to a value that is allowed by itself."""
    common: dict[str, Any] = {"d": 1, "c": 2, "helpers": ("helper-0",), "epochs": 3, "sizes": (2, 1, 3, 3, 1, 2)}
    changes = {"total": {"total_limit": 100, "epochs": 1, "owners": 0}}.get(what, {})
    return PodScenario(pod_sizes=(3, 3), noise=NOISE if what == "noise" else None, changes=changes, **common)


SCENARIO = scenario_of("rows")
ME = "device-1"


@cache
def stopped(kind: Kind) -> Network:
    network = SCENARIO.network()
    network.run_until(kind)
    return network


def signed(message: Message, author: Identity = SERVERS_IDENTITY) -> Message:
    return message.signed_by(author)


def from_server(network: Network, kind: Kind, body: bytes) -> Message:
    before = kind in (Kind.INVITATION, Kind.AGREEMENT)
    return Message(kind, network.server.run, b"" if before else network.server.agreement.hash, SERVER, SERVER, body)


def waiting(network: Network, kind: Kind, name: str = ME) -> Message:
    """The honest message of this kind that is on its way to a device."""
    return next(one for one in map(Message.decode, network.down[name]) if one.kind is kind)


def told(device: Device, message: Message) -> bool:
    """Whether a copy of the device takes the message; a refusal changes nothing, and tells nothing."""
    device = copy.deepcopy(device)
    before = snapshot(device)
    try:
        replies = [Message.decode(reply) for reply in wire(device.receive(message.encode()))]
    except MessageRefused:
        assert snapshot(device) == before
        return False
    if [reply.kind for reply in replies] == [Kind.REFUSAL]:
        assert replies[0].body.decode() == DOES_NOT_TAKE_PART
        assert device.objection and not device.invited
        return False
    return True


# -- the lies, by message


def invitations(scenario: PodScenario) -> Iterator[tuple[str, Message]]:
    network = scenario.network()
    honest = network.server.invitation
    assert {one.name for one in fields(honest)} == {"run", "server_public", "server_key", "parameters"}

    def telling(label: str, author: Identity = SERVERS_IDENTITY, **changes: Any) -> tuple[str, Message]:
        lie = replace(honest, **changes)
        message = Message(Kind.INVITATION, lie.run, b"", SERVER, SERVER, lie.encoded)
        return f"invitation {label}", signed(message, author)

    yield telling("run", run=b"another run's id")
    yield telling("server_public", EVE, server_public=EVE.public)
    yield telling("server_key", server_key=EVES_KEY.public)
    for name, value in other_parameters(honest.parameters):
        yield telling(f"parameters.{name}", parameters=value)


def other_parameters(true: Parameters) -> Iterator[tuple[str, Parameters]]:
    """Every field by itself, up and down where it is a number."""
    bounds = {
        one.name: (getattr(true.bounds, one.name) * 2, getattr(true.bounds, one.name) / 2) for one in fields(Bounds)
    }
    whole = {"samples", "samples_per_device"}
    for name, values in bounds.items():
        for value in values:
            changed = replace(true.bounds, **{name: max(1, int(value)) if name in whole else value})
            if changed != true.bounds:
                yield f"bounds.{name}", replace(true, bounds=changed)
    others: dict[str, list[Any]] = {
        "scheme": ["role-sums", "coded-keys", "no-such"],
        "alpha": [2],
        "n_features": [] if true.total_limit else [2],
        "n_outputs": [1, 3],
        "precision": [20],
        "samples": [] if true.noise else [12],
        "masks": [False],
        "groups": [2],
        "reveals_gram": [] if true.total_limit else [True],
        "epochs": [true.epochs + 1, max(1, true.epochs - 1)],
        "recipe": [b"r" * 32],
        "colluders": [0, 2],
        "noise": [] if true.total_limit else [None, NOISE, *other_noise(true.noise)],
        "owners": [5, 7, 0],
        "narrow": [] if true.total_limit or true.noise else [True],
        "total_limit": [0, 99, 101] if true.total_limit else [] if true.noise else [100],
    }
    assert {one.name for one in fields(Parameters)} == {*others, "bounds"}
    for name, wanted in others.items():
        for value in wanted:
            if value != getattr(true, name):
                yield name, replace(true, **{name: value})


def other_noise(true: RowNoise | None) -> list[RowNoise]:
    return [] if true is None else [replace(true, **{one.name: 1 + getattr(true, one.name)}) for one in fields(true)]


def agreements() -> Iterator[tuple[str, Message]]:
    network = stopped(Kind.AGREEMENT)
    honest = Agreement.decode(waiting(network, Kind.AGREEMENT).body)
    known = {"invitation", "members", "initial_model", "roles", "helpers", "blocks"}
    assert {one.name for one in fields(honest)} == known
    for one, lie in invitations(SCENARIO):
        elsewhere = replace(honest, invitation=Invitation.decode(lie.run, lie.body))
        yield f"agreement {one}", signed(from_server(network, Kind.AGREEMENT, elsewhere.encoded))
    theta = np.full(honest.initial_model.shape, 0.5)
    for label, changes in (
        ("initial_model", {"initial_model": theta}),
        ("roles", {"roles": tuple(1 - role for role in honest.roles)}),
        ("roles: none", {"roles": ()}),
        ("roles: one nobody holds", {"roles": tuple(0 for _ in honest.roles)}),
        ("roles: one too many", {"roles": tuple(role + 1 for role in honest.roles)}),
        ("roles: of fewer", {"roles": honest.roles[:-1]}),
        ("blocks: two of one row", {"blocks": tuple(i // 2 % 2 for i in range(len(honest.roles)))}),
        ("blocks: all are the reserve", {"blocks": (-1,) * len(honest.roles)}),
        ("helpers: none", {"helpers": ()}),
        ("helpers: an owner too", {"helpers": tuple(sorted({*honest.helpers, honest.position("device-3")}))}),
        ("helpers: I too", {"helpers": tuple(sorted({*honest.helpers, honest.position(ME)}))}),
        ("members: another order", {"members": honest.members[::-1]}),
    ):
        body = replace(honest, **changes).encoded
        yield f"agreement {label}", signed(from_server(network, Kind.AGREEMENT, body))
    for label, members in other_members(honest):
        seats = seated(members, honest.run, 1)
        roles = tuple(i % 2 for i in range(len(seats)))
        helpers = tuple(i for i, one in enumerate(seats) if one.name in SCENARIO.helpers)
        body = replace(honest, members=seats, roles=roles, helpers=helpers).encoded
        yield f"agreement members: {label}", signed(from_server(network, Kind.AGREEMENT, body))


def other_members(honest: Agreement) -> Iterator[tuple[str, list[Member]]]:
    members, invitation = list(honest.members), honest.invitation
    without = {name: [one for one in members if one.name != name] for name in honest.names}
    yield "one is missing", without["device-5"]
    yield "a whole pod is missing", [one for one in members if one.name not in SCENARIO.pods[1]]
    yield "no helper", without["helper-0"]
    yield "I am missing", without[ME]
    yield "a stranger", [*members, joined(invitation, "mallory")]
    yield "one twice", [*members, honest.member("device-5")]
    yield "another key for a name", [*without["device-5"], joined(invitation, "device-5")]
    yield "another key for me", [*without[ME], joined(invitation, ME)]
    true = honest.member("device-5")
    for one in fields(Member):
        value: Any = "device-9" if one.name == "name" else bytes(len(getattr(true, one.name)))
        yield one.name, [*without["device-5"], replace(true, **{one.name: value})]


def shares() -> Iterator[tuple[str, Message]]:
    network = stopped(Kind.SHARE)
    message = waiting(network, Kind.SHARE)
    share = Share.decode(message.body)
    other = "device-4" if message.sender != "device-4" else "device-5"
    digests = {purpose: bytes(32) for purpose in share.commitments.digests}
    lies = {
        "share commitments": replace(share, commitments=replace(share.commitments, digests=digests)),
        "share envelope": replace(share, envelope=share.envelope[:-1] + bytes([share.envelope[-1] ^ 1])),
        "share commitments by another": replace(
            share, commitments=Commitments(share.commitments.digests, EVE.sign(b"commitments"))
        ),
    }
    for label, lie in lies.items():
        yield label, signed(replace(message, body=lie.encode()))
    for sender in (other, "helper-0", "mallory"):
        yield f"share sender is {sender[:6]}", signed(replace(message, sender=sender))
    yield "roll-call body", signed(from_server(network, Kind.ROLL_CALL, b"anything"))


def lists() -> Iterator[tuple[str, Message]]:
    network = stopped(Kind.OWNERS)
    owners = network.server.sharing.owners.owners
    mine = next(i for i, one in enumerate(owners) if one.name == ME)
    pod = tuple(one for one in owners if one.name in SCENARIO.pods[0])
    upload = replace(owners[0], upload=bytes(32))
    for label, lie in {
        "owners: one pod less": pod,
        "owners: one owner less": owners[1:],
        "owners: nobody": (),
        "owners: another order": owners[::-1],
        "owners: one twice": (owners[0], *owners),
        "owners: a helper": (*owners, replace(owners[0], name="helper-0")),
        "owners: a stranger": (*owners, replace(owners[0], name="mallory")),
        "owners: other commitments of mine": (
            *owners[:mine],
            replace(owners[mine], commitments=bytes(32)),
            *owners[mine + 1 :],
        ),
        "owners: another digest of an upload": (upload, *owners[1:]),
    }.items():
        yield label, signed(from_server(network, Kind.OWNERS, OwnerList(tuple(lie)).encoded))


def certificates() -> Iterator[tuple[str, Message]]:
    network = stopped(Kind.CERTIFICATE)
    agreed, true = network.server.agreement, Certificate.decode(waiting(network, Kind.CERTIFICATE).body)
    first, *rest = true.signatures
    others = OwnerList(tuple(one for one in network.server.sharing.owners.owners if one.name in SCENARIO.pods[0]))
    elsewhere = {name: others.signed_by(SCENARIO.identity(name), agreed) for name in true.signatures}
    for label, signatures in {
        "one less": {name: true.signatures[name] for name in rest},
        "one damaged": {**true.signatures, first: bytes(64)},
        "one by another": {**true.signatures, first: true.signatures[rest[0]]},
        "a stranger": {**true.signatures, "mallory": bytes(64)},
        "on another list": elsewhere,
    }.items():
        yield f"certificate: {label}", signed(from_server(network, Kind.CERTIFICATE, Certificate(signatures).encode()))


def wishes() -> Iterator[tuple[str, Message]]:
    network = stopped(Kind.OWNERS)
    agreed = network.server.agreement
    role = agreed.roles[agreed.position(ME)]
    mates = [name for name, one in zip(agreed.names, agreed.roles, strict=True) if one == role and name != ME]
    others = [name for name, one in zip(agreed.names, agreed.roles, strict=True) if one != role]
    for label, receivers in (
        ("all co-holders", mates),
        ("nobody", []),
        ("one of another role", [*mates, others[0]]),
        ("a stranger", ["mallory"]),
        ("me", [ME]),
    ):
        yield f"role-key-wanted: {label}", signed(from_server(network, Kind.ROLE_KEY_WANTED, pack_list(receivers)))


def keys() -> Iterator[tuple[str, Message]]:
    """Shown to the device, which is of role 0 or 1; the lies are about the other role."""
    network = stopped(Kind.ROLE_KEYS)
    agreed = network.server.agreement
    role = 1 - agreed.roles[agreed.position(ME)]
    true = decode_keys(waiting(network, Kind.ROLE_KEYS).body, agreed)
    holders = [name for name, one in zip(agreed.names, agreed.roles, strict=True) if one == role]
    mine = [name for name, one in zip(agreed.names, agreed.roles, strict=True) if one != role]
    drawn = RunKey(bytes(31) + b"1").public

    def by(names: Sequence[str], public: bytes, of: Agreement = agreed, as_role: int = role) -> RoleKey:
        return RoleKey(public, {n: signed_role_key(SCENARIO.identity(n), of, as_role, public) for n in names})

    public, (first, second) = true[role].public, true[role].signatures
    again = replace(agreed, invitation=replace(agreed.invitation, run=bytes(16)))
    for label, lie in {
        "one signature": RoleKey(public, {first: true[role].signatures[first]}),
        "none": RoleKey(public, {}),
        "without one of three signatures": by(holders[:2], public),
        "one signer twice by another name": RoleKey(public, {first: true[role].signatures[first], second: bytes(64)}),
        "another key": RoleKey(drawn, true[role].signatures),
        "signed by holders of the other role": by(mine[:2], drawn),
        "signed as the other role's": by(holders[:2], drawn, as_role=1 - role),
        "of another run": by(holders[:2], drawn, again),
        "signed by a stranger": RoleKey(drawn, {"mallory": bytes(64), first: bytes(64)}),
        "too short": RoleKey(public[:-1], true[role].signatures),
    }.items():
        shown = [lie if one == role else key for one, key in enumerate(true)]
        yield f"role-keys: {label}", from_server(network, Kind.ROLE_KEYS, encode_keys(shown))
    yield "role-keys: in another order", from_server(network, Kind.ROLE_KEYS, encode_keys(true[::-1]))
    yield "role-keys: one less", from_server(network, Kind.ROLE_KEYS, encode_keys(true[:1]))
    yield "role-keys: one more", from_server(network, Kind.ROLE_KEYS, encode_keys([*true, true[0]]))


def updates() -> Iterator[tuple[str, Message]]:
    network = after_two_updates()
    ring = network.server.agreement.ring

    def packed(*numbers: float) -> bytes:
        return ring.pack(ring.from_integers(np.array([numbers])))

    for label, update in {
        "epoch: zero": Update(0, 0, packed(1, 2)),
        "epoch: the first again": Update(1, 0, b""),
        "epoch: the last, another e": Update(2, 0, packed(3, 4)),
        "epoch": Update(77, 0, packed(3, 4)),
        "fraction_bits": Update(3, 5000, packed(3, 4)),
        "numbers: another e": Update(3, 0, packed(3, 4)),
        "numbers: the constant": Update(3, 0, b""),
        "numbers: too few": Update(3, 0, packed(3)),
        "numbers: too many": Update(3, 0, packed(3, 4, 5)),
        "numbers: beyond the ring": Update(3, 0, b"\xff" * len(packed(3, 4))),
    }.items():
        yield f"update {label}", signed(from_server(network, Kind.UPDATE, update.encode()))


@cache
def after_two_updates() -> Network:
    """The constant and one e were answered; three questions were agreed on, the constant among them."""
    network = SCENARIO.network()
    network.run_until(Kind.UPDATE)
    for name in SCENARIO.everybody:
        network.deliver(("down", name))
    while any(Message.decode(network.next_on(link)).kind is Kind.ANSWER for link in network.pending()):
        network.deliver(next(link for link in network.pending() if link[0] == "up"))
    network.deliver(("down", ME))
    assert network.devices[ME].epochs.last_answer[0] == 2 and len(network.devices[ME].questions) == 1
    return network


def envelopes() -> Iterator[tuple[str, Message]]:
    """Every honest message to the device in turn, with each field of its envelope changed."""
    for kind in ENVELOPES:
        network = SCENARIO.network() if kind is Kind.INVITATION else stopped(kind)
        true = signed(from_server(network, kind, b"")) if kind is Kind.FINISH else waiting(network, kind)
        changes: dict[str, Any] = {
            "run": bytes(16),
            "agreement": bytes(32),
            "sender": "device-3",
            "receiver": "device-2",
            "attachment": b"more",
        }
        for name, value in changes.items():
            if (kind, name) in ((Kind.SHARE, "sender"), (Kind.INVITATION, "run")):
                continue  # each is a lie of its own above
            yield f"{kind} {name}", signed(replace(true, **{name: value}))
        if kind is Kind.FINISH:
            yield "finish body", signed(replace(true, body=b"anything"))
        yield f"{kind} signed by another", signed(true, EVE)
        yield f"{kind} not signed", replace(true, signature=b"")
        yield f"{kind} of no device's", signed(replace(true, kind=Kind.JOIN))
        yield f"{kind} as a pad seed", signed(replace(true, kind=Kind.PAD_SEED))


STAGES: dict[Callable[[], Iterator[tuple[str, Message]]], Callable[[str], Device]] = {
    lambda: invitations(SCENARIO): lambda _: SCENARIO.party(ME),
    agreements: lambda _: stopped(Kind.AGREEMENT).devices[ME],
    shares: lambda _: stopped(Kind.SHARE).devices[ME],
    lists: lambda _: stopped(Kind.OWNERS).devices[ME],
    certificates: lambda _: stopped(Kind.CERTIFICATE).devices[ME],
    wishes: lambda _: stopped(Kind.OWNERS).devices[ME],
    keys: lambda _: stopped(Kind.ROLE_KEYS).devices[ME],
    updates: lambda _: after_two_updates().devices[ME],
    envelopes: lambda label: (
        SCENARIO.party(ME) if label.startswith("invitation") else stopped(Kind(label.partition(" ")[0])).devices[ME]
    ),
}


def test_what_a_server_changes_is_refused_or_one_of_its_free_choices():
    for kind in ENVELOPES[:-1]:  # what is changed below is taken as it is
        honest = SCENARIO.network() if kind is Kind.INVITATION else stopped(kind)
        assert told(SCENARIO.party(ME) if kind is Kind.INVITATION else honest.devices[ME], waiting(honest, kind)), kind
    accepted: set[str] = set()
    rejected: set[str] = set()
    for lies, device in STAGES.items():
        for label, message in lies():
            (accepted if told(device(label), message) else rejected).add(label)
    assert not accepted & rejected
    unread = {f"{kind} {name}" for kind in ENVELOPES for name in ("sender", "attachment")} - {"share sender"}
    assert accepted >= unread
    assert accepted - unread == {label for label in FREE if not label.startswith("*")}
    assert len(rejected) > 100


@pytest.mark.parametrize("what", ["noise", "total"])
def test_no_parameter_of_noise_or_of_a_total_is_the_servers_choice(what: str):
    scenario = scenario_of(what)
    lies = dict(invitations(scenario))
    assert ("invitation parameters.noise" in lies) == (what == "noise")
    given = {"contribution": WholeNumbers(2, lambda ring: ring.zeros(2))} if what == "total" else {}
    for label, message in invitations(scenario):
        device = scenario.party(ME, **given)
        assert told(device, message) == (label in FREE), label


def test_a_question_more_than_agreed_on_is_refused_whatever_its_epoch():
    network = after_two_updates()
    device, ring = copy.deepcopy(network.devices[ME]), network.server.agreement.ring

    def asked(epoch: int, *numbers: float) -> Message:
        packed = ring.pack(ring.from_integers(np.array([numbers])))
        return signed(from_server(network, Kind.UPDATE, Update(epoch, 0, packed).encode()))

    device.receive(asked(3, 3, 4).encode())
    assert len(device.questions) == 2
    assert told(device, asked(4, 3, 4)), "the same once more shows nothing new"
    for epoch in (4, 5, 10**6):
        assert not told(device, asked(epoch, 3, 5))


# -- what it said stays the operator's, and why


def test_the_operator_reads_the_reason_and_the_server_does_not():
    for changes, reason in (
        ({"epochs": 2}, "epochs must be 2 as it follows from the study, got 3"),
        ({"owners": 6, "recipe": b"r" * 32}, f"recipe must be {b'r' * 32!r:.80} as it follows from the study, got b''"),
    ):
        device = replace(SCENARIO, changes=changes).party(ME)
        (reply,) = map(Message.decode, wire(device.receive(SCENARIO.network().server.invite().outgoing[0].data)))
        assert (reply.kind, reply.body) == (Kind.REFUSAL, DOES_NOT_TAKE_PART.encode())
        assert device.objection == reason
        assert not told(device, waiting(stopped(Kind.AGREEMENT), Kind.AGREEMENT)), "who refused is in no agreement"


def test_a_stranger_hears_nothing_and_keeps_nobody_from_the_true_server():
    device = SCENARIO.party(ME)
    lie = dict(invitations(SCENARIO))["invitation server_public"]
    keys = f"{fingerprint(SERVERS_IDENTITY.public)}, got {fingerprint(EVE.public)}"
    refused(device, lie.encode(), f"the server's key must be {keys}")
    (reply,) = map(Message.decode, wire(device.receive(SCENARIO.network().server.invite().outgoing[0].data)))
    assert reply.kind is Kind.JOIN


# -- noise


def noisy() -> PodScenario:
    """Two pods, each with as many owners as the noise is made for."""
    changes: dict[str, Any] = {"scheme": ROLE_SUMS}
    return PodScenario(sizes=(2, 1, 3, 3, 1, 2), pod_sizes=(3, 3), noise=NOISE, **changes)


class Keeps(ClosedForm):
    """What the server learns."""

    def __init__(self) -> None:
        super().__init__(10.0)
        self.told: list[bytes] = []

    def take_gram(self, triangle: np.ndarray) -> None:
        super().take_gram(triangle)
        self.told.append(triangle.tobytes())

    def start(self, initial: np.ndarray, constant: np.ndarray, samples: int) -> None:
        super().start(initial, constant, samples)
        self.told.append(constant.tobytes())


def learned(scenario: PodScenario, salt: str, joined: Sequence[str] = (), **options: Any) -> list[bytes]:
    network = scenario.network(salt, Keeps(), **options)
    drive(network, joined=joined)
    solver = network.server.epochs.solver
    assert isinstance(solver, Keeps) and len(solver.told) == 2
    return solver.told


def test_runs_on_the_same_terms_carry_the_very_same_noise():
    """Nobody can have it drawn again and average it away. Another snapshot of the rows has another seed."""
    scenario = noisy()
    assert learned(scenario, "one") == learned(scenario, "two")
    assert learned(scenario, "one") != learned(scenario, "two", noise_seed=b"another snapshot, another seed..")


def test_also_when_others_are_away():
    """The pod that is there both times has the same noise on the same scales, whoever is missing of the other."""
    scenario = noisy()
    alone = learned(scenario, "one", joined=scenario.names[:3])
    for away in (["device-3"], ["device-4", "device-5"]):
        assert learned(scenario, "two", joined=[name for name in scenario.names if name not in away]) == alone
    assert learned(scenario, "one") != alone


def test_with_terms_noise_must_have_a_seed():
    message = "noise_seed must be given with terms, or many runs would average noise away, got none"
    with pytest.raises(InvalidInput, match=exactly(message)):
        noisy().party(ME, noise_seed=b"")
    assert replace(noisy(), helpers=("helper-0",)).party("helper-0", noise_seed=b"")


# -- questions over several runs


def test_questions_over_several_runs_count_together():
    """Three updates were agreed on, so two directions: asked in one run or in several."""
    scenario = replace(SCENARIO, epochs=3)
    first = scenario.network("first")
    first.run()
    assert first.server.phase is Phase.FINISHED
    answered = max((device.questions for device in first.devices.values()), key=len)
    assert len(answered) == 2
    again = scenario.network("again", answered=answered)
    again.run()
    assert np.array_equal(again.server.model, first.server.model), "the same questions once more show nothing new"
    assert {device.questions for device in again.devices.values()} == {answered}
    other = scenario.network("other", GradientDescent(3, 1e-3, StepSchedule(0.1)), answered=answered)
    with pytest.raises(MessageRefused, match=exactly("at most 3 different updates were agreed on, got one more")):
        other.run()
    assert other.server.epoch == 2, "the total itself is still told"


def test_a_restored_device_counts_what_was_answered_since():
    scenario = replace(SCENARIO, epochs=3)
    network = scenario.network()
    network.run_until(Kind.FINISH)
    old = network.devices[ME]
    since = (b"x" * 32, old.questions[0])
    again = scenario.party(ME, "later", contribution=None, answered=since)
    again.restore(plain(old.state()))
    assert again.questions == (*since, old.questions[1])

"""What both schemes have in common: how devices come into a run, what is padded, how epochs are answered and asked.

A device is a value and functions that take a message and return messages; the server is one function per scheme, which
calls its devices one after the other. What a party refuses is an exception before anything has changed: the run goes on
without that message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from math import prod
from typing import Any

from spec import wire
from spec.fixed_point import Parameters, Reals, rounded_update, statistics, to_reals
from spec.numbers import Matrix, add, block_rows, entries, pack, pieces, product, rows_from, unpack
from spec.secrets import agreed_secret, identity_of, open_sealed, pad, public_of, seal, sha256, sign, verify
from spec.wire import Message

Send = Callable[[bytes], list[bytes]]  # a message to a device, and what it says to it
Solver = Callable[[Reals, list[float]], Reals | None]  # e and X'X e in, the next e out; None ends the run
Decoder = Callable[[Matrix, dict[str, list[int]]], list[int]]  # e and answers by name in, the total out

SIGNED = ("invitation", "agreement", "role-key", "roll-call", "owners", "update", "finish")  # by the server
SHARING = ("pad-seed", "role-key-wanted", "role-key", "role-keys", "share", "roll-call", "certificate")


@dataclass
class Device:
    """``server``, ``terms``, ``roster`` and ``pods`` are what its operator approved; all below ``random`` is its state.

    roster: long-term keys by name. pods: owners that are in a total together or not at all.
    matrix, constant: what its answers are made from, once sharing is complete.
    """

    name: str
    secret: bytes
    server: bytes
    terms: Parameters
    roster: dict[str, bytes]
    pods: Collection[frozenset[str]]
    least_owners: int
    X: Reals
    Y: Reals
    random: Callable[[int], bytes]
    run: bytes = b""
    invited: bytes = b""  # the invitation, as it came
    key: bytes = b""  # of this run
    agreement: bytes = b""  # as it came
    agreed: wire.Agreement = field(init=False)  # and read
    role_key: bytes = b""
    seeds: dict[str, bytes] = field(default_factory=dict)  # of this device's role, or of masks; by owner
    shared: dict[str, bytes] = field(default_factory=dict)  # padded data, by owner (coded-padded)
    masks: dict[bytes, int] = field(default_factory=dict)  # factors by seed (coded-padded)
    commitments: dict[str, list[Any]] = field(default_factory=dict)  # by owner
    owners: bytes = b""  # the one list that was signed
    matrix: Matrix = field(default_factory=list)
    constant: list[int] = field(default_factory=list)
    answered: tuple[int, bytes, bytes] = (0, b"", b"")  # epoch, digest of its update, the answer
    questions: set[bytes] = field(default_factory=set)  # digests of every e answered, in earlier runs too


@dataclass
class Server:
    """Its long-term secret, a line to every device, and the state of a run."""

    secret: bytes
    devices: dict[str, Send]
    random: Callable[[int], bytes]
    name: str = ""
    run: bytes = b""
    key: bytes = b""
    agreed: wire.Agreement = field(init=False)


def message(party: Device | Server, kind: str, body: bytes = b"", bulk: bytes = b"", to: str = "") -> Message:
    """Of the agreement, and not signed yet."""
    return Message(kind, party.run, party.agreed.hash, party.name, to, body, bulk)


def sealed(party: Device | Server, kind: str, to: str, public: bytes, plaintext: bytes) -> Message:
    """A message that only the owner of this key can read."""
    bound = wire.context(message(party, kind, to=to))
    return message(party, kind, seal(party.key, public, bound, plaintext, party.random(32)), to=to)


# -- what is padded: X'X by pairs of row blocks, the constant part by blocks


def block_lengths(agreed: wire.Agreement, beside: int) -> list[int]:
    """Numbers of each block of rows in an answer; ``beside`` the row count, if any, which goes with the last one."""
    p, rows = agreed.parameters, block_rows(agreed.parameters.d, agreed.n_blocks)
    return [len(one) * p.outputs + (beside and one is rows[-1] and not any(p.total_limit)) for one in rows]


def pads(seed: bytes, agreed: wire.Agreement, kept: Collection[int]) -> tuple[list[int], list[int]]:
    """What a seed expands to in these blocks of rows: of X'X the pairs that they are in, and of the constant part."""
    pairs, primes = entries(agreed.parameters.d, agreed.n_blocks, kept), agreed.scales.primes
    gram = [pad(seed, "gram", len(places), primes, pair) for pair, places in pairs.items()]
    constant = [pad(seed, "constant", block_lengths(agreed, 1)[k], primes, (k, k)) for k in kept]
    return [*chain(*gram)], [*chain(*constant)]


def zeros(p: Parameters) -> tuple[list[int], list[int]]:
    """Two sums before anything is added: of triangles, and of constant parts."""
    return [0] * (p.d * (p.d + 1) // 2), [0] * (p.d * p.outputs + (not any(p.total_limit)))


def padded(device: Device, seeds: list[bytes]) -> bytes:
    """The device's X'X and constant part plus the pads of all these seeds, packed one behind the other."""
    agreed, primes, everything = device.agreed, device.agreed.scales.primes, range(device.agreed.n_blocks)
    places = [*chain(*entries(device.terms.d, agreed.n_blocks, everything).values())]
    gram, constant = statistics(device.terms, agreed.scales, device.X, device.Y, places)
    for seed in seeds:
        on_gram, on_constant = pads(seed, agreed, everything)
        gram, constant = add(gram, on_gram), add(constant, on_constant)
    return pack(gram, primes) + pack(constant, primes)


def two_parts(agreed: wire.Agreement, data: bytes) -> tuple[list[int], list[int]]:
    """The triangle and the constant part that ``padded`` has packed."""
    primes, (gram, constant) = agreed.scales.primes, zeros(agreed.parameters)
    at = 3 * len(primes) * len(gram)
    return unpack(data[:at], primes, len(gram)), unpack(data[at:], primes, len(constant))


# -- a device


def receive(scheme: dict[str, Any], device: Device, data: bytes) -> list[bytes]:
    """A message in, messages out, by the function ``on_KIND`` of the scheme, or of both schemes here.

    What is for another device, run or agreement, or not the server's where the server signs, is refused.
    """
    found, known = wire.decode(data), {**globals(), **scheme}
    assert found.receiver in ("", device.name), "a message is for this device"
    if found.kind in known["SIGNED"]:
        verify(device.server, wire.signed_part(found), found.signature)
    assert found.kind == "invitation" or found.run == device.run, "a message is of this run"
    if found.kind not in ("invitation", "agreement"):
        assert device.agreement and found.agreement == device.agreed.hash, "a message is of this agreement"
    finished, late = device.run and not device.key, device.matrix and found.kind in SHARING
    if finished or late or (device.agreement and found.kind == "invitation"):
        return []  # what comes late changes nothing
    return [wire.encode(one) for one in known["on_" + found.kind.replace("-", "_")](device, found)]


def on_invitation(device: Device, found: Message) -> list[Message]:
    """Join, if server and parameters are those approved; one run each, with one key."""
    server, server_key, parameters = wire.unpacked(found.body, "bbb")
    assert server == device.server and len(found.run) == 16, "the server is the one that the operator trusts"
    assert (device.run, device.invited) in ((b"", b""), (found.run, found.body)), "one run, one invitation"
    key = device.key or device.random(32)
    assert agreed_secret(key, server_key), "the server's run key is one that can be sealed to"
    device.run, device.invited, device.key = found.run, found.body, key
    identity, run_key = identity_of(device.secret), public_of(key)
    if parameters != wire.packed(*astuple(device.terms)):
        words = b"this device does not take part"
        return [wire.signed(Message("refusal", found.run, b"", device.name, "", words, identity), device.secret)]
    signature = sign(device.secret, wire.join_statement(found.run, found.body, device.name, run_key))
    return [Message("join", found.run, b"", device.name, "", run_key, identity, signature)]


def on_agreement(device: Device, found: Message) -> list[Message]:
    """Accept one agreement per run, for the invitation that was joined, with the keys of the roster in it."""
    assert device.agreement in (b"", found.body), "one agreement per run"
    agreed = wire.read_agreement(found.body)
    assert (agreed.run, agreed.invited) == (device.run, device.invited), "it is for the invitation that was joined"
    assert agreed.parameters == device.terms, "a device that refused is in no agreement"
    assert agreed.member[device.name].run_key == public_of(device.key), "it carries this device's run key"
    assert all(device.roster.get(one.name) == one.identity for one in agreed.members), "everybody is on the roster"
    assert set(agreed.owners) == set(agreed.names) & set(chain(*device.pods)), "the owners are those in the pods"
    if not agreed.roles:
        check_list(device, agreed.owners)  # without roles all owners are in the total
    device.agreement, device.agreed = found.body, agreed
    return []


def check_list(device: Device, owners: Collection[str]) -> None:
    """Refuse a total of few (a victim and z colluders alone would make it the victim's), or not over whole pods."""
    assert len(owners) >= max(device.terms.colluders + 2, device.least_owners), "a total is never of few"
    assert all(pod <= set(owners) or not pod & set(owners) for pod in device.pods), "a list is a union of whole pods"


def to_server(device: Device, kind: str, plaintext: bytes) -> Message:
    """Sealed to the server's run key."""
    return sealed(device, kind, "", wire.unpacked(device.invited)[1], plaintext)


def is_ready(device: Device, gram: list[int], constant: list[int]) -> list[Message]:
    """Sharing is complete: keep what answers are made from."""
    agreed, device.constant = device.agreed, constant
    device.matrix = rows_from(gram, device.terms.d, agreed.n_blocks, agreed.kept(device.name))
    return [to_server(device, "ready", b"")]


def on_update(device: Device, found: Message) -> list[Message]:
    """Answer matrix e, or the constant where the update has no numbers: an epoch for one update only."""
    (epoch, _, numbers), digest = wire.unpacked(found.body, "iib"), sha256(found.body)
    if epoch > device.answered[0]:
        assert device.matrix, "sharing comes first"
        p, primes, said = device.terms, device.agreed.scales.primes, device.constant
        if numbers:
            asked = device.questions | {sha256(numbers)}
            assert len(asked) < p.epochs, "no more different questions than were agreed on, the constant being one"
            e = pieces(unpack(numbers, primes, p.d * p.outputs), [p.outputs] * p.d)
            said, device.questions = product(device.matrix, e, prod(primes)), asked
        for seed, factor in device.masks.items():  # bound to run and update; role keys have none
            said = add(said, pad(seed, f"mask|{device.run.hex()}|{digest.hex()}", len(said), primes), factor)
        device.answered = (epoch, digest, wire.packed(epoch, digest, pack(said, primes)))
    assert device.answered[:2] == (epoch, digest), "epochs go up, each is answered for one update only"
    return [to_server(device, "answer", device.answered[2])]


def on_finish(device: Device, _: Message) -> list[Message]:
    """Forget every secret of the run."""
    device.key, device.role_key, device.seeds, device.shared, device.masks = b"", b"", {}, {}, {}
    device.matrix, device.constant, device.answered = [], [], (0, b"", b"")
    return []


# -- the server


def post(server: Server, to: Iterable[str], found: Message) -> list[Message]:
    """One message to these devices, and what they say to it."""
    return [wire.decode(reply) for name in to for reply in server.devices[name](wire.encode(found))]


def broadcast(server: Server, to: Iterable[str], kind: str, body: bytes) -> list[Message]:
    """The same, signed by the server."""
    return post(server, to, wire.signed(message(server, kind, body), server.secret))


def relayed(server: Server, of: str, to: str, kind: str, body: bytes, bulk: bytes = b"") -> list[Message]:
    """What one device seals for another, with the server's signature as the relay."""
    return post(server, [to], wire.signed(replace(message(server, kind, body, bulk, to), sender=of), server.secret))


def come_together(server: Server, p: Parameters, roles: dict[str, int], blocks: dict[str, int]) -> None:
    """Invite, take the joins, freeze the set.

    roles: of each holder by name, none for a gradient code. blocks: of rows, likewise, -1 for all rows; none for one.
    """
    server.run, server.key = server.random(16), server.random(32)
    invited = wire.invitation(identity_of(server.secret), public_of(server.key), p)
    invitation = wire.signed(Message("invitation", server.run, b"", "", "", invited), server.secret)
    joins = [one for one in post(server, server.devices, invitation) if one.kind == "join"]
    members = [wire.Member(one.sender, one.attachment, one.body, one.signature) for one in joins]
    seats = wire.seated(members, server.run)
    held, kept = ([of.get(one.name, -1) for one in seats] if of else [] for of in (roles, blocks))
    draft = wire.Agreement(server.run, invited, seats, b"", held, [], kept)
    server.agreed = wire.read_agreement(draft.encoded)
    post(server, draft.names, wire.signed(Message("agreement", server.run, b"", "", "", draft.encoded), server.secret))


def train(server: Server, solver: Solver, decoder: Decoder, to: list[str]) -> None:
    """The epochs: e = 0 for the constant first, then what the solver asks for; pads off, bounds checked, to reals.

    An empty e asks for the constant: G^(1), and the number of rows; or whole numbers. to: who is asked.
    """
    agreed, p, s, bits = server.agreed, server.agreed.parameters, server.agreed.scales, 0
    e, modulus = Matrix(), prod(s.primes)
    for epoch in range(1, p.epochs + 1):
        body, answers = wire.packed(epoch, bits, pack([*chain(*e)], s.primes)), {}
        for one in broadcast(server, to, "update", body):
            answer = open_sealed(server.key, agreed.member[one.sender].run_key, wire.context(one), one.body)
            said, digest, numbers = wire.unpacked(answer, "ibb")
            assert (said, digest) == (epoch, sha256(body)), "an answer is to this very update"
            answers[one.sender] = unpack(numbers, s.primes, len(numbers) // (3 * len(s.primes)))
        total = decoder(e, answers)
        if e:
            limits = [s.gram_limit * sum(map(abs, column)) for column in zip(*e, strict=True)]
            asked = [[v / 2.0**bits for v in row] for row in e]  # as it was rounded
            wanted = solver(asked, to_reals(total, s.gram_bits + bits, limits, modulus))
        else:
            rows = to_reals(total[p.d * p.outputs :], 0, [p.rows], modulus)
            wanted = solver([], to_reals(total[: p.d * p.outputs], s.constant_bits, [s.cross_limit], modulus) + rows)
        if wanted is None:
            break
        e, bits = rounded_update(s, wanted)
    broadcast(server, agreed.names, "finish", b"")
    server.key = b""

"""What each party of a coded run sees: every byte it receives and every secret it draws or is given.

Inside ``with recorded(...)`` every server and device that is made keeps a record; the state machines are not changed,
and whoever drives them (``run_in_process``, ``simulate``) records without knowing it. A ``View`` then opens all that
its owner can open, and no more: it works with the owner's keys alone. Attacks are written on views
(``experiments/attacks``), so an attacker has what a party has, to the byte.

A record holds secrets in plain. It is for experiments and tests; nothing in the library writes one to a file.
The schemes without state machines are in ``baseline_views``.
"""

from __future__ import annotations

import hashlib
import secrets as system_random
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.errors import InvalidInput
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.device import Device
from codedfl.protocol.device_sharing import CodedDeviceSharing
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import SERVER, Answer, Kind, Message, Secrets, Share, Shares, Update
from codedfl.protocol.schemes.role_keys.device import RoleDeviceSharing, seed_context
from codedfl.protocol.server import Server
from codedfl.typing import Planes, RandomBytes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Statistics:
    """X'X as a triangle and the constant part, on the ring: of one device, padded or not."""

    gram: Planes
    constant: Planes


@dataclass(eq=False)
class View:
    """One party's record. ``party`` is its name, ``SERVER`` for the server.

    received: wire messages in the order they came, refused ones too.
    drawn: every random value it drew, in order: its keys, its seeds, the fresh key of every seal.
    mask_seeds: a device's own and those it was given, by position; a machine forgets them when the run ends.
    sent_updates: the server's own updates as it broadcast them. The rest it sends is relayed or in ``drawn``.
    """

    party: str
    identity: Identity
    received: list[bytes] = field(default_factory=list)
    drawn: list[bytes] = field(default_factory=list)
    mask_seeds: dict[int, bytes] = field(default_factory=dict)
    sent_updates: list[bytes] = field(default_factory=list)
    agreement: Agreement | None = None
    run_key: RunKey | None = None  # a machine forgets it when the run ends
    role_key: RunKey | None = None  # a holder forgets it when it has summed what it opens
    _kinds: list[Kind] = field(default_factory=list)  # of what was received, as far as it was looked at

    def __repr__(self) -> str:
        owner = f"device {self.party!r}" if self.party else "the server"
        return f"<View of {owner}: {len(self.received)} messages, {self.received_bytes} bytes>"

    @property
    def received_bytes(self) -> int:
        return sum(len(data) for data in self.received)

    @property
    def agreed(self) -> Agreement:
        if self.agreement is None:
            raise InvalidInput(f"{self!r} must reach the agreement before it can be read, got a run that stopped")
        return self.agreement

    def messages(self, kind: Kind) -> Iterator[Message]:
        self._kinds += [Message.decode(data).kind for data in self.received[len(self._kinds) :]]
        for known, data in zip(self._kinds, self.received, strict=True):
            if known is kind:
                yield Message.decode(data)

    # -- what the server can read

    def answers(self, epoch: int) -> dict[str, Planes]:
        """The server's: each device's answer of one epoch as it came, coded and masked."""
        ring, found = self.agreed.fixed_point.ring, {}
        for message in self.messages(Kind.ANSWER):
            answer = Answer.decode(self._open(message))
            if answer.epoch == epoch:
                found[message.sender] = ring.unpack(answer.packed, self.agreed.parameters.answer_length(epoch))
        return found

    def uploads(self) -> dict[str, Statistics]:
        """The server's, but for coded-padded, which has none: U_j and V_j of each device."""
        found = {}
        for message in self.messages(Kind.SHARES):
            envelope = Shares.decode(message.body).for_server
            if envelope:
                header = Message(Kind.SHARES, message.run, message.agreement, message.sender, SERVER)
                secrets = Secrets.decode(self._open(header.with_body(envelope)))
                found[message.sender] = self._statistics(message.sender, secrets, message.attachment)
            elif self.agreed.roles:
                found[message.sender] = self._split(message.attachment)
        return found

    def drawn_pad_seeds(self) -> dict[str, bytes]:
        """The server's in coded-padded: the seeds it drew for the devices, right after the run's id and its run key."""
        names = self.agreed.names
        first = self.drawn.index(self.agreed.run) + 2
        return dict(zip(names, self.drawn[first : first + len(names)], strict=True))

    # -- what a device can read

    def shares(self) -> dict[str, Secrets]:
        """A device's: the secrets that others sealed to it."""
        return {message.sender: Secrets.decode(self._open(message)) for message in self.messages(Kind.SHARE)}

    def padded_data(self) -> dict[str, Statistics]:
        """A device's in coded-padded: Phi_j and Psi_j of those it answers for; none in coded-keys."""
        found = {}
        for message in self.messages(Kind.SHARE):
            secrets = Secrets.decode(self._open(message))
            if secrets.content_key:
                found[message.sender] = self._statistics(message.sender, secrets, message.attachment)
        return found

    # -- what everybody can read

    def updates(self) -> dict[int, Floats]:
        """e of every epoch as reals."""
        ring = self.agreed.fixed_point.ring
        return {
            update.epoch: np.ldexp(ring.to_integers(planes).astype(np.float64), -update.fraction_bits)
            for update, planes in self._updates()
        }

    def update_on_ring(self, epoch: int) -> Planes:
        """e of one epoch as it was sent, shape (P, d, c)."""
        for update, planes in self._updates():
            if update.epoch == epoch:
                return planes
        raise InvalidInput(f"epoch must be one that {self!r} holds an update of, got {epoch}")

    def update_digest(self, epoch: int) -> bytes:
        """What the masks of one epoch are bound to."""
        for message in (*self.messages(Kind.UPDATE), *map(Message.decode, self.sent_updates)):
            if Update.decode(message.body).epoch == epoch:
                return hashlib.sha256(message.body).digest()
        raise InvalidInput(f"epoch must be one that {self!r} holds an update of, got {epoch}")

    def _updates(self) -> Iterator[tuple[Update, Planes]]:
        p, ring = self.agreed.parameters, self.agreed.fixed_point.ring
        shape = (p.n_features, p.n_outputs)
        for message in (*self.messages(Kind.UPDATE), *map(Message.decode, self.sent_updates)):
            update = Update.decode(message.body)
            yield update, ring.unpack(update.packed, *shape) if update.packed else ring.zeros(*shape)

    # -- with its own key only

    def _open(self, message: Message) -> bytes:
        agreed, own = self.agreed, self.run_key
        if own is None:
            raise InvalidInput(f"{self!r} must have drawn its run key before anything can be opened, got none")
        author = agreed.invitation.server_key if message.sender == SERVER else agreed.member(message.sender).run_key
        if message.kind is Kind.SHARE and agreed.roles:
            share, role = Share.decode(message.body), agreed.roles[agreed.position(self.party)]
            context = seed_context(agreed, message.sender, role, share.commitments)
            assert self.role_key is not None, "whoever is given a share has the key of its role"
            return sealed.open_sealed(self.role_key, author, context, share.envelope)
        body = Share.decode(message.body).envelope if message.kind is Kind.SHARE else message.body
        return sealed.open_sealed(own, author, message.context(), body)

    def _statistics(self, sender: str, secrets: Secrets, bulk: bytes) -> Statistics:
        context = Message(Kind.SHARES, self.agreed.run, self.agreed.hash, sender, SERVER).context()
        return self._split(sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, bulk))

    def _split(self, upload: bytes) -> Statistics:
        ring, p, plain = self.agreed.fixed_point.ring, self.agreed.parameters, memoryview(upload)
        split = p.triangle_length * ring.bytes_per_number
        return Statistics(ring.unpack(plain[:split], p.triangle_length), ring.unpack(plain[split:], p.constant_length))


class Recording:
    """The views of the parties of one run, by name.

    only: whom to record; None records all. Devices of coded-padded hold alpha times the bulk, the server only once.
    """

    def __init__(self, only: Collection[str] | None = None) -> None:
        self.only = only
        self.views: dict[str, View] = {}

    def __repr__(self) -> str:
        return f"<Recording of {len(self.views)} parties>"

    @property
    def server(self) -> View:
        return self.device(SERVER)

    def device(self, name: str) -> View:
        if name not in self.views:
            raise InvalidInput(f"a view must be of a party of the run, {list(self.views)}, got {name!r}")
        return self.views[name]


@contextmanager
def recorded(recording: Recording) -> Iterator[None]:
    """Whoever makes and drives a run inside has it written down, and nothing of it is changed. One run each."""
    with ExitStack() as patches:
        for kind in (Server, Device):
            patches.enter_context(patch.object(kind, "__init__", _noting_draws(kind.__init__, recording)))
            patches.enter_context(patch.object(kind, "receive", _noting_messages(kind.receive, recording)))
        yield


def _noting_draws(init: Any, recording: Recording) -> Any:
    def noted(self: Any, *args: Any, random_bytes: RandomBytes = system_random.token_bytes, **options: Any) -> None:
        drawn: list[bytes] = []

        def draw(count: int) -> bytes:
            drawn.append(random_bytes(count))
            return drawn[-1]

        init(self, *args, random_bytes=draw, **options)
        name = _name_of(self)
        if name in recording.views:
            raise InvalidInput(f"a recording must be of one run, got {name or 'the server'!r} a second time")
        if recording.only is None or name in recording.only:
            recording.views[name] = View(name, self.identity, drawn=drawn, run_key=self._session.key)

    return noted


def _noting_messages(receive: Any, recording: Recording) -> Any:
    def noted(self: Any, data: bytes, *more: Any) -> Turn:
        view = recording.views.get(_name_of(self))
        if view is not None:
            view.received.append(data)
        turn: Turn = receive(self, data, *more)
        if view is not None:
            view.agreement = self._session.agreement
            view.run_key = self._session.key or view.run_key
            if isinstance(self, Server):
                view.sent_updates += [out.data for out in turn.outgoing if out.kind is Kind.UPDATE]
            elif isinstance(self.sharing, CodedDeviceSharing):
                view.mask_seeds |= self.sharing.mask_seeds
            elif isinstance(self.sharing, RoleDeviceSharing):
                view.role_key = self.sharing.role_key or view.role_key
        return turn

    return noted


def _name_of(party: Device | Server) -> str:
    return SERVER if isinstance(party, Server) else party.name

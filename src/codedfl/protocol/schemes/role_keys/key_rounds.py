"""How the server has each role's key drawn and given on, until all holders have it (``protocol.role_key``).

The first holder of a role draws it and gives it to as many co-holders as must sign it. Then owners are told of the
keys, and whoever has one gives it on to a few others: nobody checks joins and seals for a whole role. A giver that dies
or is complained of is replaced; while too few have signed, another holder draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from codedfl.errors import MessageRefused, NotEnoughDevices
from codedfl.protocol.messages import Kind, Message, check_types, name_table, pack_list, unpack_list
from codedfl.protocol.role_key import RoleKey, check_role_key, encode_keys, signers_needed
from codedfl.protocol.server_session import ServerSession
from codedfl.state import MAP, PLAIN, SET, CheckpointFields, Codec

GIVES = 2  # co-holders that a giver gives a key to, unless there is nobody else to do it


class RoleKeyRounds:
    """Who has its role's key, who was asked to give it to whom, and whether owners were told of the keys."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "publics": MAP,
        "signatures": MAP,
        "giver_of": MAP,
        "relayed": SET,
        "drawer_of": MAP,
        "draws": Codec(lambda table: sorted(table.items()), lambda saved: Counter(dict(saved))),
        "silent": SET,
        "told": PLAIN,
    }

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self.publics: dict[int, bytes] = {}  # by role: its key
        self.signatures: dict[int, bytes] = {}  # by holder: on the key of its role
        self.giver_of: dict[int, int] = {}  # by holder: who was asked to give it the key
        self.relayed: set[int] = set()  # holders whom the key is on its way to
        self.drawer_of: dict[int, int] = {}  # by role: who was asked to draw its key
        self.draws: Counter[int] = Counter()  # by role: how often somebody was asked to
        self.silent: set[int] = set()  # were waited for in vain, and are asked last
        self.told = False

    # -- who has what

    @property
    def _roles(self) -> range:
        return range(self._session.parameters.colluders + 1)

    def _holders(self, role: int) -> list[int]:
        return [i for i, one in enumerate(self._session.agreed.roles) if one == role]

    def _signers(self, role: int) -> list[int]:
        return [i for i in self._holders(role) if i in self.signatures]

    def _enough(self, role: int) -> bool:
        return len(self._signers(role)) >= signers_needed(self._session.agreed, role)

    def _most_draws(self, role: int) -> int:
        """A holder that always complains, or always is silent, must not have it drawn for ever."""
        return 8 + 4 * len(self._holders(role))

    def _pending(self, role: int, gone: set[int]) -> list[int]:
        """Holders that will get the key from whom was asked, unless something happens to one of them."""
        asked = [i for i in self._holders(role) if i in self.giver_of and i not in gone | set(self.signatures)]
        return [i for i in asked if i in self.relayed or self.giver_of[i] not in gone]

    def in_vain(self, gone: set[int]) -> set[int]:
        """Holders whom nobody can give the key of their role any more."""
        lost = [role for role in self._roles if self.told and set(self._signers(role)) <= gone]
        return {i for role in lost for i in self._holders(role)} - set(self.signatures) - self.relayed

    def check_without(self, gone: set[int]) -> None:
        """Raises ``NotEnoughDevices`` if the key of a role can never be signed by enough."""
        agreed = self._session.agreed
        for role in () if self.told else self._roles:
            needed, there = signers_needed(agreed, role), set(self._holders(role)) - gone | set(self._signers(role))
            if self.draws[role] >= self._most_draws(role) and not (self._enough(role) or self._pending(role, gone)):
                there = set(self._signers(role))  # it was drawn often enough
            if len(there) < needed:
                lost = [agreed.names[i] for i in self._holders(role) if i not in there]
                raise NotEnoughDevices(
                    f"the key of role {role} must be signed by {needed} of its holders, only {len(there)} are there:"
                    f" missing are {', '.join(lost)}",
                    lost,
                )

    # -- asking

    def go_on(self, gone: set[int], complaints: Mapping[str, Mapping[str, str]]) -> None:
        """Ask for what is missing; ``complaints``: by giver, who got no key of its role from it."""
        names = self._session.agreed.names
        for receiver, giver in list(self.giver_of.items()):
            if receiver not in self.signatures and names[receiver] in complaints.get(names[giver], {}):
                del self.giver_of[receiver]
                self.relayed.discard(receiver)
        for role in self._roles:
            self._have_given(role, gone, complaints)
            if not (self.told or self._enough(role) or self._pending(role, gone)):
                self._have_drawn(role, gone)
        self._tell_if_possible()

    def stop_waiting(self, gone: set[int]) -> None:
        """The driver's deadline: whoever was waited for is asked last from now on."""
        for role in self._roles:
            if self._enough(role):
                continue
            pending = self._pending(role, gone)
            self.silent |= set(pending) if role in self.publics else {self.drawer_of[role]}
            for i in pending:
                del self.giver_of[i]

    def _have_drawn(self, role: int, gone: set[int]) -> None:
        """Whoever was to draw before has not, or nobody signs its key."""
        before = self.drawer_of.get(role)
        if before is not None and role not in self.publics and before not in gone | self.silent:
            return
        if self.draws[role] >= self._most_draws(role):
            return  # ``check_without`` says so
        self.draws[role] += 1
        holders = self._holders(role)
        if before is not None:
            self.silent.add(before)
        if set(holders) <= gone | self.silent:  # all were asked: once more from the beginning
            self.silent -= set(holders)
        able = [i for i in holders if i not in gone | self.silent]
        if not able:
            return  # ``check_without`` says so
        self.publics.pop(role, None)
        for i in holders:
            self.signatures.pop(i, None)
            self.giver_of.pop(i, None)
        self.relayed -= set(holders)
        self.drawer_of[role] = able[0]
        others = [*able[1:], *(i for i in holders if i not in able)]
        self._ask(able[0], others[: signers_needed(self._session.agreed, role) - 1])

    def _have_given(self, role: int, gone: set[int], complaints: Mapping[str, Mapping[str, str]]) -> None:
        names, pending = self._session.agreed.names, self._pending(role, gone)
        lacking = [i for i in self._holders(role) if i not in (*self.signatures, *pending) and i not in gone]
        lacking.sort(key=self.silent.__contains__)
        if not self._enough(role):
            needed = signers_needed(self._session.agreed, role)
            lacking = lacking[: max(0, needed - len(self._signers(role)) - len(pending))]
        given = Counter(self.giver_of.values())
        givers = [i for i in self._signers(role) if i not in gone]
        at_work = {self.giver_of[i] for i in pending if i not in self.relayed}
        fresh = [i for i in givers if given[i] < GIVES] or ([] if pending else givers)  # who gets it will give it on
        for giver in [i for i in fresh if i not in at_work]:
            accusers = complaints.get(names[giver], {})
            batch = [i for i in lacking if names[i] not in accusers][: GIVES - given[giver] % GIVES]
            lacking = [i for i in lacking if i not in batch]
            if batch:
                self._ask(giver, batch)

    def _ask(self, giver: int, receivers: list[int]) -> None:
        names = self._session.agreed.names
        self.giver_of |= dict.fromkeys(receivers, giver)
        self.relayed -= set(receivers)
        self._session.relay(Kind.ROLE_KEY_WANTED, pack_list([names[i] for i in receivers]), (names[giver],))

    def _tell_if_possible(self) -> None:
        """Owners, once enough holders of every role have signed: from then on the keys stay."""
        session, agreed = self._session, self._session.agreed
        if self.told or not all(self._enough(role) for role in self._roles):
            return
        keys = []
        for role in self._roles:
            signers = self._signers(role)[: signers_needed(agreed, role)]
            keys.append(RoleKey(self.publics[role], {agreed.names[i]: self.signatures[i] for i in signers}))
        self.told = True
        session.relay(Kind.ROLE_KEYS, encode_keys(keys), tuple(agreed.names[i] for i in agreed.owners))

    # -- what holders say

    def take_key(self, message: Message) -> None:
        """A role's key, signed, its private half sealed to co-holders: relayed to those whom it was asked for."""
        session, agreed = self._session, self._session.agreed
        message.check_signature(agreed.member(message.sender).identity)
        fields = unpack_list(message.body, "a role key", depth=3, most=4 + 3 * agreed.n_devices)
        public, signature, pairs = check_types(fields, (bytes, bytes, list), "a role key")
        envelopes = name_table(pairs, "a role key")
        sender, role = self._take_signature(message, public, signature)
        if self.publics.get(role) != public:
            return
        for name, envelope in envelopes.items():
            receiver = agreed.position(name)
            if self.giver_of.get(receiver) == sender and receiver not in self.relayed:
                self.relayed.add(receiver)
                body = pack_list([public, signature, envelope])
                relayed = Message(Kind.ROLE_KEY, session.run, agreed.hash, message.sender, name, body)
                session.outbox.send((name,), relayed.signed_by(session.identity))

    def take_held(self, message: Message) -> None:
        """A holder has the key."""
        fields: list[Any] = unpack_list(message.body, "a role key that is held")
        self._take_signature(message, *check_types(fields, (bytes, bytes), "a role key that is held"))

    def _take_signature(self, message: Message, public: bytes, signature: bytes) -> tuple[int, int]:
        """Its author and role; what is on another key than the role's present one changes nothing."""
        agreed = self._session.agreed
        sender = agreed.position(message.sender)
        role = agreed.roles[sender]
        if sender not in agreed.holders:
            raise MessageRefused(f"{message.sender!r} must hold no keys in this run, but says so")
        check_role_key(message.sender, signature, agreed, role, public)
        if self.drawer_of.get(role) == sender:
            self.publics.setdefault(role, public)
        if self.publics.get(role) == public:
            self.signatures[sender] = signature
        else:
            self._session.ignore(message, "a key of its role that is not wanted any more")
        return sender, role

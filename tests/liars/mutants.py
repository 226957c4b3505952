"""Rules of the protocol taken away, one at a time; the harness must find out. No insecure switch is installed.

Masks are changed where the stage names their streams, devices that forget are made from the public face of the
machines (``state`` and ``restore``), policies and ledgers are arguments.
"""

from __future__ import annotations

import numpy as np
from adversary import Party

from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol import Agreement, Device, Ledger, Parameters
from codedfl.protocol.agreement import Invitation
from codedfl.protocol.ledger import Entry, row_tags, rows_as_bytes
from codedfl.protocol.local_data import fitted
from codedfl.protocol.messages import Kind, Message, Update, unpack_list
from codedfl.typing import Floats

MASK = "mask"  # how the labels of mask streams begin


def masks_unbound(label: str, handling: Message | None) -> str:
    """The rule of protocol 1: one mask an epoch, whatever the update."""
    if label.startswith(MASK) and handling is not None and handling.kind is Kind.UPDATE:
        return f"{MASK}|{Update.decode(handling.body).epoch}"
    return label


def masks_for_all_epochs(label: str, handling: Message | None) -> str:
    """One mask for the whole run."""
    del handling
    return MASK if label.startswith(MASK) else label


class TwoAgreements(Party):
    """Accepts any number of agreements in a run: it forgets the one before, in its ledger too."""

    def receive(self, data: bytes) -> list[bytes]:
        if Message.decode(data).kind is Kind.AGREEMENT:
            if Message.decode(data).run != self._run:
                self.remember()
                self._run, self._before_agreement = Message.decode(data).run, len(self.snapshots) - 1
            else:
                self.options["ledger"] = Ledger()
                self.machine = self.remembered(self._before_agreement)
        return super().receive(data)

    _run: bytes = b""
    _before_agreement: int = -1


class ForgetsRuns(Party):
    """Keeps no ledger: every run is its first."""

    def new_run(self) -> None:
        self.options["ledger"] = Ledger()
        super().new_run()


class KnowsRunsByTheirId(Party):
    """Its ledger takes a run's id for its name, which the server chooses, and rows as they were fitted."""

    def new_run(self) -> None:
        super().new_run()
        self.machine._remember = self._remember_by_id  # type: ignore[method-assign]

    def _remember_by_id(self, agreement: Agreement, owners: frozenset[bytes], tags: bytes) -> None:
        bounds, ledger = agreement.parameters.bounds, self.options["ledger"]
        rows = fitted(*self.machine._data, bounds)
        tags = row_tags(self.identity, rows_as_bytes(rows.X, rows.Y))
        entry = Entry(agreement.run, owners, agreement.parameters.recipe, (0.0, 0.0, 0), tags)
        others = Ledger(past for past in ledger.entries if past.agreement != agreement.run)
        reason = others.objection(entry, least_left=3, least_changed=10)
        if reason:
            raise MessageRefused(f"this device does not take part: {reason}")
        ledger.record(entry)


class TakesAnyRecipe(Party):
    """Joins whatever the invitation says of how rows become features."""

    def receive(self, data: bytes) -> list[bytes]:
        if Message.decode(data).kind is Kind.INVITATION:
            self.options["recipe"] = invited(data).recipe
            self.new_run()
        return super().receive(data)


class AnswersAnyNumber(Party):
    """Does not count the different updates that it answers."""

    def receive(self, data: bytes) -> list[bytes]:
        if Message.decode(data).kind is Kind.UPDATE:
            self.machine.restore({**self.machine.state(), "_questions": []})
        return super().receive(data)


class SealedToForGood(Party):
    """The rule of protocol 1: what is sealed to it is sealed to its long-term key."""

    def _new_machine(self) -> Device:
        secret = [self._stage.secret_of(self.identity.public)]
        draw = self._random_bytes

        def long_term_key_first(count: int) -> bytes:
            return secret.pop() if secret and count == KEY_BYTES else draw(count)

        self.options["random_bytes"] = long_term_key_first
        return super()._new_machine()


class NeverFinishes(Party):
    """Keeps the secrets of a run that is over."""

    def receive(self, data: bytes) -> list[bytes]:
        return [] if Message.decode(data).kind is Kind.FINISH else super().receive(data)


class SignsAnyList(Party):
    """Signs any number of lists of owners in a run, and sums over the first."""

    def receive(self, data: bytes) -> list[bytes]:
        if Message.decode(data).kind is Kind.OWNERS and not self.machine.ready:
            before = self.machine.state()
            self.options["ledger"].entries.clear()
            self.machine.restore({**before, "_owners": b""})
            replies = super().receive(data)
            if before["_owners"]:  # its own list stays the first
                self.machine.restore({**self.machine.state(), "_owners": before["_owners"]})
            return replies
        return super().receive(data)


class SignsShortLists(Party):
    """Does not ask how many owners are in a list."""

    def _new_machine(self) -> Device:
        machine = super()._new_machine()
        machine._check_owners = lambda _owners: None
        return machine


class ReadyWithWhatItHas(Party):
    """Answers for the owners whose seeds it has, whoever is on the certified list."""

    def receive(self, data: bytes) -> list[bytes]:
        replies = super().receive(data)
        if Message.decode(data).kind is Kind.CERTIFICATE and not self.machine.ready:
            self.machine._finish_sums()
        return replies


class GivesSeedsToAnybody(Party):
    """Gives a seed of its role to a holder of another."""

    def receive(self, data: bytes) -> list[bytes]:
        message, machine, agreed = Message.decode(data), self.machine, self.machine._agreement
        if message.kind is not Kind.SEED_WANTED or agreed is None or message.agreement != agreed.hash:
            return super().receive(data)
        owner, receiver = unpack_list(message.body, "a wish")
        if agreed.position(owner) not in machine._seeds:
            return []
        header = Message(Kind.SEED, message.run, agreed.hash, self.name, receiver)
        with self._stage.acting(self.actor, self.owner, data):
            seed = machine._seeds[agreed.position(owner)]
            envelope = machine._seal(agreed.member(receiver).run_key, header, seed)
        reply = header.with_body(envelope).encode()
        self._stage.wire.append(reply)
        return [reply]


class JudgesByRows(Party):
    """Joins a run only if its rows are within the run's bounds, so whether it joins tells of its rows."""

    def receive(self, data: bytes) -> list[bytes]:
        replies = super().receive(data)
        if Message.decode(data).kind is Kind.INVITATION and objection_of_rows(invited(data), *self.rows):
            return []
        return replies


def invited(data: bytes) -> Parameters:
    """The parameters in an invitation."""
    message = Message.decode(data)
    return Invitation.decode(message.run, message.body).parameters


def objection_of_rows(parameters: Parameters, X: Floats, Y: Floats) -> str:
    """The rule of protocol 1."""
    bounds = parameters.bounds
    if len(X) > bounds.samples_per_device:
        return "too many rows"
    within = np.abs(X).max() <= bounds.features and np.abs(Y).max() <= bounds.labels
    return "" if within else "too large values"

"""Rules of the protocol taken away, one at a time; the harness must find out. No insecure switch is installed.

Masks are changed where the stage names their streams, devices that forget are made from the public face of the
machines (``state`` and ``restore``), and terms that ask for less are subclasses of ``Terms``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from adversary import Party
from contracts import Contract
from numpy.typing import NDArray
from stage import decoded

from codedfl.crypto.sealed import KEY_BYTES
from codedfl.protocol.agreement import Agreement, Invitation, Parameters
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Commitments, Kind, Message, Update, unpack_list
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads, UploadPad
from codedfl.protocol.role_key import decode_keys
from codedfl.protocol.terms import Terms
from codedfl.typing import Floats

MASK = "mask"  # how the labels of mask streams begin


def masks_unbound(label: str, handling: Message | None) -> str:
    """The rule of protocol 1: one mask an epoch, whatever the update."""
    if label.startswith(MASK) and handling is not None and handling.kind is Kind.UPDATE:
        return f"{MASK}|{handling.run.hex()}|{Update.decode(handling.body).epoch}"
    return label


def masks_for_all_epochs(label: str, handling: Message | None) -> str:
    """One mask for the whole run."""
    del handling
    return label.rpartition("|")[0] if label.startswith(MASK) else label


# -- terms that ask for less


class AnyList(Terms):
    """Any list of owners that is long enough for the scheme: the rule of protocol 2, whose ledger came too late."""

    def check_list(self, owners: Collection[str]) -> None:
        del owners


class AnySet(Terms):
    """Any participants, and any of them as owners."""

    def check_set(self, agreement: Agreement) -> None:
        del agreement


class AnyParameters(Terms):
    """Whatever the parameters: pods may be too small for them, and their scales for others."""

    def __post_init__(self) -> None:
        pass


class ListsAnyOwners(Party):
    """Signs and sums over lists that are no whole pods."""

    terms_type = AnyList


class TakesAnybody(Party):
    """Does not look for participants on its roster."""

    terms_type = AnySet


class TakesAnyParameters(Party):
    """Whatever the invitation says: the rule of protocol 2, as far as a policy allowed."""

    terms_type: ClassVar[type[Terms]] = AnyParameters

    def _terms(self, contract: Contract, invited: Parameters | None) -> Terms:
        return replace(super()._terms(contract, invited), parameters=invited or contract.parameters)


class TakesAnyBounds(TakesAnyParameters):
    """Only how rows are cut to fit is left to the server."""

    def _terms(self, contract: Contract, invited: Parameters | None) -> Terms:
        terms = Party._terms(self, contract, invited)
        if invited is None:
            return terms
        return replace(terms, parameters=replace(terms.parameters, bounds=invited.bounds))


class TakesAnyBoundsAndLists(TakesAnyBounds):
    """Both."""

    terms_type = AnyList


class ForgetsItsPod(Party):
    """Approves whatever pod a contract has for it."""

    def _objects_to(self, pod: frozenset[str]) -> bool:
        del pod
        return False


class ReadsItsTableAnew(Party):
    """Brings the rows that are in its table now, whatever was approved."""

    def _rows_for(self, contract: Contract | None) -> tuple[Floats, Floats]:
        del contract
        return self.rows


class DrawsNoiseAnew(Party):
    """Has other noise in every run, so that totals can be averaged."""

    def _noise_seed(self, contract: Contract) -> bytes:
        del contract
        return self._random_bytes(32)


class CountsWithinARun(Party):
    """Forgets after a run what it answered in it."""

    def _answered(self, contract: Contract) -> Collection[bytes]:
        del contract
        return ()


class AnswersAnyNumber(Party):
    """Does not count the different updates that it answers."""

    def receive(self, data: bytes) -> list[bytes]:
        if decoded(data).kind is Kind.UPDATE:
            self.machine.epochs.questions = []
        return super().receive(data)


# -- machines that forget or give too much


class TwoAgreements(Party):
    """Accepts any number of agreements in a run: it forgets the one before."""

    def receive(self, data: bytes) -> list[bytes]:
        if decoded(data).kind is Kind.AGREEMENT:
            if decoded(data).run != self._run:
                self.remember()
                self._run, self._before_agreement = decoded(data).run, len(self.snapshots) - 1
            else:
                self.machine = self.remembered(self._before_agreement)
        return super().receive(data)

    _run: bytes = b""
    _before_agreement: int = -1


class SealedToForGood(Party):
    """The rule of protocol 1: what is sealed to it is sealed to its long-term key."""

    def _new_machine(self, contract: Contract | None, invited: Parameters | None) -> Device:
        secret = [self._stage.secret_of(self.identity.public)]
        machine = super()._new_machine(contract, invited)
        draw = machine._session.random_bytes

        def long_term_key_first(count: int) -> bytes:
            return secret.pop() if secret and count == KEY_BYTES else draw(count)

        machine._session.random_bytes = long_term_key_first
        return machine


class UsedAgain(PreparedPads):
    """A pad that stays where it was prepared."""

    def take(self, layout: PadLayout) -> UploadPad:
        self.prepare(layout)
        assert self._pad is not None
        return UploadPad(layout, self._pad.seeds)


class KeepsItsPads(Party):
    """Uses a pad that was made beforehand in more than one upload."""

    pads_type = UsedAgain


class PadsOnTheDisk(Party):
    """Keeps what it prepared in its folder, by seed or by counter, so that an old copy of the folder brings it back."""

    def remember(self) -> None:
        super().remember()
        self._on_disk = [*self._on_disk, self.pads._pad]

    def roll_back(self, snapshot: int = -1) -> None:
        super().roll_back(snapshot)
        found = self._on_disk[snapshot]
        self.pads._pad = None if found is None else UploadPad(found.layout, found.seeds)

    _on_disk: Sequence[UploadPad | None] = ()


class NeverFinishes(Party):
    """Keeps the secrets of a run that is over."""

    def receive(self, data: bytes) -> list[bytes]:
        return [] if decoded(data).kind is Kind.FINISH else super().receive(data)


class SignsAnyList(Party):
    """Signs any number of lists of owners in a run, and sums over the first."""

    def receive(self, data: bytes) -> list[bytes]:
        if decoded(data).kind is Kind.OWNERS and not self.machine.ready and self.machine.agreed:
            sharing = self.machine.sharing
            before, sharing.owners = sharing.owners, None
            replies = super().receive(data)
            if before:  # its own list stays the first
                sharing.owners = before
            return replies
        return super().receive(data)


class SignsShortLists(Party):
    """Does not ask how many owners are in a list."""

    def _new_machine(self, contract: Contract | None, invited: Parameters | None) -> Device:
        machine = super()._new_machine(contract, invited)
        machine.sharing._check_owners = lambda _owners: None
        return machine


class ReadyWithWhatItHas(Party):
    """Answers for the owners whose seeds it has, whoever is on the certified list."""

    def receive(self, data: bytes) -> list[bytes]:
        replies = super().receive(data)
        sharing = self.machine.sharing
        told = decoded(data).kind is Kind.CERTIFICATE and not sharing.ready
        if told and sharing.certified and sharing.gram_sum is not None:
            with self._stage.acting(self.actor, self.actor, data):
                sharing._finish_sums()
        return replies


class GivesKeysToAnybody(Party):
    """Gives its role's key to a holder of another role."""

    def receive(self, data: bytes) -> list[bytes]:
        message, machine, agreed = decoded(data), self.machine, self.machine._session.agreement
        wanted = message.kind is Kind.ROLE_KEY_WANTED and agreed is not None and message.agreement == agreed.hash
        if not wanted or machine.sharing.role_key is None:
            return super().receive(data)
        with self._stage.acting(self.actor, self.actor, data):
            for name in unpack_list(message.body, "receivers"):
                key = machine.sharing.role_key
                self._stage.wire.append(machine._session.seal_for(agreed.position(name), key.secret, Kind.ROLE_KEY))
        return super().receive(data)


class SealsToAnyKey(Party):
    """Does not ask who has signed the keys that the server shows it."""

    def _new_machine(self, contract: Contract | None, invited: Parameters | None) -> Device:
        machine = super()._new_machine(contract, invited)
        sharing = machine.sharing

        def upload(message: Message) -> None:
            if not (sharing._own.used or sharing._own.helper):
                sharing._upload([key.public for key in decode_keys(message.body, machine._session.agreed)])

        if Kind.ROLE_KEYS in machine._handlers:
            machine._handlers[Kind.ROLE_KEYS] = upload
        return machine


class SumsUnsigned(Party):
    """Sums seeds whose owners have signed neither their commitments nor the list."""

    def receive(self, data: bytes) -> list[bytes]:
        if decoded(data).kind is Kind.CERTIFICATE and self.machine.agreed:
            self.machine.sharing._commitments = {
                owner: _Unsigned(known.digests, known.signature)
                for owner, known in self.machine.sharing._commitments.items()
            }
        return super().receive(data)


class _Unsigned(Commitments):
    def check_signature(self, owner: str, agreement: bytes, public: bytes) -> None:
        """Whatever."""


class AnswersByTiles(Party):
    """Keeps tiles of the triangle instead of rows, and answers with what each of them makes of e by itself."""

    def receive(self, data: bytes) -> list[bytes]:
        if decoded(data).kind is Kind.UPDATE:
            self.machine.epochs._answer = self._by_tiles  # type: ignore[method-assign]
        return super().receive(data)

    def _by_tiles(self, update: Update, digest: bytes) -> NDArray[Any]:
        del digest
        session, matrix = self.machine._session, self.machine.sharing.answer_matrix
        ring, blocks = session.agreed.ring, session.agreed.answer_rows.blocks
        e = ring.unpack(update.packed, blocks.size, session.agreed.parameters.n_outputs)
        columns = [blocks.rows(block) for block in range(blocks.count)]
        tiles = [ring.product(matrix[:, :, one], e[:, one]).reshape(len(ring.primes), -1) for one in columns]
        return np.concatenate(tiles, axis=1)


class JudgesByRows(TakesAnyParameters):
    """Joins any run whose bounds its rows are within, so whether it joins tells of its rows."""

    def receive(self, data: bytes) -> list[bytes]:
        replies = super().receive(data)
        if decoded(data).kind is Kind.INVITATION and objection_of_rows(invited_to(data), *self.rows):
            return []
        return replies


def invited_to(data: bytes) -> Parameters:
    """The parameters in an invitation."""
    message = decoded(data)
    return Invitation.decode(message.run, message.body).parameters


def objection_of_rows(parameters: Parameters, X: Floats, Y: Floats) -> str:
    """The rule of protocol 1."""
    bounds = parameters.bounds
    if len(X) > bounds.samples_per_device:
        return "too many rows"
    within = np.abs(X).max() <= bounds.features and np.abs(Y).max() <= bounds.labels
    return "" if within else "too large values"

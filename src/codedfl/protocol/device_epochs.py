"""The epochs of a run at a device (paper IV-C): it answers an update e with

    answer_matrix e          (paper: C_i + Cbar_i e)

or, when the update has no numbers, with the constant: the server adds the two up once it knows the totals. What the
numbers are, sharing has left (``device_sharing``); the coded schemes add masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import ClassVar

from codedfl.errors import MessageRefused
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.device_sharing import DeviceSharing
from codedfl.protocol.events import QuestionAnswered
from codedfl.protocol.messages import Answer, Kind, Message, Update
from codedfl.state import TUPLE, CheckpointFields, Codec
from codedfl.typing import Planes


class DeviceEpochs:
    """Answers updates: each epoch for one update only, and no more different updates than were agreed on.

    answered: digests of the updates answered in earlier runs on the same terms.
    """

    # Save the state before an answer leaves: a device that forgot it might answer the same epoch for a second e.
    checkpoint_fields: ClassVar[CheckpointFields] = {
        "last_answer": TUPLE,
        "questions": Codec(list, lambda saved: list(dict.fromkeys(saved))),
    }

    def __init__(self, session: DeviceSession, sharing: DeviceSharing, answered: Collection[bytes]) -> None:
        self._session = session
        self._sharing = sharing
        self.last_answer: tuple[int, bytes, bytes] = (0, b"", b"")  # epoch, digest of its update, what was sent
        self.questions = list(answered)  # digests of the different e that were answered, the constant not counted

    def on_update(self, message: Message) -> None:
        session = self._session
        session.check_from_server(message)
        update = Update.decode(message.body)
        digest = hashlib.sha256(message.body).digest()
        last_epoch, last_digest, last_answer = self.last_answer
        if update.epoch == last_epoch:
            if digest != last_digest:
                raise MessageRefused(f"epoch {last_epoch} must be answered for one update only, got a second one")
            session.send_sealed(Kind.ANSWER, last_answer)  # asked again: the very same answer
            return
        if update.epoch < last_epoch:
            raise MessageRefused(f"the epoch must be later than {last_epoch}, got {update.epoch}")
        if not self._sharing.ready:
            raise MessageRefused("shares must be complete before an update: some are missing")
        question = hashlib.sha256(update.packed).digest()
        most = session.agreed.parameters.epochs
        # The same once more, as in confirming an epoch, shows nothing new. One of the updates agreed on is for the
        # constant, whether it is asked for or not: in its place nobody gets another direction of X'X.
        shows_more = bool(update.packed) and question not in self.questions
        if shows_more and len(self.questions) >= most - 1:
            raise MessageRefused(f"at most {most} different updates were agreed on, got one more")
        answer = Answer(update.epoch, digest, session.agreed.ring.pack(self._answer(update, digest))).encode()
        self.last_answer = (update.epoch, digest, answer)
        if shows_more:
            self.questions = [*self.questions, question]
            session.outbox.tell(QuestionAnswered(question))
        self._sharing.answered(update)
        session.send_sealed(Kind.ANSWER, answer)

    def _answer(self, update: Update, digest: bytes) -> Planes:
        """What this device says to the update whose body has this digest."""
        ring, p, sharing = self._session.agreed.ring, self._session.agreed.parameters, self._sharing
        assert sharing.answer_matrix is not None and sharing.answer_constant is not None
        numbers = sharing.answer_constant
        if update.packed:
            e = ring.unpack(update.packed, p.n_features, p.n_outputs)
            numbers = ring.product(sharing.answer_matrix, e).reshape(len(ring.primes), -1)
        answer = sharing.mask(digest, numbers.shape[1])
        ring.add_scaled(answer, [[1]] * len(ring.primes), [numbers])
        return answer

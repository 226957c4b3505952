"""A device in a study that its operator approved: every run derived from the study, every contribution recorded first.

Rows come from the snapshot that the approval froze, never from the table. What a new run asks for is judged against the
study and the device's ledger, and on the disk before a byte leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.device import Device
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class ApprovedParty:
    """See ``Party``.

    folder: where the device keeps what it approved and contributed, and its snapshots.
    now: the time, as the ledger writes it.
    """

    name: str
    study: Study
    roster: Roster
    identity: Identity
    folder: DeviceFolder
    now: Callable[[], str] = _now

    def __post_init__(self) -> None:
        self.roster.check_bound(self.study)
        if self.roster.keys.get(self.name) != self.identity.public:
            raise InvalidInput(
                f"{self.name!r} must be on the roster with this device's key {self.identity.public.hex()[:16]}..., got"
                " another key or none: codedfl roster renew names the new one"
            )

    @property
    def _helps(self) -> bool:
        return self.name in self.roster.helpers

    def check_approved(self) -> None:
        """Raises unless the operator approved exactly this study."""
        with self.folder.ledger() as ledger:
            if ledger.approval(self.study.digest()) is None:
                raise InvalidInput(
                    f"the study {self.study.name!r} must be approved on this device, got no approval of"
                    f" {self.study.digest().hex()[:16]}: codedfl study approve records one"
                )

    def begin(self, ask: bytes, run: bytes) -> None:
        """Judged and recorded, or refused: before the device's join leaves, and so before anything of its rows."""
        from codedfl.statistics.statistic import Ask  # with the first run: a device may wait for days

        asked = Ask.decode(ask, self.study)
        with self.folder.ledger() as ledger:
            objection = ledger.may_contribute(self.study, asked)
            if objection:
                raise MessageRefused(objection)
            ledger.contribute(self.study, asked, run, self.now())

    def pad_layout(self) -> PadLayout | None:
        """See ``prepared_layout``; a helper uploads nothing."""
        return self._pad_layout

    @cached_property
    def _pad_layout(self) -> PadLayout | None:
        from codedfl.analyses.study_plan import prepared_layout

        return None if self._helps else prepared_layout(self.study, self.roster)

    def device(self, ask: bytes, *, used: bool, pads: PreparedPads | None = None) -> Device:
        """On the study's own terms, with the rows of the snapshot."""
        from codedfl.analyses.study_plan import StudyRun
        from codedfl.statistics.statistic import Ask

        run = StudyRun(self.study, self.roster, Ask.decode(ask, self.study))
        digest = self.study.digest()
        with self.folder.ledger() as ledger:
            answered = [question for contract, question in ledger.questions if contract == digest]
        contribution = None if used or self._helps else run.contribution(self.folder.frozen(digest))
        noise_seed = self.identity.tag(b"codedfl noise|" + digest)
        return Device(
            run.plan(),
            self.name,
            contribution,
            identity=self.identity,
            noise_seed=noise_seed if self.study.noise is not None else b"",
            answered=answered,
            pads=pads,
        )

    def keep(self, ask: bytes, device: Device) -> None:
        """The updates that are answered count over the life of the study, in whichever of its runs."""
        del ask
        digest = self.study.digest()
        with self.folder.ledger() as ledger:
            known = {question for contract, question in ledger.questions if contract == digest}
            for question in device.questions:
                if question in known:
                    continue
                objection = ledger.may_answer(self.study, question)
                if objection:
                    raise MessageRefused(objection)
                ledger.answer(self.study, question)

"""A study on real machines: the server's side, on whatever engine carries its requests.

Its state is a cache of replies in one SQLite file: a server that is killed anywhere is started again with the same
command and continues, and one whose file is deleted asks again. Both end with the same findings.
"""

from __future__ import annotations

import logging
import time
import tomllib
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import msgspec

from codedfl.analyses.driving import drive
from codedfl.analyses.kept import NOTHING_KEPT, KeptSum
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.analyses.summing import StudyTotals
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.contract.words import absences
from codedfl.crypto.sealed import Identity
from codedfl.device.study_sums import StudySums
from codedfl.errors import CodedFLError, InvalidInput, NotEnoughDevices
from codedfl.private_files import make_private_folder, sole_user
from codedfl.report.event_log import Scored
from codedfl.report.run_watch import RunWatch, begun_study
from codedfl.report.study_files import write_numbers, write_report
from codedfl.sum.asking import Engine, Patience
from codedfl.sum.events import Event, SumBegun
from codedfl.sum.session import Session
from codedfl.sum.store import Store
from codedfl.typing import Unchecked

log = logging.getLogger("codedfl.server")

REPLIES_FILE = "replies.sqlite"
_CONTINUE = "Start the same command again when that is mended: it continues where it was"


@dataclass(frozen=True)
class Serving:
    """What the server's operator says beside the study.

    output: where the cache of replies, model and result go.
    identity: the server's, whose public key the study names. roster: whose digest the study has.
    patience: how long to wait for whom.
    before: a kept total of others, to which this study is added.
    """

    output: Path
    identity: Identity
    roster: Roster
    patience: Patience = field(default_factory=Patience)
    before: KeptSum = NOTHING_KEPT

    def check(self, study: Study) -> None:
        """Refuse a study that names another server, or another roster, or cannot be added to the total before it."""
        self.before.check(study, self.roster.owners)
        self.roster.check_bound(study)
        if self.identity.public.hex() != study.server_key:
            raise InvalidInput(
                f"server_key of the study must be this server's, {self.identity.public.hex()}, got"
                f" {study.server_key or 'none'}"
            )


def load_patience(path: Path, otherwise: Patience | None = None) -> Patience:
    """How long to wait, from a TOML file with fields of ``Patience``, in seconds; the rest is as ``otherwise``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from codedfl.run.serving import load_patience
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "patience.toml"
    ...     _ = path.write_text("join = 60.0")
    ...     load_patience(path).join
    60.0
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        if unknown := sorted(set(found) - {one.name for one in fields(Patience)}):
            raise ValueError(f"unknown: {', '.join(unknown)}")
        return msgspec.convert(asdict(otherwise or Patience()) | found, Patience)
    except (OSError, msgspec.ValidationError, ValueError, RecursionError) as error:
        names = ", ".join(one.name for one in fields(Patience))
        raise InvalidInput(f"the patience must be a TOML file of {names}, got {str(path)!r} ({error})") from None


def serve_study(
    engine: Engine,
    study: Study,
    serving: Serving,
    watch: RunWatch | None = None,
    wall: Callable[[], float] = time.time,
) -> StudyFindings:
    """All analyses of a study on the devices behind an engine; continues from the output folder if it holds replies.

    Examples
    --------
    See ``codedfl.run.rehearsal``, which does the same with devices of this process.
    """
    serving.check(study)
    check_former(serving.output)
    watch = watch or RunWatch(serving.output)
    sums = StudySums(study, serving.roster)
    with sole_user(make_private_folder(serving.output), "output-dir"), closing(watch):
        store = Store(serving.output / REPLIES_FILE)
        if (kept := store.get(("study",))) not in (None, study.digest()):
            raise InvalidInput(
                "--out (output-dir on Flower) must not hold the replies of another study: choose another or delete"
                f" {serving.output / REPLIES_FILE}"
            )
        if kept is None:
            store.put(("study",), study.digest())
        log.info(absences(study, serving.roster))
        watch.take(begun_study(sums))
        with watch.told_how_it_ends():
            findings, result = _served(engine, sums, serving, store, watch, wall)
        # Drawn for seconds, when devices have deleted their keys and numbers are there: result.json has all of it.
        write_report(serving.output, result)
        return findings


def check_former(output: Path) -> None:
    """A run that was begun by 0.3 has no replies to continue with."""
    if any(path.is_dir() for pattern in ("answers", "checkpoint-*") for path in output.glob(pattern)):
        raise InvalidInput(
            f"--out (output-dir on Flower) must not hold a run that codedfl 0.3 began, got {str(output)!r}: finish it"
            " with that version, or choose another"
        )


def _served(
    engine: Engine, sums: StudySums, serving: Serving, store: Store, watch: RunWatch, wall: Callable[[], float]
) -> tuple[StudyFindings, Unchecked]:
    absent = _Absences(sums)
    session = Session(
        engine,
        sums,
        serving.identity,
        store,
        patience=serving.patience,
        spare=sums.study.spare_replies,
        row_blocks=sums.study.row_blocks,
        tell=watch.take,
        wall=wall,
    )

    def happened(event: Event) -> None:
        if isinstance(event, SumBegun):
            log.info("asking for %s", event.stage)
        watch.take(event)

    def ended(epoch: int) -> None:
        watch.ended(epoch, None)
        if watch.view.stage == "products":
            log.info("epoch %d", epoch)

    totals = StudyTotals(sums, session, store, ended, happened)
    try:
        findings = drive(sums.study, totals.answer, serving.before)
    except NotEnoughDevices as error:
        missing = absent.words(session.here, session.declined)
        words = "; ".join(filter(None, (str(error), missing)))
        raise NotEnoughDevices(f"{words}. {_CONTINUE}", error.missing, error.model) from None
    if missing := absent.words(session.here, session.declined):
        log.warning(missing)
    if findings.score is not None:
        watch.take(Scored(findings.score.value, findings.score.rows))
    result = write_numbers(serving.output, sums.study, findings, totals.owners, serving.roster.owners)
    _close(session)
    return findings, result


def _close(session: Session) -> None:
    """Devices delete the keys of the session; those that are not there do so when its time is over."""
    try:
        session.close()
    except CodedFLError as error:
        log.warning("not every device has heard that the session is over: %s", error)


class _Absences:
    """Who is absent, who has refused, whom that costs; with the command that helps each."""

    def __init__(self, sums: StudySums) -> None:
        self._terms = sums.terms

    def words(self, here: Collection[str], declined: Collection[str]) -> str:
        """One line; empty where everybody is there."""
        there = set(here)
        gone = set(self._terms.by_name) - there
        groups = map(set, self._terms.groups.values())
        cost = {name for group in groups if not group <= there for name in group & there}
        said = (
            ("absent (start codedfl site join there, or the SuperNode): ", gone - set(declined)),
            ("refused (their own logs say why, and codedfl site check there): ", set(declined) - there),
            ("left out with their disclosure groups: ", cost),
        )
        return "; ".join(words + ", ".join(sorted(who)) for words, who in said if who)

"""``codedfl serve``: conduct a study's run at a broker, with a live table of who is there and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codedfl.cli import broker_options
from codedfl.cli.screen import INTERRUPTED, Screen
from codedfl.cli.study_result import score_facts, show_inference, show_tables
from codedfl.data.model import TrainedModel
from codedfl.data.studies import Study
from codedfl.engine.conductor import Patience
from codedfl.engine.logs import use_console
from codedfl.engine.private_files import default_state_dir
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.state_folder import INDEX
from codedfl.engine.study_config import RunFile, load_agreed
from codedfl.engine.study_training import MODEL_FILE, Serving, StudyResult
from codedfl.engine.training import Score
from codedfl.errors import InvalidInput

_GOES_ON = "started again with the same --out, it goes on where it was"
_MOST_ROWS = 40
_STYLES = {"ready": "green", "shared": "cyan", "joined": "cyan", "done": "green", "gone": "red"}


def serve_study(
    study: broker_options.Study,
    broker: broker_options.Broker,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Checkpoint, journal and model.", show_default=False)],
    authority: broker_options.Authority = None,
    certificate: broker_options.Certificate = None,
    key: broker_options.Key = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows to score every epoch's model on.", show_default=False)
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(metavar="D", help="Of a study: how many to wait for.", show_default="least_participants", min=3),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Of a study: then it starts with fewer.", show_default="300", min=0),
    ] = None,
    roster: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a study: pinned public keys.", show_default=False)
    ] = None,
) -> None:
    """Conduct one run of a study and write its model.

    STUDY is a study file, whose stages (moments, training, score) all are over the same devices, or a run's flat
    configuration (docs/deploy.md).

    Waits for the devices, trains with those who are fast enough, and tells all of them when it is over. Killed at any
    moment it goes on where it was when it is started again with the same --out; a run that is over is not begun anew.
    Everything that can be seen of the run is in events.jsonl there, a JSON line an event, and codedfl watch makes a
    page of it.
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.address import BrokerAddress
    from codedfl.mqtt.serving import serve
    from codedfl.mqtt.serving import serve_study as conduct

    screen = Screen()
    use_console(screen.remarks)
    address = BrokerAddress.parse(broker, authority, certificate, key)
    found = load_agreed(study)
    _check_options(found, test, devices, wait, roster)
    if _is_over(out):  # a machine that starts its services anew must not begin a second run, and replace the model
        screen.remark(f"the run in {out} is over: another --out begins a new one")
        screen.say(str(out / MODEL_FILE))
        return
    epochs = found.epochs if isinstance(found, Study) else found.run_config(out).epochs
    try:
        with (
            broker_options.disk_failures_told(_GOES_ON),
            _shown(RunWatch.in_folder(out, epochs, found.name), screen.remarks) as watch,
        ):
            if isinstance(found, Study):
                least = found.least_participants
                patience = Patience(devices or least, least, 300.0 if wait is None else wait)
                serving = Serving(out, default_state_dir() / "server.key", patience, roster)
                _show_result(screen, conduct(found, address, serving, watch=watch))
                screen.say(str(out / MODEL_FILE))
            else:
                screen.say(str(serve(found, address, out, score=_score(found, test), watch=watch)))
    except KeyboardInterrupt:
        screen.remark(f"interrupted: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None


def _is_over(out: Path) -> bool:
    """There is a model, and no state to go on from."""
    return (out / MODEL_FILE).is_file() and not any(out.glob(f"*/{INDEX}"))


def _check_options(
    agreed: Study | RunFile, test: Path | None, devices: int | None, wait: float | None, roster: Path | None
) -> None:
    """Each kind of file has options of its own; what it says itself is not said twice."""
    if isinstance(agreed, Study):
        if test is not None:
            raise InvalidInput(f"--test must be left out with a study, which holds rows out itself, got {str(test)!r}")
        return
    for name, value in (("--devices", devices), ("--wait", wait), ("--roster", roster)):
        if value is not None:
            raise InvalidInput(f"{name} must be left out with a run file, which says it itself, got {str(value)!r}")


def _show_result(screen: Screen, result: StudyResult) -> None:
    facts = [("owners", f"{len(result.owners)} devices")]
    if result.score is None:
        facts.append(("score", f"none: {result.no_score}"))
    else:
        facts += score_facts(result.score)
        facts.append(("scored by", f"{result.scored} of {len(result.owners)} devices, the others were gone"))
        if result.scored == len(result.owners):
            facts[-1] = ("scored by", "all of them")
    if result.clipped is not None:
        names = result.model.recipe.column_names
        facts.append(
            ("clipped", f"{result.clipped.words(names) if result.clipped else 'nothing'}, of all training rows")
        )
    screen.facts(facts)
    show_tables(screen, result.score, result.model.recipe)
    show_inference(screen, result.inference, result.no_inference)


def _score(study: RunFile, test: Path | None) -> Score | None:
    if test is None:
        return None
    X, y = study.table(test)

    def score(model: TrainedModel) -> float:
        return model.score(X, y)

    return score


@contextmanager
def _shown(watch: RunWatch, console: Console) -> Iterator[RunWatch]:
    """A table that keeps itself up to date, below the log; without a terminal the log is all."""
    if not console.is_terminal:
        yield watch
        return
    with Live(LiveTable(watch), console=console, refresh_per_second=4):
        yield watch


class LiveTable:
    """A run as it is right now, for rich: made anew at every look."""

    def __init__(self, watch: RunWatch) -> None:
        self._watch = watch

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield self.table()
        yield self.summary()

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in ("device", "connection", "state", "upload", "answers", "late"):
            table.add_column(heading, justify="right" if heading in ("upload", "answers", "late") else "left")
        for name, seen in sorted(self._watch.devices.items())[:_MOST_ROWS]:
            table.add_row(
                Text(name),
                Text("connected", "green") if seen.connected else Text("away", "red"),
                Text(seen.state, _STYLES.get(seen.state, "")),
                f"{seen.uploaded / 1e6:.1f} of {seen.upload / 1e6:.1f} MB" if seen.upload else "",
                str(seen.answers),
                str(seen.late) if seen.late else "",
            )
        return table

    def summary(self) -> Text:
        watch = self._watch
        connected = sum(seen.connected for seen in watch.devices.values())
        parts = [f"{watch.phase}, {connected} of {max(watch.wanted, len(watch.devices))} devices connected"]
        if len(watch.devices) > _MOST_ROWS:
            parts.append(f"the first {_MOST_ROWS} are shown")
        if watch.epoch:
            parts.append(f"epoch {watch.epoch}{f' of {watch.epochs}' if watch.epochs else ''}")
        if watch.score is not None:
            parts.append(f"score {watch.score:.4f}")
        if watch.seconds_an_epoch is not None:
            parts.append(f"{1000 * watch.seconds_an_epoch:.0f} ms an epoch")
        if watch.seconds_left is not None:
            parts.append(f"{timedelta(seconds=round(watch.seconds_left))} left")
        return Text(", ".join(parts))

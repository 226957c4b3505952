"""``codedfl server run``: conduct a study's run at a broker, with a live table of who is there and how far it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codedfl.cli import broker_options
from codedfl.cli.add_to import AddTo, kept_total
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.screen import Screen
from codedfl.cli.study_result import devices_fact, leave_without_models, show_findings
from codedfl.contract.kit import load_kit
from codedfl.contract.names import SERVER_NAME
from codedfl.crypto.key_files import SERVER_KEY, load_identity
from codedfl.device.membership import TLS_FOLDER
from codedfl.errors import InvalidInput
from codedfl.logs import use_console
from codedfl.private_files import default_state_dir
from codedfl.report.run_watch import RunWatch
from codedfl.report.study_files import RESULT_FILE, RESULT_PAGE
from codedfl.run.serving import Serving, load_patience
from codedfl.sum.asking import Patience

_GOES_ON = "started again with the same --out, it continues where it was"
_MOST_ROWS = 40
_STYLES = {"enrolled": "cyan", "uploaded": "green", "gone": "red", "refused": "red"}


def serve_study(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The server's kit (codedfl study kit).")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Replies, event log, results and model.")],
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long to wait for absent devices; then it continues without their groups.",
            min=0,
            show_default="300",
        ),
    ] = None,
    patience: Annotated[Path | None, typer.Option(metavar="FILE", help="How long to wait for what (TOML).")] = None,
    state: broker_options.State = None,
    add_to: AddTo = None,
) -> None:
    """Conduct a study: ask its devices for the sums that its analyses need, and write model and results.

    Waits for the devices and continues with those who are fast enough. Killed at any moment it continues where it was
    when it is started again with the same --out; a study that is over is not run again. All that can be seen of it is
    in events.jsonl there, one JSON line per event, and codedfl server watch makes a page of it.

    Example: `codedfl server run codedfl-server.kit --out results`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.address import BrokerAddress
    from codedfl.run.at_broker import serve

    screen = Screen()
    use_console(screen.remarks)
    own, states = load_kit(kit), state or default_state_dir()
    if own.name != SERVER_NAME or not own.broker:
        raise InvalidInput(
            f"the kit must be the server's, for a broker, got one of {own.name!r} for {own.broker or 'none'}"
        )
    found = own.study
    if (
        out / RESULT_FILE
    ).is_file():  # a machine that restarts its services must not begin a second run, and replace the result
        screen.remark(f"the study in {out} is over: another --out begins a new run")
        screen.say(str(out / RESULT_FILE))
        return
    waits = Patience() if patience is None else load_patience(patience)
    if wait is not None:
        waits = replace(waits, join=wait)
    identity = load_identity(states / SERVER_KEY)
    serving = Serving(out, identity, own.roster, waits, kept_total(add_to))
    try:
        with (
            broker_options.disk_failures_told(_GOES_ON),
            _shown(RunWatch(out), screen.remarks) as watch,
        ):
            folder = states / SERVER_NAME / TLS_FOLDER
            address = BrokerAddress.laid_out(own.broker, own.authority, own.certificate, folder)
            findings = serve(found, address, serving, watch=watch)
    except KeyboardInterrupt:
        screen.remark(f"interrupted: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None
    owners = json.loads((out / RESULT_FILE).read_text(encoding="utf-8"))["owners"]
    show_findings(screen, found, findings, devices_fact(serving.roster, owners), ("results", str(out / RESULT_PAGE)))
    screen.say(str(out / RESULT_FILE))
    leave_without_models(screen, findings)


@contextmanager
def _shown(watch: RunWatch, console: Console) -> Iterator[RunWatch]:
    """A table that keeps itself up to date, below the log, and is gone at the end; else the log is all."""
    if not console.is_terminal:
        yield watch
        return
    with Live(LiveTable(watch), console=console, refresh_per_second=4, transient=True):
        yield watch


class LiveTable:
    """A run as it is right now, for rich: made again at every look."""

    def __init__(self, watch: RunWatch) -> None:
        self._watch = watch

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield self.table()
        yield self.summary()

    def table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in ("device", "connection", "state", "upload", "answers", "spare"):
            table.add_column(heading, justify="right" if heading in ("upload", "answers", "spare") else "left")
        for name, seen in sorted(self._watch.devices.items())[:_MOST_ROWS]:
            here, in_all = seen.upload
            table.add_row(
                Text(name),
                Text("connected", "green") if seen.connected else Text("away", "red"),
                Text(seen.state, _STYLES.get(seen.state, "")),
                f"{here / 1e6:.1f} of {in_all / 1e6:.1f} MB" if in_all else "",
                str(seen.answers),
                str(seen.spare) if seen.spare else "",
            )
        return table

    def summary(self) -> Text:
        view, devices = self._watch.view, list(self._watch.devices.values())
        parts = [view.stage] if view.stage else []
        parts.append(f"{sum(seen.connected for seen in devices)} of {len(devices)} devices connected")
        if len(devices) > _MOST_ROWS:
            parts.append(f"the first {_MOST_ROWS} are shown")
        if view.epoch:
            parts.append(f"epoch {view.epoch}{f' of {view.epochs}' if view.epochs else ''}")
        if view.score is not None:
            parts.append(f"score {view.score:.4f}")
        if view.seconds_an_epoch is not None:
            parts.append(f"{1000 * view.seconds_an_epoch:.0f} ms per epoch")
        if view.seconds_left is not None:
            parts.append(f"{timedelta(seconds=round(view.seconds_left))} left")
        return Text(", ".join(parts))

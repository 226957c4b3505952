"""``codedfl server watch``: a page of a run in progress, or of one that is over, from its event log."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli.screen import Screen
from codedfl.report.watch_server import WatchServer

PORT = 8470


def watch_run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the run writes its event log: its --out.")],
    listen: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="The address to serve on. Whoever reaches it sees the page: there is no password."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = PORT,
    browser: Annotated[bool, typer.Option("--open", help="Open it in the browser of this machine.")] = False,
) -> None:
    """Serve a page of a run: score, devices, bytes, time left, and what the server knows by now.

    FOLDER is the --out of `codedfl lab train` or `codedfl server run`, or the output-dir of a Flower run. The page
    follows the run by itself, needs no network, changes nothing, and is for this machine alone unless --listen says
    otherwise. Ctrl-C ends it; the run does not notice.

    Example: `codedfl server watch results --open`
    """
    screen = Screen()
    with WatchServer(folder, listen, port) as server:
        screen.say(server.url)
        if not server.loopback:
            screen.remark("warning: everybody who reaches this address sees the page")
        if browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            screen.remark("no longer served")

"""All commands together, and what they have in common.

Every command keeps the same promises: results on stdout, progress and remarks on stderr, ``--json -`` leaves stdout to
the JSON, and bad input is one line on stderr. ``exit_codes`` has the exit codes. Errors that codedfl does not raise on
purpose are bugs and keep their traceback.
"""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import click
import typer
from typer.core import TyperGroup

from codedfl.additions import COMMANDS, additions, load_addition
from codedfl.cli.exit_codes import BAD_INPUT, INTERRUPTED, NO_DATA
from codedfl.cli.listed import SETTINGS, Listed
from codedfl.errors import CodedFLError, DataUnavailable
from codedfl.version import __version__

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


_STUDY, _MACHINES, _MODEL = "A study", "On real machines", "A model"
_OWN = [
    Listed("study", "Write, check, read, rehearse and approve study files.", "codedfl.cli.study:app", _STUDY),
    Listed(
        "encode",
        "Encode pictures or texts once, into a table that a study with a [matrix] section takes.",
        "codedfl.cli.encode:encode_items",
        _STUDY,
    ),
    Listed("roster", "Make and read rosters: devices, their keys and their pods.", "codedfl.cli.roster:app", _STUDY),
    Listed(
        "ledger",
        "Show every study that this device approved, and how often it contributed to each.",
        "codedfl.cli.ledger:show_ledger",
        _STUDY,
    ),
    Listed(
        "key",
        "Print a device's name and its public key, which is no secret, as codedfl roster new takes them.",
        "codedfl.cli.key:show_key",
        _MACHINES,
    ),
    Listed(
        "join",
        "Take part in studies: a process that stays, answers their servers through a broker, and survives restarts.",
        "codedfl.cli.join:join_study",
        _MACHINES,
    ),
    Listed(
        "serve",
        "Conduct a study: ask its devices for the totals that its analyses need, and write model and results.",
        "codedfl.cli.serve:serve_study",
        _MACHINES,
    ),
    Listed(
        "watch",
        "Serve a page of a run: score, devices, bytes, time left, and what the server knows by now.",
        "codedfl.cli.watch:watch_run",
        _MACHINES,
    ),
    Listed("broker", "Set up and start a broker for codedfl join and serve.", "codedfl.cli.broker:app", _MACHINES),
    Listed(
        "predict",
        "Predict the label of every row, as a CSV with one prediction per row.",
        "codedfl.cli.predict:predict",
        _MODEL,
    ),
    Listed("evaluate", "Score a model on labelled rows, class by class.", "codedfl.cli.predict:evaluate", _MODEL),
]
_OF_THE_LAB = ("compare", "data", "demo", "fleet", "plan", "reproduce", "train")


class Commands(TyperGroup):
    """Finds commands, ours and added ones, and turns the errors a user can mend into one line and an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._own = {one.name: one for one in _OWN}
        self._lines_only = False

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        del ctx
        return [*self._own, *sorted(additions(COMMANDS).keys() - self._own.keys())]

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        found = self._own.get(cmd_name)
        if found is None and (entry := additions(COMMANDS).get(cmd_name)):
            found = load_addition(entry, "command")
        if found is not None:
            return found.line() if self._lines_only else found.load()
        if cmd_name in _OF_THE_LAB:
            raise click.UsageError(f"{cmd_name} is a command of codedfl-lab: pip install codedfl-lab")
        return super().get_command(ctx, cmd_name)  # type: ignore[arg-type]  # which does not read the context

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line per command, of which none is loaded for it."""
        self._lines_only = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lines_only = False

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        # The commands that write reports put down how they were called.
        extra["obj"] = shlex.join(["codedfl", *(sys.argv[1:] if args is None else args)])
        try:
            result = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except click.ClickException as error:
            _fail(error.format_message(), BAD_INPUT)
        except DataUnavailable as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(NO_DATA)
        except CodedFLError as error:
            _fail(str(error), BAD_INPUT)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            _fail(f"the disk must be writable and have room, got {error}: make room and run it again", BAD_INPUT)
        # Without standalone mode click returns the code of an exit, and otherwise what the command returned: nothing.
        if standalone_mode:
            sys.exit(result)
        return result

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Commands that can keep what was finished see to it themselves; then no interrupt gets here.
            click.echo("interrupted: nothing was kept", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _fail(message: str, code: int) -> NoReturn:
    if message:  # called without arguments, typer has printed the help and nothing is left to say
        click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)


app = typer.Typer(
    name="codedfl",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings=SETTINGS,
    help="Regression and kernel models on rows that devices keep to themselves: the server reads exact sums over whole "
    "groups of devices, and the fastest replies are enough.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        click.echo(f"codedfl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    pass

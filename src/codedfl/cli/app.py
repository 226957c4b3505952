"""All commands together, and what they have in common.

Every command keeps the same promises: results on stdout, progress and remarks on stderr, ``--json -`` leaves stdout to
the JSON, and bad input is one line on stderr. Exit codes: 0, 2 (bad input), 3 (a data set cannot be had), 130 (Ctrl-C).
Errors that codedfl does not raise on purpose are bugs and keep their traceback.
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

from codedfl.cli import broker, join, key, ledger, predict, privacy, roster, serve, study, watch
from codedfl.cli.option_groups import command
from codedfl.cli.screen import INTERRUPTED
from codedfl.errors import CodedFLError
from codedfl.version import __version__
from codedfl_lab.cli import compare, data, fleet, plan, reproduce, train
from codedfl_lab.datasets import DataUnavailable

BAD_INPUT = 2
NO_DATA = 3
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Commands(TyperGroup):
    """Turns the errors a user can mend into one line and an exit code."""

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
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated learning that does not wait for its slowest devices: exact gradients from the fastest "
    "D - alpha + 1, and the server sees only the total.",
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


app.command("train")(command(train.train))
app.command("predict")(predict.predict)
app.command("evaluate")(predict.evaluate)
app.command("compare")(command(compare.compare_schemes))
app.command("plan")(command(plan.make_plan))
app.command("privacy")(privacy.show_privacy)
app.command("reproduce")(reproduce.reproduce_paper)
app.command("key")(key.show_key)
app.command("ledger")(ledger.show_ledger)
app.command("join")(join.join_study)
app.command("serve")(serve.serve_study)
app.command("watch")(watch.watch_run)
app.add_typer(broker.app, name="broker")
app.add_typer(data.app, name="data")
app.add_typer(fleet.app, name="fleet")
app.add_typer(roster.app, name="roster")
app.add_typer(study.app, name="study")

"""All commands together, and what they have in common.

Every command keeps the same promises: results on stdout, progress and remarks on stderr, ``--json -`` leaves stdout to
the JSON, and bad input is one line on stderr. ``exit_codes`` has the exit codes. Errors that codedfl does not raise on
purpose are bugs and keep their traceback.
"""

from __future__ import annotations

import errno
import re
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

import click
import typer

from codedfl.additions import COMMANDS, additions, load_addition
from codedfl.cli.exit_codes import BAD_INPUT, INTERRUPTED, NO_DATA
from codedfl.cli.listed import SETTINGS, Group, ListedCommand, words_of
from codedfl.cli.tree import LAB, TREE
from codedfl.errors import CodedFLError, DataUnavailable
from codedfl.version import __version__

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class Laboratory(Group):
    """``codedfl lab``: what codedfl-lab and other packages add by their entry points."""

    def listed(self) -> dict[str, ListedCommand]:
        return {name: load_addition(entry, "command") for name, entry in sorted(additions(COMMANDS).items())}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not additions(COMMANDS):
            ctx.fail(f"codedfl {LAB} {args[0]} is in the package codedfl-lab: pip install codedfl-lab")
        return super().resolve_command(ctx, args)


class Commands(Group):
    """The root: turns the errors a user can mend into one line and an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"listed": TREE, **settings})

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:
        if cmd_name == LAB and not self._lines_only:
            return Laboratory(LAB, help=self.listed()[LAB].summary)
        return super().get_command(ctx, cmd_name)

    def paths(self) -> list[str]:
        return [*super().paths(), *(f"{LAB} {path}" for path in Laboratory(LAB).paths())]

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
        except click.NoSuchOption as error:
            _fail(_unknown_option(error), BAD_INPUT)
        except click.MissingParameter as error:
            _fail(_left_out(error), BAD_INPUT)
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


def _unknown_option(error: click.NoSuchOption) -> str:
    """What an option is called now, that it is a setting, or the nearest ones."""
    from codedfl.cli.renamed import RENAMED_OPTIONS
    from codedfl.cli.settings import settings_of

    typed = error.option_name
    if error.ctx is None:
        return error.format_message()
    words, key = " ".join(words_of(error.ctx)), typed.lstrip("-").replace("-", "_")
    if new := RENAMED_OPTIONS.get(words, {}).get(typed):
        return f"{typed} of codedfl {words} is now: {new}"
    if key in settings_of(error.ctx.command):
        return f"{typed} is a setting: --set {key}=..."
    there = {one.opts[0].lstrip("-"): one.opts[0] for one in error.ctx.command.params if isinstance(one, click.Option)}
    near = " or ".join(there[name] for name in get_close_matches(typed.lstrip("-"), there, 2, 0.7))
    return f"no option {typed} of codedfl {words}{f'; did you mean {near}?' if near else ': --help lists them'}"


def _left_out(error: click.MissingParameter) -> str:
    """What was not given, and the example of the command's help."""
    if error.ctx is None or error.param is None:
        return error.format_message()
    words, option = " ".join(words_of(error.ctx)), isinstance(error.param, click.Option)
    name = error.param.opts[0] if option else error.param.human_readable_name.upper()
    example = re.search(r"Example: `([^`]+)`", error.ctx.command.help or "")
    return f"codedfl {words} must have {name}, got none{f', as in: {example[1]}' if example else ': see --help'}"


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

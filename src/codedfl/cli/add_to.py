"""``--add-to``: the sum that an earlier run left in a folder, for the commands that add another to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.analyses.driving import TOTAL_FILE
from codedfl.analyses.kept import NOTHING_KEPT, KeptSum
from codedfl.cli.options import read_json

AddTo = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Results of an earlier run, to whose sum this one is added."),
]


def kept_total(folder: Path | None) -> KeptSum:
    """The total that a run or a rehearsal left in a folder; nothing where there is none."""
    if folder is None:
        return NOTHING_KEPT
    return KeptSum.read(
        read_json(folder / TOTAL_FILE, "FOLDER must hold what codedfl server run or study rehearse wrote")
    )

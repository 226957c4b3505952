"""``codedfl study leave``: take the part of some owners out of a kept sum; no device is asked."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from codedfl.analyses.driving import TOTAL_FILE, read_total
from codedfl.analyses.study_analysis import refit
from codedfl.cli import options
from codedfl.cli.output_files import make_folder
from codedfl.cli.screen import Screen
from codedfl.cli.study_result import show_model
from codedfl.contract.toml_file import load_study
from codedfl.private_files import write_private
from codedfl.report.study_files import MODEL_FILE


def leave_study(
    study: options.StudyFile,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where a run or a rehearsal wrote its results.")],
    owners: Annotated[str, typer.Option(metavar="A,B", help="Who leaves: all owners of one part, or of several.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the sum of the others and its model go.")],
    json: options.Json = None,
) -> None:
    """Take whole parts out of a kept sum, and make the linear model of the others.

    No device is asked. A part is what one run has summed: the first, or one that was added to it (--add-to). Its owners
    leave together. For one of them alone the others must be summed again, over a roster without its disclosure group.

    Example: `codedfl study leave study.toml results --owners site-4,site-5,site-6 --out without-them`
    """
    screen, loaded = Screen(json), load_study(study)
    rule = "FOLDER must hold what codedfl server run or study rehearse wrote"
    kept = read_total(loaded, options.read_json(folder / TOTAL_FILE, rule)).without(options.listed(owners))
    with screen.busy("fitting"):
        made = refit(loaded, kept.total, kept.merged).unless_clipped(loaded, kept.clipped)
    make_folder("--out", out)
    content = {"digest": loaded.digest().hex(), **kept.to_dict()}
    write_private(out / TOTAL_FILE, [(json_text.dumps(content) + "\n").encode()])
    if made.model is not None:
        made.model.save(out / MODEL_FILE)
    parts = f"{len(kept.parts)} part{'s' * (len(kept.parts) != 1)}"
    screen.facts([("devices", f"{len(kept.owners)} in {parts}"), ("rows", str(kept.total[0]))])
    show_model(screen, made)
    screen.write_json({"command": "study leave", "owners": list(kept.owners), **made.to_dict()})

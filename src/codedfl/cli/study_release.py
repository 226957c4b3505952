"""``codedfl study release``: what of a result may be published, in a folder of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from codedfl.analyses.driving import TOTAL_FILE, read_total
from codedfl.analyses.linear import LinearTotal
from codedfl.cli import options
from codedfl.cli.screen import Screen
from codedfl.contract.merging import merged_study
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study
from codedfl.errors import InvalidInput
from codedfl.private_files import make_private_folder, write_private
from codedfl.report.release import FewPairs, as_json, record, released
from codedfl.report.study_files import COEFFICIENTS_FILE, RESULT_FILE, coefficients_csv, write_report

RECORD_FILE, WITHHELD_FILE = "ro-crate-metadata.json", "withheld.txt"
_RULE = "FOLDER must hold the result.json of this study that codedfl server run or study rehearse wrote"


def release_study(
    study: options.StudyFile,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where server run or rehearse wrote its results.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where what may be published goes.")],
    who: Annotated[str, typer.Option(metavar="NAME", help="Who releases it, for the record.")],
    json: options.Json = None,
) -> None:
    """Check a result by the rules of output checkers, and write what may be published into a folder of its own.

    Numbers are rounded to what their errors support; what would tell of few people is withheld, with the reason. The
    results of a server have exact sums and all digits: they are not for publication.

    Example: `codedfl study release stay.toml results --out published --who "Dr. Example"`
    """
    screen, loaded = Screen(json), load_study(study)
    result: Any = options.read_json(folder / RESULT_FILE, _RULE)
    if result.get("digest") != loaded.digest().hex():
        raise InvalidInput(f"{_RULE}, got one of {str(result.get('digest'))[:16]!r}")
    few = FewPairs.of(_total(loaded, folder), loaded.smallest_cell)
    made, withheld = released(result, few)
    if out.exists() and any(out.iterdir()):
        raise InvalidInput(f"--out must be a new or an empty folder, got {str(out)!r}")
    make_private_folder(out)
    texts = {
        RESULT_FILE: as_json(made),
        COEFFICIENTS_FILE: coefficients_csv(made).encode(),
        WITHHELD_FILE: "".join(f"{one.line}\n" for one in withheld).encode(),
    }
    for name, data in texts.items():
        write_private(out / name, [data])
    with screen.busy("drawing"):
        page = write_report(out, made)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    files = [(str(one.relative_to(out)), one.read_bytes()) for one in sorted(out.rglob("*")) if one.is_file()]
    write_private(out / RECORD_FILE, [as_json(record(loaded, who, when, withheld, files))])
    screen.facts([("released", str(out)), ("page", str(page)), ("record", str(out / RECORD_FILE))])
    for one in withheld:
        screen.sentence(one.line)
    screen.sentence(f"not released: the model's file and exact sums, which stay in {folder}")
    screen.write_json({"command": "study release", "out": str(out), "withheld": [one.line for one in withheld]})


def _total(study: Study, folder: Path) -> LinearTotal | None:
    """The exact sum beside a result; None where there is none."""
    path = folder / TOTAL_FILE
    if not path.exists():
        return None
    kept = read_total(study, options.read_json(path, _RULE))
    return LinearTotal(merged_study(study, kept.merged), kept.total)

"""``codedfl lab data``: which data sets there are by name, and how to get their files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli import options as common
from codedfl.cli.screen import Screen
from codedfl.data.encoders import load_encoder
from codedfl.errors import DataUnavailable
from codedfl.typing import JsonObject
from codedfl_lab import datasets
from codedfl_lab.datasets import NAMED
from codedfl_lab.encoders import SOURCES, export_encoder


def list_data(data_dir: common.DataDir = None, json: common.Json = None) -> None:
    """Show the data sets that have a name, and whether their files are on this machine.

    Example: `codedfl lab data list`
    """
    screen = Screen(json)
    found: list[JsonObject] = []
    facts = []
    for entry in NAMED.values():
        where = _where(entry.name, data_dir)
        found.append(
            {
                "name": entry.name,
                "description": entry.description,
                "licence": entry.licence,
                "available": where is not None,
                "where": where,
            }
        )
        facts += [
            (entry.name, entry.description),
            ("", f"licence: {entry.licence}"),
            ("", f"where:   {where or f'not on this machine yet: codedfl lab data fetch {entry.name}'}"),
        ]
    screen.facts(facts)
    screen.write_json({"command": "lab data list", "datasets": found})


def _where(name: str, data_dir: Path | None) -> str | None:
    """The folder of a data set's files, without fetching any; None if they are not on this machine."""
    try:
        files = datasets.fetch_dataset(name, data_dir, use_network=False)
    except DataUnavailable:
        return None
    return str(next(iter(files.values())).parent) if files else "comes with codedfl"


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    data_dir: common.DataDir = None,
    json: common.Json = None,
) -> None:
    """Make sure the files of a data set are on this machine, and check their hashes.

    NAME is digits, digits-shifted, mnist, fashion-mnist, cifar-10, or one that another package adds.

    Looks in --data-dir, in the folder CODEDFL_DATA names and in the cache, then tries the public mirror.

    Example: `codedfl lab data fetch mnist`
    """
    screen = Screen(json)
    with screen.fetching() as progress:
        files = datasets.fetch_dataset(name, data_dir, progress)
    if files:
        screen.say(f"{name} is here, hashes checked:")
        screen.files(files.values())
    else:
        screen.say(f"{name} comes with codedfl: there is nothing to fetch")
    screen.write_json(
        {"command": "lab data fetch", "name": name, "files": {key: str(path) for key, path in files.items()}}
    )


def encoder(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None,
    out: Annotated[Path, common.in_output(metavar="DIR", help="Where its files go.")] = Path("encoders"),
    json: common.Json = None,
) -> None:
    """Export a pretrained network to the files that codedfl site encode takes; without NAME, list all.

    NAME is efficientnet-lite0, wordllama, timm:MODEL, torchvision:MODEL or sentence-transformers:MODEL. What a source
    needs is installed beside codedfl-lab, on this machine alone: devices take the ONNX file and no torch.

    Example: `codedfl lab data encoder efficientnet-lite0`
    """
    screen = Screen(json)
    if name is None:
        lines = ((f"{key}:MODEL" if one.named else key, one.description) for key, one in SOURCES.items())
        screen.facts(list(lines))
        screen.write_json({"command": "lab data encoder", "sources": list(SOURCES)})
        return
    with screen.busy(f"exporting {name}"):
        path = export_encoder(name, out)
    made = load_encoder(path)
    screen.facts([("encoder", made.digest()), ("model", made.model), ("wrote", str(path))])
    screen.write_json({"command": "lab data encoder", "encoder": made.digest(), "file": str(path)})

"""``codedfl site encode``: pictures or texts to a table of embeddings, which a study takes as it takes any other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from codedfl.cli import options
from codedfl.cli.output_files import check_writable
from codedfl.cli.screen import Screen
from codedfl.data.encoders import Encoded, Items, encode, load_encoder, pictures_of, texts_of
from codedfl.data.tables import read_file
from codedfl.data.tables.npz_file import ENCODER
from codedfl.errors import InvalidInput
from codedfl.files import cache_folder, write_whole

_MOST_NAMED = 20


def encode_items(
    source: Annotated[Path, typer.Argument(metavar="SOURCE")],
    encoder: Annotated[Path, options.in_data(metavar="FILE", help="The encoder's file; its ONNX file is beside it.")],
    out: Annotated[Path, options.in_output(metavar="FILE", help="The table, an .npz file.")],
    text: Annotated[str | None, options.in_data(metavar="COLUMN", help="The column of texts of a table.")] = None,
    label: Annotated[
        str | None,
        options.in_data(metavar="COLUMN", help="What the labels are called.", show_default="y; none of a table"),
    ] = None,
    cache: Annotated[
        Path | None,
        options.in_data(
            metavar="DIR",
            help="Where embeddings are kept; they are as private as their items.",
            show_default="the user's cache folder",
        ),
    ] = None,
    json: options.Json = None,
) -> None:
    """Encode pictures or texts once, into a table that a study with a [matrix] section takes.

    SOURCE is a folder of pictures, labelled by the folders below it; an .npz file with X of bytes; or, with --text, a
    table. The encoder is an ONNX file that is known by its hash, and the recipe by which pictures become its inputs:
    both are in the digest that a study names. Damaged items are named, counted and left out.

    Example: `codedfl site encode pictures --encoder encoder.toml --out table.npz`
    """
    screen = Screen(json)
    check_writable("--out", out)
    if out.suffix != ".npz":
        raise InvalidInput(f"--out must end in .npz, got {str(out)!r}")
    made = load_encoder(encoder)
    items = _items(source, text, label)
    with screen.progress() as bar:
        task = bar.add_task("encoding", total=len(items))
        kept = cache_folder() / "embeddings" if cache is None else cache
        found = encode(made, items, kept, lambda done, _: bar.update(task, completed=done))
    write_whole(out, lambda partial: _save(partial, found, label or "y", made.digest()))
    for one in found.damaged[:_MOST_NAMED]:
        screen.remark(f"left out: {one.name}: {one.reason}")
    screen.facts(
        [
            ("encoder", made.digest()),
            ("rows", f"{len(found.values)} of {made.width} numbers; {len(found.damaged)} damaged ones left out"),
            ("clipped", f"{found.clipped} of {found.values.size} numbers lay outside [{made.low:g}, {made.high:g}]"),
            ("wrote", str(out)),
        ]
    )
    screen.say("for the study:\n\n[matrix]")
    screen.say(f"columns = {made.width}\nrange = [{made.low}, {made.high}]\nstep = {made.step}")
    screen.say(f'encoder = "{made.digest()}"')
    damaged = [{"name": one.name, "reason": one.reason} for one in found.damaged]
    about = {"encoder": made.digest(), "rows": len(found.values), "clipped": found.clipped, "damaged": damaged}
    screen.write_json({"command": "site encode", **about, "out": str(out)})


def _items(source: Path, text: str | None, label: str | None) -> Items:
    return pictures_of(source) if text is None else texts_of(read_file(source), text, label)


def _save(path: Path, found: Encoded, label: str, encoder: str) -> None:
    arrays: dict[str, Any] = {"X": found.values, ENCODER: np.array(encoder)}
    if found.labels is not None:
        arrays[label] = found.labels
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)

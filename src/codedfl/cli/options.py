"""Options that several commands share, so that they read and behave alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import typer

from codedfl.data.partition import PARTITIONS

DATA = "Data"
MODEL = "Model"
FLEET = "Fleet"
OUTPUT = "Output"

# What DATA may be stands in the text of each command: typer 0.20 with click 8.5 does not show the help of arguments.
Data = Annotated[str, typer.Argument()]
Label = Annotated[
    str | None,
    typer.Option(
        help="Label column of a file.", show_default="label; y in an .npz with a matrix X", rich_help_panel=DATA
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="Column of a file that names the device each row belongs to.", rich_help_panel=DATA),
]
Partition = Annotated[
    str | None,
    typer.Option(
        click_type=click.Choice(list(PARTITIONS)),
        help="Who holds which rows.",
        show_default="device if there is a device column, else sorted by label",
        rich_help_panel=DATA,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the files of mnist and fashion-mnist may be; CODEDFL_DATA does the same.",
        rich_help_panel=DATA,
    ),
]
Devices = Annotated[
    int | None,
    typer.Option(
        metavar="D",
        help="Number of devices the rows are dealt out to.",
        show_default="as many as the fleet has, paper: 25; with a device column what it says",
        rich_help_panel=FLEET,
    ),
]
FleetName = Annotated[
    str,
    typer.Option(
        "--fleet",
        metavar="FLEET",
        help="paper, or a fleet file (TOML). Its mix is scaled to D devices.",
        rich_help_panel=FLEET,
    ),
]
NFeatures = Annotated[
    int | None,
    typer.Option(
        metavar="d",
        min=1,
        help="Random features.",
        show_default="2000; 500 below 10 000 training rows",
        rich_help_panel=MODEL,
    ),
]
Regularisation = Annotated[
    float | None,
    typer.Option(
        metavar="LAMBDA",
        help="Ridge parameter.",
        show_default="9e-6 (the paper's); 1e-3 for regression, whose targets are noisy",
        rich_help_panel=MODEL,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Of the features, the partition and the latencies. The test rows of a file do not depend on it.",
    ),
]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Also write the outcome as JSON; - is stdout.", rich_help_panel=OUTPUT),
]

"""Options that several commands share, so that they read and behave alike: in groups, and one by one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import click
import typer

from codedfl.data.partition import PARTITIONS
from codedfl.errors import InvalidInput
from codedfl.fleet.latency import SharingConvention
from codedfl.schemes import Conditions
from codedfl.study import paper

DATA = "Data"
MODEL = "Model"
FLEET = "Fleet"
OUTPUT = "Output"

# -- one by one

# What DATA may be stands in the text of each command: typer 0.20 with click 8.5 does not show the help of arguments.
Data = Annotated[str, typer.Argument()]
Label = Annotated[
    str | None,
    typer.Option(
        help="Label column of a file.", show_default="label; y in an .npz with a matrix X", rich_help_panel=DATA
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
FleetName = Annotated[
    str,
    typer.Option(
        "--fleet",
        metavar="FLEET",
        help="paper, or a fleet file (TOML). Its mix is scaled to D devices.",
        rich_help_panel=FLEET,
    ),
]
DEFAULT_SHARING = Conditions.sharing
"""For every command alike: what ``Conditions`` takes."""
_SHARING_HELP = (
    "How the sharing phase is timed: by the authors' formula, message by message, or with the bulk uploaded once and"
    " relayed."
)
Sharing = Annotated[
    str,
    typer.Option(click_type=click.Choice(list(get_args(SharingConvention))), help=_SHARING_HELP, rich_help_panel=FLEET),
]
ALL_SHARING = "all"
SharingOrAll = Annotated[
    str,
    typer.Option(
        click_type=click.Choice([*get_args(SharingConvention), ALL_SHARING]),
        help=f"{_SHARING_HELP} {ALL_SHARING.capitalize()} makes a table of each.",
        rich_help_panel=FLEET,
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

# -- groups


@dataclass(frozen=True)
class DataOptions:
    """What to read, and who holds which rows."""

    label: Label = None
    device: Annotated[
        str | None,
        typer.Option(help="Column of a file that names the device each row belongs to.", rich_help_panel=DATA),
    ] = None
    task: Annotated[
        str | None,
        typer.Option(
            click_type=click.Choice(["classification", "regression"]),
            help="What a file's labels are.",
            show_default="decided by the labels",
            rich_help_panel=DATA,
        ),
    ] = None
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Part of a file's rows to test on.", show_default="0.2", rich_help_panel=DATA),
    ] = None
    partition: Annotated[
        str | None,
        typer.Option(
            click_type=click.Choice(list(PARTITIONS)),
            help="Who holds which rows.",
            show_default="device if there is a device column, else sorted by label",
            rich_help_panel=DATA,
        ),
    ] = None
    concentration: Annotated[
        float | None,
        typer.Option(
            help="Of --partition dirichlet: small makes the devices differ more.",
            show_default="0.5",
            rich_help_panel=DATA,
        ),
    ] = None
    data_dir: DataDir = None
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns of a file to learn from.", show_default="all", rich_help_panel=DATA),
    ] = None
    drop: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of a file to leave out.", rich_help_panel=DATA)
    ] = None

    @property
    def columns_to_use(self) -> tuple[str, ...] | None:
        """None is all of them."""
        return None if self.columns is None else _listed(self.columns)

    @property
    def columns_to_drop(self) -> tuple[str, ...]:
        return _listed(self.drop or "")

    def __post_init__(self) -> None:
        if self.partition != "dirichlet":
            refuse_unread("--concentration", self.concentration, "any partition but dirichlet")


@dataclass(frozen=True)
class ModelOptions:
    """From rows to features, and how far their weights are held back."""

    features: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(["rbf", "linear", "scattering"]),
            help="Random features of a Gaussian kernel, the columns themselves, or wavelet scattering of pictures.",
            rich_help_panel=MODEL,
        ),
    ] = "rbf"
    n_features: Annotated[
        int | None,
        typer.Option(
            metavar="d",
            min=1,
            help="Random features.",
            show_default=f"{paper.FEATURES}; 500 below 10 000 training rows; 800 for digits-shifted",
            rich_help_panel=MODEL,
        ),
    ] = None
    gamma: Annotated[
        float | None,
        typer.Option(
            help="Of the kernel exp(-gamma |x - x'|^2).",
            show_default="15.68 / (columns x width^2), the width being 1 for pixels and 8 for standardised columns",
            rich_help_panel=MODEL,
        ),
    ] = None
    regularisation: Annotated[
        float | None,
        typer.Option(
            metavar="LAMBDA",
            help="Ridge parameter.",
            show_default=f"{paper.REGULARISATION:g} (the paper's); 1e-3 for regression, whose targets are noisy",
            rich_help_panel=MODEL,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.features == "linear":
            refuse_unread("--n-features", self.n_features, "--features linear, which takes the columns")
            refuse_unread("--gamma", self.gamma, "--features linear, which has no kernel")
        elif self.features == "scattering":
            refuse_unread("--n-features", self.n_features, "--features scattering, whose number the picture says")
            refuse_unread("--gamma", self.gamma, "--features scattering, which has no kernel")


@dataclass(frozen=True)
class FleetOptions:
    """Who the devices are."""

    devices: Annotated[
        int | None,
        typer.Option(
            metavar="D",
            help="Number of devices the rows are dealt out to.",
            show_default="as many as the fleet has, paper: 25; with a device column what it says",
            rich_help_panel=FLEET,
        ),
    ] = None
    fleet_name: FleetName = paper.FLEET


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def refuse_unread(option: str, value: object, where: str) -> None:
    """An option that would change nothing is a misunderstanding."""
    if value is not None:
        raise InvalidInput(f"{option} must be left out with {where}, got {value}")

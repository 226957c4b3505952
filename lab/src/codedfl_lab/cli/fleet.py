"""``codedfl fleet``: who the devices are, and how long an epoch takes them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.text import Text

from codedfl.cli.screen import Screen, table
from codedfl.errors import InvalidInput
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import Scheme
from codedfl.report.text import seconds
from codedfl.typing import JsonObject, Seconds
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.cli import options
from codedfl_lab.comparing import paper
from codedfl_lab.costs import Conditions, Draws, WorkShape, epoch_end_times, epoch_load
from codedfl_lab.fleet.fleet import DeviceClass, Fleet
from codedfl_lab.fleet.latency import FleetLatency, mean_arrivals

app = typer.Typer(help="Look at a fleet: a mix of devices and their links.", no_args_is_help=True)

_DRAWS = 200
_EPOCHS = 100  # 20 000 epochs in all: means to a few tenths of a percent


@app.command("show")
def show(
    fleet: Annotated[str, typer.Argument()] = paper.FLEET,
    devices: Annotated[
        int | None, typer.Option(metavar="D", help="Scale the mix to D devices.", show_default="as it is")
    ] = None,
    n_features: Annotated[
        int, typer.Option("--n-features", metavar="d", min=1, help="Features of the model.")
    ] = paper.FEATURES,
    n_outputs: Annotated[int, typer.Option("--n-outputs", metavar="c", min=1, help="Classes.")] = paper.OUTPUTS,
    samples: Annotated[
        int, typer.Option(metavar="m", min=1, help="Training rows of all devices, in equal parts.")
    ] = paper.SAMPLES,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Draws the latencies.")] = 0,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print the fleet file instead, to change it and pass it to --fleet.")
    ] = False,
    json: options.Json = None,
) -> None:
    """Show the classes of devices, and the seconds an epoch takes on average.

    FLEET is paper, or a fleet file (TOML).

    Conventional FL computes on a fifth of its rows and waits for everybody; a coded scheme computes on a d x d matrix
    and waits for the first D - alpha + 1 answers.
    """
    screen = Screen(json)
    mix = Fleet.load(fleet)
    if devices is not None:
        mix = mix.scaled_to(devices)
    if toml:
        options.refuse_unread("--json", json, "--toml, which prints a file")
        typer.echo(mix.dumps(), nl=False)
        return
    D = mix.n_devices
    if samples < D:
        raise InvalidInput(f"--samples must be at least the number of devices ({D}), got {samples}")
    shape = WorkShape(n_features, n_outputs, np.full(D, samples // D))
    conventional, coded = Conventional(), CodedPadded(1)
    first_of_class = np.cumsum([0, *(one.count for one in mix.classes[:-1])])
    answers = [_mean_answers(scheme, shape, mix)[first_of_class].tolist() for scheme in (conventional, coded)]
    classes = [_ClassRow(*row) for row in zip(mix.classes, *answers, strict=True)]
    rng = np.random.default_rng(seed)
    schemes: list[Scheme] = [conventional, *(CodedPadded(alpha) for alpha in paper.alphas_for(D))]
    epochs = [
        _EpochRow(
            scheme,
            waits_for=D - scheme.alpha + 1 if isinstance(scheme, CodedPadded) else D,
            seconds=_mean_epoch(scheme, shape, mix, rng),
        )
        for scheme in schemes
    ]
    _show_classes(screen, mix, classes)
    _show_epochs(screen, shape, D, epochs)
    screen.write_json(
        {
            "command": "fleet show",
            "fleet": mix.name,
            "devices": D,
            "n_features": n_features,
            "n_outputs": n_outputs,
            "samples": samples,
            "classes": [one.to_json() for one in classes],
            "epochs": [one.to_json() for one in epochs],
        }
    )


class _ClassRow(NamedTuple):
    """A class of devices, and how long one of them takes to answer."""

    devices: DeviceClass
    conventional: float
    coded: float

    def to_json(self) -> JsonObject:
        trace = self.devices.trace
        answers = {Conventional.name: self.conventional, CodedPadded.name: self.coded}
        return {**vars(self.devices), "trace": None if trace is None else str(trace.path), "answer_s": answers}


class _EpochRow(NamedTuple):
    """How long an epoch of a scheme takes, and how many answers end it."""

    scheme: Scheme
    waits_for: int
    seconds: float

    def to_json(self) -> JsonObject:
        scheme = self.scheme
        return {
            "scheme": scheme.name,
            **scheme.parameters,
            "waits_for": self.waits_for,
            "epoch_s_mean": self.seconds,
        }


def _mean_answers(scheme: Scheme, shape: WorkShape, fleet: Fleet) -> Seconds:
    """(D,) mean seconds from an update to the answer: download, compute, upload."""
    load = epoch_load(scheme, shape, fleet)
    return mean_arrivals(FleetLatency(fleet), load)


def _mean_epoch(scheme: Scheme, shape: WorkShape, fleet: Fleet, rng: np.random.Generator) -> float:
    """From the second epoch on: the first may wait for devices that the sharing phase keeps busy."""
    _, ends = epoch_end_times(scheme, shape, Conditions(fleet), _EPOCHS, Draws(_DRAWS, rng))
    return float(np.diff(ends, axis=1).mean())


def _show_classes(screen: Screen, fleet: Fleet, classes: list[_ClassRow]) -> None:
    screen.say(f"Fleet {fleet.name!r}: {fleet.n_devices} devices; how long each takes to answer, on average")
    heads = ("class", "count", "MAC/s", "setup", "up/down\nMbit/s", "fails", "header", "latency")
    shown = table(*heads, "answer\nconv.", "answer\ncoded")
    for one, conventional, coded in classes:
        shown.add_row(
            Text(one.name + (" *" if one.trace else "")),  # not markup: names are the user's
            str(one.count),
            f"{one.mac_rate:.3g}",
            f"{one.setup_factor:g}",
            f"{one.uplink_rate / 1e6:.3g}/{one.downlink_rate / 1e6:.3g}",
            f"{100 * one.failure_probability:g} %",
            f"{100 * one.header_overhead:g} %",
            f"{1000 * one.latency:.3g} ms",
            seconds(conventional),
            seconds(coded),
        )
    screen.show(shown)
    if any(row.devices.trace for row in classes):
        screen.say("* with measured times, which replace the numbers of their kind")
    screen.say()


def _show_epochs(screen: Screen, shape: WorkShape, D: int, epochs: list[_EpochRow]) -> None:
    screen.say(
        f"An epoch on average, with d = {shape.n_features} features, c = {shape.n_outputs} classes, "
        f"{shape.samples[0]} rows per device"
    )
    shown = table("scheme", "ends with", "seconds", left=2)
    for one in epochs:
        which = {D: "last", 1: "first"}.get(one.waits_for, f"first {one.waits_for}")
        shown.add_row(one.scheme.label, f"the {which} of {D} answers", f"{one.seconds:.3g}")
    screen.show(shown)

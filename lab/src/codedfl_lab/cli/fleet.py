"""``codedfl lab fleet``: who the devices are, and how long an epoch takes them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from codedfl.cli import options as common
from codedfl.cli.screen import Screen, table
from codedfl.errors import InvalidInput
from codedfl.report.text import seconds
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.comparing import paper
from codedfl_lab.costs.times import Conditions, Draws, WorkShape, epoch_end_times, epoch_load
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import mean_arrivals
from codedfl_lab.fleet.latency_models import latency_of
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import Scheme

_DRAWS = 200
_EPOCHS = 100  # 20 000 epochs in all: means to a few tenths of a percent


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
    json: common.Json = None,
) -> None:
    """Show the classes of devices, and the seconds an epoch takes on average.

    FLEET is paper, heavy-tailed, congested, coming-and-going, drifting, fast-processors, or a fleet file (TOML); +NAME
    puts a latency model on top.

    Conventional FL computes on a fifth of its rows and waits for everybody; a coded scheme computes on a d x d matrix
    and waits for the first D - alpha + 1 answers.

    Example: `codedfl lab fleet show paper`
    """
    screen = Screen(json)
    mix = Fleet.load(fleet)
    latency_of(mix)  # names that are none are refused
    if devices is not None:
        mix = mix.scaled_to(devices)
    if toml:
        common.refuse_unread("--json", json, "--toml, which prints a file")
        typer.echo(mix.dumps(), nl=False)
        return
    D = mix.n_devices
    if samples < D:
        raise InvalidInput(f"--samples must be at least the number of devices ({D}), got {samples}")
    shape = WorkShape(n_features, n_outputs, np.full(D, samples // D))
    schemes: list[Scheme] = [Conventional(), *(CodedPadded(alpha) for alpha in paper.alphas_for(D))]
    first_of_class = np.cumsum([0, *(one.count for one in mix.classes[:-1])])
    answers = {
        scheme.name: mean_arrivals(latency_of(mix), epoch_load(scheme, shape, mix))[first_of_class].tolist()
        for scheme in (Conventional(), CodedPadded(1))
    }
    screen.say(f"Fleet {mix.name!r}: {D} devices; how long each takes to answer, on average")
    heads = ("class", "count", "MAC/s", "setup", "up/down\nMbit/s", "fails", "header", "latency")
    shown = table(*heads, "answer\nconv.", "answer\ncoded")
    for one, *taken in zip(mix.classes, *answers.values(), strict=True):
        shown.add_row(
            *(Text(one.name), str(one.count), f"{one.mac_rate:.3g}", f"{one.setup_factor:g}"),  # names are the user's
            f"{one.uplink_rate / 1e6:.3g}/{one.downlink_rate / 1e6:.3g}",
            *(f"{100 * part:g} %" for part in (one.failure_probability, one.header_overhead)),
            f"{1000 * one.latency:.3g} ms",
            *map(seconds, taken),
        )
    screen.show(shown)
    if mix.latency_models:
        screen.say(f"on top of these times: {', '.join(mix.latency_models)}")
    screen.say()
    screen.say(
        f"An epoch on average: d = {n_features} features, c = {n_outputs} classes, {samples // D} rows per device"
    )
    rng, epochs = np.random.default_rng(seed), []
    shown = table("scheme", "ends with", "seconds", left=2)
    for scheme in schemes:
        waits_for, mean = epoch_load(scheme, shape, mix).quorum.answers_needed, _mean_epoch(scheme, shape, mix, rng)
        epochs.append({"scheme": scheme.name, **scheme.parameters, "waits_for": waits_for, "epoch_s_mean": mean})
        which = {D: "last", 1: "first"}.get(waits_for, f"first {waits_for}")
        shown.add_row(scheme.label, f"the {which} of {D} answers", f"{mean:.3g}")
    screen.show(shown)
    of_class = zip(mix.classes, *answers.values(), strict=True)
    screen.write_json(
        {
            "command": "lab fleet show",
            "fleet": mix.name,
            "devices": D,
            "latency_models": list(mix.latency_models),
            "n_features": n_features,
            "n_outputs": n_outputs,
            "samples": samples,
            "classes": [{**vars(one), "answer_s": dict(zip(answers, taken, strict=True))} for one, *taken in of_class],
            "epochs": epochs,
        }
    )


def _mean_epoch(scheme: Scheme, shape: WorkShape, fleet: Fleet, rng: np.random.Generator) -> float:
    """From the second epoch on: the first may wait for devices that the sharing phase keeps busy."""
    _, ends = epoch_end_times(scheme, shape, Conditions(fleet), _EPOCHS, Draws(_DRAWS, rng))
    return float(np.diff(ends, axis=1).mean())

"""``codedfl lab plan``: which scheme, alpha, groups and solver for a fleet, a data set and a target."""

from __future__ import annotations

import shlex
from dataclasses import asdict, fields
from functools import partial
from typing import Annotated, cast

import click
import typer
from click.core import ParameterSource

from codedfl.cli import options as common
from codedfl.cli.screen import Screen, score_name
from codedfl.cli.settings import in_settings, is_setting, key_of
from codedfl.privacy.budget import Budget
from codedfl.solve.registry import CLOSED_FORM
from codedfl_lab.cli import inputs, options
from codedfl_lab.cli.inputs import Inputs
from codedfl_lab.comparing.results import plain
from codedfl_lab.comparing.timed_scheme import TimedScheme
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.planning.planner import Limits, Planning, Search
from codedfl_lab.planning.planner import plan as search
from codedfl_lab.report.plan_table import choice_facts, left_out_table, plan_table, schemes_table, tie_words

in_limits = partial(typer.Option, rich_help_panel="Limits")
CHUNK_BITS = 12_000.0
_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def make_plan(
    data_options: options.DataOptions,
    model: options.ModelOptions,
    fleet: options.FleetOptions,
    data: common.Data = "digits",
    target: Annotated[
        float, typer.Option("--reach", help="Score to reach on test rows: accuracy, or R² of a number.")
    ] = 0.95,
    sharing: options.Sharing = None,
    chunked: Annotated[
        bool, in_settings("--chunked", help="Packets of 1500 bytes with their own retransmissions.")
    ] = False,
    max_exposure: Annotated[
        int | None, in_settings(help="Devices whose data one device colluding with the server may give away.")
    ] = None,
    total_only: Annotated[
        bool, in_settings("--total-only", help="The server by itself must see no single device.")
    ] = False,
    colluders: Annotated[
        int | None,
        in_limits(min=0, metavar="Z", help="How many devices may collude with the server without exposing another."),
    ] = None,
    survive: Annotated[
        int, in_limits(min=0, metavar="F", help="How many devices, whichever, may fail once training has begun.")
    ] = 0,
    max_upload: Annotated[
        float | None, in_limits(metavar="BYTES", help="The most a device may upload, in the whole training.")
    ] = None,
    max_memory: Annotated[float | None, in_settings(metavar="BYTES", help="The most memory a device may need.")] = None,
    allow_gram: Annotated[
        bool, in_limits("--allow-gram", help="Also plans that show the server the whole summed X'X.")
    ] = False,
    epsilon: Annotated[
        float | None,
        in_limits(
            metavar="E", help="Also say what score noise leaves that hides single rows at this epsilon (delta = 1e-5)."
        ),
    ] = None,
    honest: Annotated[
        int | None, in_settings(metavar="N", help="With --epsilon: devices assumed to add their noise.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="First two tables of all plans that were tried.")] = False,
    draws: Annotated[int, typer.Option(min=1, metavar="N", help="Latencies drawn for each plan.")] = 100,
    seed: options.Seed = 0,
    json: common.Json = None,
) -> None:
    """Search schemes, alpha, groups and solvers for the fastest way to a score.

    DATA is digits, digits-shifted, mnist, fashion-mnist, or a .npz, .csv or .parquet file; a study file is none, and is
    tried by codedfl study rehearse --fleet.

    Trains once per solver to learn how many epochs the target takes, then draws latencies on the fleet. Prints the
    choice on one screen: its time, what it costs a device, what leaks to whom, and the `codedfl lab train`
    that follows it.

    Example: `codedfl lab plan digits --reach 0.95`
    """
    screen = Screen(json)
    budget = Budget.asked(epsilon, None, honest, None)
    dataset = inputs.load_data(screen, data, data_options)
    chosen = Inputs(dataset, inputs.choose_fleet(dataset, data_options, fleet), data_options, model)
    with screen.busy("preprocessing") as say:
        problem = chosen.problem(seed, say)
    conditions = Conditions(
        chosen.fleet,
        cast(SharingConvention, sharing or options.usual_sharing(chosen.fleet)),
        chunk_bits=CHUNK_BITS if chunked else None,
    )
    limits = Limits(max_exposure, max_upload, max_memory, allow_gram, total_only, colluders, survive)
    with screen.progress() as bar:
        task = bar.add_task("Gram matrices", total=2.0)
        totals = CentralTotals(problem, lambda part: bar.update(task, completed=part))
        planning = search(
            totals,
            conditions,
            target,
            limits,
            Search(regularisation=chosen.regularisation, draws=draws, seed=seed, budget=budget),
            lambda what, part: bar.update(task, description=what, completed=1 + part),
        )
    title, score = f"{dataset.name} on the fleet {chosen.fleet.name!r}", score_name(dataset.task)
    if every:
        _show_every(screen, planning, title, score)
    best = planning.best
    screen.say(f"{title}, {chosen.fleet.n_devices} devices, in simulated time:")
    screen.facts(choice_facts(planning, score))
    screen.say()
    screen.show(schemes_table(planning))
    screen.sentence(f"{len(planning.everything)} plans were tried; --all shows them.{tie_words(planning)}")
    for line in options.sharing_said(chosen.fleet, sharing):
        screen.sentence(line)
    words = [data, *options_given(click.get_current_context()), *train_options(best)]
    screen.say()
    screen.say(shlex.join(["codedfl", "lab", "train", *words]))
    screen.write_json(
        {
            "command": "lab plan",
            "dataset": dataset.name,
            "target": target,
            "fleet": chosen.fleet.name,
            "devices": chosen.fleet.n_devices,
            "best": plain(best),
            "why": planning.why(),
            "train": words,
            "plans": [plain(plan) for plan in planning.plans],
            "left_out": [{**plain(plan), "reasons": why} for plan, why in planning.left_out],
            "unreached": planning.unreached,
            **({} if budget is None else {**asdict(budget), "noisy_scores": planning.noisy_scores}),
        }
    )


def _show_every(screen: Screen, planning: Planning, title: str, score: str) -> None:
    screen.show(plan_table(planning, title=title, score_name=score))
    left_out = left_out_table(planning)
    if left_out is not None:
        screen.say()
        screen.show(left_out)
    screen.say()


def options_given(context: click.Context) -> list[str]:
    """The options of this call that say which data, model and devices: ``codedfl lab train`` takes the same."""
    groups = (options.DataOptions, options.ModelOptions, options.FleetOptions)
    shared = {"seed", *(field.name for group in groups for field in fields(group))}
    given = [
        one for one in context.command.params if one.name in shared and context.get_parameter_source(one.name) in _GIVEN
    ]
    return [word for one in given for word in _typed(one, str(context.params[str(one.name)]))]


def _typed(option: click.Parameter, value: str) -> tuple[str, str]:
    if isinstance(option, click.Option) and is_setting(option):
        return "--set", f"{key_of(option)}={value}"
    return option.opts[0], value


def train_options(made: TimedScheme) -> list[str]:
    """What makes ``codedfl lab train`` follow the plan, beside the options that say which data and devices."""
    asked = {"--colluders": "z", "--alpha": "alpha"}
    said = [word for option, name in asked.items() for word in _of(made, name, option, "{}")]
    said += [word for name in ("groups", "blocks", "reserve") for word in _of(made, name, "--set", f"{name}={{}}")]
    narrow = ["--set", "narrow=true"] if made.parameters.get("narrow") else []
    solver = [] if made.solver == CLOSED_FORM else ["--solver", made.solver, "--epochs", str(made.epochs)]
    return ["--scheme", made.scheme, *said, *narrow, *solver]


def _of(made: TimedScheme, name: str, option: str, value: str) -> list[str]:
    return [option, value.format(int(made.parameters[name]))] if name in made.parameters else []

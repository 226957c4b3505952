"""``codedfl lab demo``: the paper's protocol and ours run once, as processes of this machine; then the comparison."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from codedfl.cli import options as common
from codedfl.cli.exit_codes import BAD_INPUT, INTERRUPTED
from codedfl.cli.output_files import make_folder
from codedfl.cli.screen import Screen
from codedfl.report.text import score as score_text
from codedfl.report.text import seconds as seconds_text
from codedfl.solve.registry import make_solver
from codedfl.solve.solver import Solver
from codedfl_lab import datasets
from codedfl_lab.cli.compare import TARGETS, results_of, trained_seeds
from codedfl_lab.cli.inputs import Inputs
from codedfl_lab.cli.options import DataOptions, ModelOptions
from codedfl_lab.cli.scheme_choice import paper_entries
from codedfl_lab.cli.training import ends_with
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Settings, Trained
from codedfl_lab.comparing.results import Results
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions
from codedfl_lab.datasets.digits import DIGITS
from codedfl_lab.datasets.shifted_digits import SHIFTED_DIGITS
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.problem import Problem, make_problem
from codedfl_lab.report.fastest import leading_of
from codedfl_lab.report.files import write_report
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.role_keys import RoleKeys
from codedfl_lab.training.processes import FinishedProcess, Troubles, train_in_processes

DEVICES, FEATURES = 10, 300
SLOW, LATE_SECONDS, DEAD = ("device-2", "device-6"), 0.5, "device-9"
SEEDS, DRAWS, MOST_EPOCHS = 3, 200, 1000  # of the comparison, as codedfl lab compare has them
NEXT = (
    "From here: docs/paper.md leads from each equation of the paper to its code, docs/ten-minutes.md to a study of your"
    " own tables, and {report} has all of the comparison."
)


@dataclass(frozen=True)
class Protocol:
    """What is run: a scheme, and the solver of its server."""

    whose: str
    scheme: CodedScheme
    solver: Callable[[], Solver]
    in_words: str
    dies_in: int


PROTOCOLS = (
    # First 7 of 10: two slow devices and a dead one are not waited for.
    Protocol("the paper", CodedPadded(4), lambda: _solver("gd", 120), "gradient descent", 60),
    Protocol("ours", RoleKeys(1), lambda: _solver("block-krylov", 8), "block Krylov", 4),
)


def _solver(name: str, epochs: int) -> Solver:
    return make_solver(name, epochs=epochs, regularisation=paper.REGULARISATION)


@dataclass(frozen=True, eq=False)
class Ran:
    """One protocol's run, and how many of its model's numbers differ from those of the centralised fit."""

    protocol: Protocol
    finished: FinishedProcess
    score: float
    differ: int
    numbers: int

    @property
    def verdict(self) -> str:
        if self.differ:
            return f"{self.differ} of {self.numbers} numbers of its model DIFFER from the centralised fit"
        return f"all {self.numbers} numbers of the model are the centralised fit's, bit for bit"

    def to_json(self) -> dict[str, Any]:
        scheme, finished = self.protocol.scheme, self.finished
        return {
            "scheme": scheme.name,
            **scheme.parameters,
            "solver": self.protocol.in_words,
            "epochs": len(finished.seconds),
            "accuracy": self.score,
            "seconds_per_epoch": finished.per_epoch,
            "killed": list(finished.killed),
            "numbers": self.numbers,
            "numbers_that_differ": self.differ,
        }


def run_protocol(protocol: Protocol, problem: Problem) -> Ran:
    """Processes, messages, a slow device and a dead one; then the same solver on the pooled rows, in this process."""
    *_, centralised = CentralTotals(problem).train(protocol.solver())
    troubles = Troubles(dict.fromkeys(SLOW, LATE_SECONDS), (DEAD,), protocol.dies_in)
    finished = train_in_processes(protocol.scheme, problem, protocol.solver(), troubles)
    # Bits, not values: 0.0 and -0.0 are equal numbers, and nan is equal to none.
    differ = finished.model.view(np.uint64) != centralised.view(np.uint64)
    return Ran(protocol, finished, problem.score(finished.model), int(differ.sum()), differ.size)


def run_demo(
    context: typer.Context,
    out: Annotated[Path, common.in_output(metavar="DIR", help="Where the report of the comparison goes.")] = Path(
        "results/demo"
    ),
    json: common.Json = None,
) -> None:
    """Run the paper's protocol and ours once on this machine, and compare the schemes.

    Ten devices, each a process of its own, train on the digits at a broker with TLS. Two are slow, one is killed
    half way; both models must have every bit of the centralised fit. Then the schemes are compared in simulated time.

    Example: `codedfl lab demo`
    """
    logging.getLogger("codedfl").setLevel(logging.ERROR)  # that a device is gone is what the demonstration is about
    screen, began = Screen(json), time.perf_counter()
    folder = make_folder("--out", out)
    problem = make_problem(datasets.load(DIGITS.name), n_devices=DEVICES, n_features=FEATURES)
    screen.sentence(
        f"The digits, sorted by class and dealt to {DEVICES} devices: each a process of its own with its own rows, at a"
        f" broker with TLS. {SLOW[0]} and {SLOW[1]} reply {LATE_SECONDS:g} s late; {DEAD} is killed half way, for good."
    )
    ran = []
    for protocol in PROTOCOLS:
        with screen.busy(f"{protocol.scheme.label}: {DEVICES} processes"):
            ran.append(run_protocol(protocol, problem))
    _show(screen, ran)
    spoilt = [one.protocol.scheme.name for one in ran if one.differ]
    if spoilt:
        screen.remark(f"models must equal the centralised fit bit for bit, got others from {', '.join(spoilt)}")
        screen.write_json({"command": "lab demo", "protocols": [one.to_json() for one in ran]})
        raise typer.Exit(BAD_INPUT)
    results = _compared(screen, context.obj)
    _show_comparison(screen, results)
    files = write_report(folder, results)
    screen.say()
    screen.sentence(NEXT.format(report=files["report.html"]))
    screen.write_json(
        {
            "command": "lab demo",
            "protocols": [one.to_json() for one in ran],
            "seconds": time.perf_counter() - began,
            "comparison": results.to_json(),
        }
    )


def _show(screen: Screen, ran: list[Ran]) -> None:
    screen.say()
    for one in ran:
        scheme, finished = one.protocol.scheme, one.finished
        took = (
            f"{len(finished.seconds)} epochs of {seconds_text(finished.per_epoch)}, {score_text(one.score, 'accuracy')}"
        )
        run = (
            f"{scheme.label}: an epoch ends with {ends_with(scheme, DEVICES)}; {one.protocol.in_words}, {took} accuracy"
        )
        screen.facts([(f"{one.protocol.whose:<9}", run), ("", one.verdict)])
    screen.say()


def _compared(screen: Screen, command: str) -> Results:
    """What ``codedfl lab compare digits-shifted`` finds."""
    began = time.perf_counter()
    fleet = Fleet.load(paper.FLEET)
    chosen = Inputs(datasets.load(SHIFTED_DIGITS.name), fleet, DataOptions(), ModelOptions())
    entries = paper_entries(fleet.n_devices)
    settings = Settings(
        Conditions(fleet),
        TARGETS[SHIFTED_DIGITS.name],
        draws=DRAWS,
        max_epochs=MOST_EPOCHS,
        regularisation=chosen.regularisation,
    )
    trained, stopped = trained_seeds(screen, chosen, entries, settings, range(SEEDS))
    if stopped:
        screen.remark("interrupted: the protocols were run, the comparison was not")
        raise typer.Exit(INTERRUPTED)
    return results_of(chosen, entries, settings, Trained.joined(trained), command, began)


def _show_comparison(screen: Screen, results: Results) -> None:
    target = results.targets[-1]
    screen.sentence(
        f"To scale, in simulated time: the paper's {results.n_devices} devices, {results.dataset} to"
        f" {score_text(target, results.score_name)} {results.score_name}."
    )
    for leader in leading_of(results):
        screen.item(leader.sentence)
    screen.sentence("From zero: also charged for the keys, pads and sealed uploads that were made before the call.")

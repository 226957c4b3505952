"""A study on tables of this machine, by the real protocol in virtual time: what a federation would make of them.

The recipe, the public bounds and the arithmetic are those of the federation, so the model is the same bit for bit as on
real machines with these tables, whoever straggles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codedfl.data.model import TrainedModel
from codedfl.data.problem import Problem
from codedfl.data.score_sums import ClassScore, NumberScore, score_from_sums, score_sums
from codedfl.data.studies.problem import device_rows, rehearsal_key, study_problem
from codedfl.data.studies.study import Study
from codedfl.data.tables import ENDINGS, RawTable, read_file
from codedfl.errors import InvalidInput
from codedfl.run.journal import Begun, begun
from codedfl.run.secure_gram import secure_gram_in_process
from codedfl.run.secure_sum import secure_moments_in_process, secure_sum_in_process
from codedfl.run.simulator import Trace, simulate
from codedfl.run.virtual_watch import VirtualWatch
from codedfl.schemes import CodedScheme, Conditions
from codedfl.schemes.noise import noise_of_run
from codedfl.solve.registry import make_solver


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The problem, the model, its score on held-out rows of so many devices, and how training went in virtual time."""

    problem: Problem
    model: TrainedModel
    score: ClassScore | NumberScore
    scored: int
    trace: Trace


def read_folder(folder: Path) -> dict[str, RawTable]:
    """One table a device, named by its file without the ending."""
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ENDINGS)) if folder.is_dir() else []
    if not files:
        raise InvalidInput(f"tables must be a folder of table files, one a device, got {str(folder)!r}")
    tables = {path.name.partition(".")[0]: read_file(path) for path in files}
    if len(tables) < len(files):
        raise InvalidInput(f"tables must have one file a device, got several of one name in {str(folder)!r}")
    return tables


def no_tables(folder: Path) -> list[str]:
    """Names of what else is in a folder of tables, and not read; hidden files are nobody's tables."""
    others = (path.name for path in folder.iterdir() if not path.name.lower().endswith(ENDINGS))
    return sorted(name for name in others if not name.startswith("."))


def dealt_out(table: RawTable, n_devices: int, rng: np.random.Generator) -> dict[str, RawTable]:
    """One table's rows dealt out at random to so many devices: what there is to rehearse with on one machine."""
    if len(table) < n_devices:
        raise InvalidInput(f"{table.name} must have a row for each of {n_devices} devices, got {len(table)}")
    parts = np.array_split(rng.permutation(len(table)), n_devices)
    return {f"device-{i:0{len(str(n_devices - 1))}d}": table.rows(np.sort(part)) for i, part in enumerate(parts)}


def rehearse_study(
    study: Study,
    tables: Mapping[str, RawTable],
    scheme: CodedScheme,
    at: Conditions,
    rng: np.random.Generator,
    on_epoch: Callable[[int, float, float], None] | None = None,
    gone: Collection[str] = (),
    folder: Path | None = None,
) -> Rehearsal:
    """Train the study on these tables; ``on_epoch`` is told epoch, virtual seconds and the score on held-out rows.

    gone: devices that die when they have uploaded. The model is the same, and they cannot score.
    folder: where the journal of the run goes; None writes none.
    """
    problem = study_problem(study, tables, secure_moments_in_process, secure_gram_in_process)
    noise, level = noise_of_run(scheme, problem.recipe, problem.bounds, problem.n_devices, study.noise)
    precision = study.precision(problem.recipe, problem.n_devices)
    solver = make_solver(
        study.solver, regularisation=study.regularisation, epochs=study.epochs, gram=scheme.reveals_gram, noise=level
    )
    watch = None if folder is None else VirtualWatch(folder, _begun(study, scheme, problem))
    with watch or nullcontext():
        trace = simulate(
            scheme,
            problem,
            solver,
            at,
            rng,
            precision=precision,
            noise=noise,
            on_epoch=on_epoch,
            gone=gone,
            watch=watch,
        )
    model = study.model(problem.recipe, trace.model, scheme=scheme.name, devices=problem.n_devices)
    there = {name: table for name, table in tables.items() if name not in gone}
    return Rehearsal(problem, model, _score(study, there, model), len(there), trace)


def _begun(study: Study, scheme: CodedScheme, problem: Problem) -> Begun:
    return begun(
        study.name,
        scheme,
        problem.n_devices,
        solver=study.solver,
        epochs=study.epochs,
        target=None,
        score_name="accuracy" if problem.task == "classification" else "R^2",
        n_features=problem.n_features,
        n_outputs=problem.n_outputs,
    )


def _score(study: Study, tables: Mapping[str, RawTable], model: TrainedModel) -> ClassScore | NumberScore:
    """By one secure sum of what each device counts on the rows it held out."""
    counted = []
    for name in sorted(tables):
        X, y, held_out = device_rows(study, tables[name], rehearsal_key(name))
        counted.append(score_sums(model.recipe, model.theta, X[held_out], y[held_out]))
    return score_from_sums(model.recipe, secure_sum_in_process(counted))

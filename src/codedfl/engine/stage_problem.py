"""What a stage of a study is to the protocol: a scheme, public parameters, and a solver that takes the total."""

from __future__ import annotations

from typing import NamedTuple

from codedfl.data.studies.study import Study
from codedfl.data.studies.sums import sum_length
from codedfl.data.vector_sums import SUM_PRECISION, n_sum_outputs, sum_bounds
from codedfl.engine.stages import COVARIANCE, INFERENCE, TRAINING, Stage
from codedfl.protocol import Parameters
from codedfl.run.inference import inference_parameters
from codedfl.run.secure_gram import TakesGram, gram_parameters
from codedfl.run.secure_sum import ReadTotal
from codedfl.schemes import CodedScheme
from codedfl.schemes.noise import noise_of_run
from codedfl.schemes.of_study import inference_scheme_of, scheme_of, sums_scheme_of
from codedfl.solve.registry import make_solver
from codedfl.solve.solver import Solver


class StageProblem(NamedTuple):
    """What a server of the stage is made of."""

    scheme: CodedScheme
    parameters: Parameters
    solver: Solver


def stage_problem(study: Study, stage: Stage, n_devices: int) -> StageProblem:
    """A training; a total of X'X (the covariance, inference); or a vector sum (moments, the score)."""
    if stage.kind == TRAINING:
        return _training(study, stage, n_devices)
    digest = stage.digest(study)
    if stage.kind == COVARIANCE:
        scheme = inference_scheme_of(study, n_devices)
        bounds, width = study.covariance_bounds(stage.moments(study)), study.table_columns.width + 1
        return StageProblem(scheme, gram_parameters(scheme, width, bounds, n_devices, digest), TakesGram())
    if stage.kind == INFERENCE:
        scheme, recipe = inference_scheme_of(study, n_devices), stage.recipe(study)
        parameters = inference_parameters(scheme, recipe, study.bounds(recipe), n_devices, digest)
        return StageProblem(scheme, parameters, TakesGram())
    scheme = sums_scheme_of(study, n_devices)
    parameters = Parameters(
        scheme.name,
        n_features=1,
        n_outputs=n_sum_outputs(sum_length(study, stage.kind)),
        bounds=sum_bounds(n_devices),
        precision=SUM_PRECISION,
        **scheme.agreed,
        recipe=digest,
    )
    return StageProblem(scheme, parameters, ReadTotal())


def _training(study: Study, stage: Stage, n_devices: int) -> StageProblem:
    scheme, recipe = scheme_of(study, n_devices), stage.recipe(study)
    noise, level = noise_of_run(scheme, recipe, study.bounds(recipe), n_devices, study.noise)
    parameters = Parameters(
        scheme.name,
        n_features=recipe.n_features,
        n_outputs=recipe.n_outputs,
        bounds=study.bounds(recipe),
        precision=study.precision(recipe, n_devices),
        **scheme.agreed,
        reveals_gram=scheme.reveals_gram,
        recipe=stage.digest(study),
        noise=noise,
    )
    solver = make_solver(
        study.solver,
        regularisation=study.regularisation,
        epochs=study.epochs,
        gram=scheme.reveals_gram,
        noise=level,
    )
    return StageProblem(scheme, parameters, solver)

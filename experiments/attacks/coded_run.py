"""A recorded run of a coded scheme, and what its server can compute from all answers together.

In both coded schemes the server ends up with the same thing: sum_j b_ij (G_j + z_j) for every device i, with masks z_j
that sum to zero (up to sign; none with masks off). In coded-padded it takes its own pads off the answers, in coded-keys
it takes the answers off the uploads.
"""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from codedfl import pads
from codedfl.in_process import run_in_process
from codedfl.problem import Problem
from codedfl.protocol import Parameters
from codedfl.ring import Planes
from codedfl.schemes import CodedScheme
from codedfl.schemes.coded_padded import CONSTANT
from codedfl.solvers import ClosedForm, GradientDescent
from codedfl.views import Recording, View, recorded

Floats = NDArray[np.float64]
Residues = NDArray[np.int64]

EPOCHS = 2  # the constant, and one update with its product


def run_recorded(
    scheme: CodedScheme, problem: Problem, *, masks: bool = True, only: Collection[str] | None = None
) -> Recording:
    """Train with every device answering every epoch: the server sees all that can be seen.

    Secrets are drawn from a seed, so that scores repeat.
    """
    recording = Recording(only)
    solver = ClosedForm() if scheme.reveals_gram else GradientDescent(EPOCHS)
    source = random.Random(f"{scheme.label} {masks}").randbytes
    watched = recorded(scheme, recording)
    parameters = Parameters(
        scheme.name,
        scheme.alpha,
        problem.n_features,
        problem.n_outputs,
        problem.bounds,
        masks=masks,
        groups=scheme.groups,
        reveals_gram=scheme.reveals_gram,
    )
    server = watched.server_type(parameters, problem.device_names, solver, random_bytes=source)
    devices = [
        watched.device_type(
            name,
            problem.X[problem.rows_of(i)],
            problem.Y[problem.rows_of(i)],
            random_bytes=source,
            allow_unmasked=not masks,
        )
        for i, name in enumerate(problem.device_names)
    ]
    run_in_process(server, devices)
    return recording


def coded_sums(server: View) -> Planes:
    """sum_j b_ij (G_j + z_j) for every device i, shape (P, D, length of the constant part)."""
    agreed = server.agreed
    ring, code, length = agreed.fixed_point.ring, agreed.code, agreed.parameters.constant_length
    answers, uploads = server.answers(1), server.uploads()
    sums = ring.zeros(agreed.n_devices, length)
    for i, name in enumerate(agreed.names):
        held = [agreed.names[j] for j in code.row_support(i)]
        total, coefficients = ring.zeros(length), code.coefficients(i)
        if uploads:
            ring.add_scaled(total, coefficients, [uploads[j].constant for j in held])
        else:
            seeds = server.drawn_pad_seeds()
            pads.add_expanded(ring, total, coefficients, [seeds[j] for j in held], agreed.run, CONSTANT)
        # Uploads less answers in coded-keys, answers less pads in coded-padded.
        sign = 1 if uploads else -1
        one = [[1]] * len(ring.primes)
        ring.add_scaled(sums[:, i], [[sign]] * len(ring.primes), [total])
        ring.add_scaled(sums[:, i], [[-sign]] * len(one), [np.ascontiguousarray(answers[name][:, :length])])
    return sums


def column(server: View, planes: Planes, label: int) -> Planes:
    """The entries of one class of a constant part (..., length) -> (..., d)."""
    p = server.agreed.parameters
    entries = planes[..., : p.n_features * p.n_outputs]
    return np.ascontiguousarray(entries[..., label :: p.n_outputs])


def class_sum(server: View, planes: Planes) -> Floats:
    """-G^(1) of one class as reals: the sum of the features, (P, d) -> (d,)."""
    format_ = server.agreed.fixed_point
    return -np.ldexp(format_.ring.to_integers(planes).astype(np.float64), -format_.constant_bits)


def decoded_total(server: View, sums: Planes) -> Planes:
    """The total of G^(1) from all answers; masks cancel."""
    ring, code = server.agreed.fixed_point.ring, server.agreed.code
    everyone = list(range(code.n_devices))
    total = ring.zeros(sums.shape[2])
    vector = code.decoding_vector(everyone).tolist()
    ring.add_scaled(total, vector, [np.ascontiguousarray(sums[:, i]) for i in everyone])
    return total


def true_constants(server: View, problem: Problem) -> Planes:
    """G_j of every device as it is before any pad, (P, D, length); for checking only."""
    agreed = server.agreed
    format_, ring = agreed.fixed_point, agreed.fixed_point.ring
    found = ring.zeros(agreed.n_devices, agreed.parameters.constant_length)
    for j in range(agreed.n_devices):
        X, Y = (values[problem.rows_of(j)].astype(np.float64) for values in (problem.X, problem.Y))
        cross = -format_.cross(X, Y)
        found[:, j, : cross[0].size] = cross.reshape(len(ring.primes), -1)
        if agreed.parameters.samples is None:
            found[:, j, -1:] = ring.from_integers(np.array([len(X)]))
    return found

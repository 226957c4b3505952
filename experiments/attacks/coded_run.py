"""A recorded run of a coded scheme, and what its server can compute from all answers together.

In every coded scheme and epoch the server ends up with the same thing: sum_j b_ij (part_j + z_j) for every device i,
with masks z_j that sum to zero (up to sign; none with masks off). part_j is G_j^(1) at first (with X_j'X_j behind it in
one-shot) and X_j'X_j e later. In coded-padded the server takes its own pads off the answers, in coded-keys it takes
the answers off the uploads; in later epochs both are multiplied by e first.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto import pads
from codedfl.data.problem import Problem
from codedfl.protocol.prepared_pad import CONSTANT, GRAM
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.run.in_process import run_in_process
from codedfl.run.parties import make_parties
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl.state import PLAIN, Checkpointed, CheckpointFields
from codedfl.typing import Planes, RandomBytes
from experiments.views import Recording, Statistics, View, recorded

Floats = NDArray[np.float64]
Residues = NDArray[np.int64]

EPOCHS = 2  # the constant, and one update with its product


class SingleColumns(Checkpointed):
    """A curious server's "solver": one request with a single 1 per output, which asks for columns of X'X.

    Of all e these leave the attacker the shortest numbers: X'X e is X'X itself on a coarser grid.
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {"model": PLAIN, "_request": PLAIN}

    def __init__(self, n_features: int, n_outputs: int) -> None:
        self.epochs = EPOCHS
        self.model: Floats | None = None
        request = np.zeros((n_features, n_outputs))
        request[np.arange(n_outputs) % n_features, np.arange(n_outputs)] = 1.0
        self._request: Floats | None = request

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        del constant, samples
        self.model = initial

    def request(self) -> Floats | None:
        request, self._request = self._request, None
        return request

    def receive(self, sent: Floats, product: Floats) -> None:
        """The total is not what it is after."""


def run_recorded(
    scheme: CodedScheme,
    problem: Problem,
    *,
    masks: bool = True,
    only: Collection[str] | None = None,
    curious_requests: bool = False,
) -> Recording:
    """Train with every device answering every epoch: the server sees all that can be seen.

    Secrets are drawn from a seed, so that scores repeat. ``curious_requests``: the server asks for ``SingleColumns``
    instead of descending; in one-shot there is nothing to ask for.
    """
    recording = Recording(only)
    curious = SingleColumns(problem.n_features, problem.n_outputs)
    honest = ClosedForm(9e-6) if scheme.reveals_gram else GradientDescent(EPOCHS, 9e-6, STEP_PAPER)
    solver = curious if curious_requests and not scheme.reveals_gram else honest
    source = _secrets(scheme, masks)
    with recorded(recording):
        server, devices = make_parties(scheme, problem, solver, masks=masks, random_bytes=source)
        run_in_process(server, devices)
    return recording


def _secrets(scheme: CodedScheme, masks: bool) -> RandomBytes:
    return random.Random(f"{scheme.label} {masks}").randbytes


def seats(scheme: CodedScheme, problem: Problem) -> tuple[str, ...]:
    """The devices in the code's order, as ``run_recorded`` is going to seat them by their run keys."""
    solver = ClosedForm() if scheme.reveals_gram else GradientDescent(EPOCHS)
    server, devices = make_parties(scheme, problem, solver, random_bytes=_secrets(scheme, True))
    (invitation,) = server.invite().outgoing
    for device in devices:
        for join in device.receive(invitation.data).outgoing:
            server.receive(join.data)
    assert server.agreement is not None
    return server.agreement.names


def seat_of(view: View, problem: Problem, device: int) -> int:
    """The position in the code of a device of the problem."""
    return view.agreed.position(problem.device_names[device])


def epochs_of(view: View) -> range:
    """The epochs that a recorded run has; one-shot has one."""
    return range(1, 2 if view.agreed.parameters.reveals_gram else EPOCHS + 1)


def answered_part(view: View, held: Statistics, epoch: int) -> Planes:
    """What an answer of ``epoch`` would be of these statistics alone: G^(1) (in one-shot with X'X behind), then X'X e.

    It is linear, so it does the same to data, to pads and to padded data.
    """
    p, ring = view.agreed.parameters, view.agreed.fixed_point.ring
    if epoch == 1:
        return np.concatenate([held.constant, held.gram], axis=1) if p.reveals_gram else held.constant
    product = ring.product(ring.symmetric(held.gram, p.n_features), view.update_on_ring(epoch))
    return product.reshape(len(ring.primes), -1)


def expanded_pads(view: View, seed: bytes) -> Statistics:
    """The pads of a device whose seed is known."""
    agreed = view.agreed
    ring, p = agreed.fixed_point.ring, agreed.parameters
    return Statistics(
        pads.expand(ring, seed, GRAM, p.triangle_length),
        pads.expand(ring, seed, CONSTANT, p.constant_length),
    )


@lru_cache(maxsize=1)
def _known_to_server(server: View) -> tuple[list[Statistics], bool]:
    """Each device's padded upload, or the pads that the server drew for it; and whether they are uploads.

    Of a finished run; kept for its next epoch.
    """
    uploads = server.uploads()
    if uploads:
        return [uploads[name] for name in server.agreed.names], True
    return [expanded_pads(server, seed) for seed in server.drawn_pad_seeds().values()], False


def coded_sums(server: View, epoch: int) -> Planes:
    """sum_j b_ij (part_j + z_j) for every device i, shape (P, D, length of an answer of the epoch)."""
    agreed = server.agreed
    ring, code = agreed.fixed_point.ring, agreed.code
    statistics, are_uploads = _known_to_server(server)
    known, answers = [answered_part(server, one, epoch) for one in statistics], server.answers(epoch)
    # Uploads less answers in coded-keys, answers less pads in coded-padded.
    sign = 1 if are_uploads else -1
    sums = ring.zeros(agreed.n_devices, agreed.parameters.answer_length(epoch))
    for i, name in enumerate(agreed.names):
        coefficients = [[sign * b for b in row] for row in code.coefficients(i)]
        ring.add_scaled(sums[:, i], coefficients, [known[j] for j in code.row_support(i)])
        ring.add_scaled(sums[:, i], [[-sign]] * len(ring.primes), [answers[name]])
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
    """The total from all answers of an epoch; masks cancel."""
    ring, code = server.agreed.fixed_point.ring, server.agreed.code
    everyone = list(range(code.n_devices))
    total = ring.zeros(sums.shape[2])
    vector = code.decoding_vector(everyone).tolist()
    ring.add_scaled(total, vector, [np.ascontiguousarray(sums[:, i]) for i in everyone])
    return total


def true_statistics(view: View, problem: Problem, seat: int) -> Statistics:
    """X'X and G^(1) of the device at one position of the code as they are before any pad; for checking only."""
    agreed = view.agreed
    device = problem.device_names.index(agreed.names[seat])
    format_, ring = agreed.fixed_point, agreed.fixed_point.ring
    X, Y = (values[problem.rows_of(device)].astype(np.float64) for values in (problem.X, problem.Y))
    cross = -format_.cross_planes(X, Y)
    constant = ring.zeros(agreed.parameters.constant_length)
    constant[:, : cross[0].size] = cross.reshape(len(ring.primes), -1)
    if agreed.parameters.samples is None:
        constant[:, -1:] = ring.from_integers(np.array([len(X)]))
    return Statistics(format_.gram_planes(X), constant)


def true_parts(view: View, problem: Problem, epoch: int) -> Planes:
    """What each device's data put into the answers of one epoch, (P, D, length); for checking only."""
    devices = range(view.agreed.n_devices)
    return np.stack([answered_part(view, true_statistics(view, problem, j), epoch) for j in devices], axis=1)

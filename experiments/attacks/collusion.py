"""The server and some devices put together what they have: the documented limit, carried out.

A colluding device i answers for alpha devices. Of these the two hold pads and padded data (in coded-padded the server
has the pads and the device the data, in coded-keys it is the other way round), so G_j comes out bit for bit. With those
taken off, the coded sums of the others can be solved, for there are fewer of them than equations: what comes out is
G_j + z_j, masked. The masks known to the set are those of a stretch's ends, so it learns the total of every stretch of
neighbours between two devices already known. With one colluding device there is one stretch: all the others.
A stretch of one is a device exposed: with alpha = D - 1, or when two colluding devices leave one between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codedfl import pads
from codedfl.privacy import exposed_devices
from codedfl.problem import Problem
from codedfl.protocol.messages import SERVER
from codedfl.ring import Planes
from codedfl.row_reduction import reduced
from codedfl.schemes import CodedScheme
from codedfl.schemes.coded_padded import CONSTANT
from codedfl.views import Recording, View
from experiments.attacks.coded_run import coded_sums, run_recorded, true_constants


@dataclass(frozen=True)
class Exposure:
    """Whose G^(1) a collusion found bit for bit, and whose it should by the threat model's linear algebra."""

    scheme: str
    alpha: int
    devices: int
    colluders: list[int]
    answered_for: list[int]
    predicted: list[int]
    found: list[int]
    masked_guesses_right: int  # of the others, how many were right when taken as they are: none, ever

    @property
    def as_predicted(self) -> bool:
        return self.found == self.predicted and self.masked_guesses_right == 0


def collude(scheme: CodedScheme, problem: Problem, colluders: Sequence[int]) -> Exposure:
    names = [problem.device_names[i] for i in colluders]
    recording = run_recorded(scheme, problem, only=[SERVER, *names])
    server = recording.server
    agreed = server.agreed
    truth = true_constants(server, problem)
    own = {i: np.ascontiguousarray(truth[:, i]) for i in colluders}  # a device knows its own
    known = {**_unpadded(recording, names), **own}
    left = [j for j in range(agreed.n_devices) if j not in known]
    masked = _masked_others(server, recording, names, known, left)
    for stretch in _stretches(left, agreed.n_devices):
        if len(stretch) == 1:
            known[stretch[0]] = masked[stretch[0]][1]
    right = [j for j, found in sorted(known.items()) if np.array_equal(found, truth[:, j])]
    return Exposure(
        scheme.name,
        scheme.alpha,
        agreed.n_devices,
        list(colluders),
        sorted({j for i in colluders for j in agreed.code.row_support(i)}),
        sorted(exposed_devices(agreed.code, colluders)),
        right,
        sum(np.array_equal(masked[j][0], truth[:, j]) for j in left if j not in known),
    )


def _unpadded(recording: Recording, names: Sequence[str]) -> dict[int, Planes]:
    """G_j of the devices that a colluding one answers for: padded data of one side, pads of the other."""
    server = recording.server
    agreed = server.agreed
    ring, uploads = agreed.fixed_point.ring, server.uploads()
    found = {}
    for name in names:
        device = recording.device(name)
        data = {j: held.constant for j, held in (uploads or device.padded_data()).items()}
        seeds = {j: secrets.pad for j, secrets in device.shares().items()} if uploads else server.drawn_pad_seeds()
        for j, planes in data.items():
            if seeds.get(j):
                pad = pads.expand(ring, seeds[j], agreed.run, CONSTANT, planes.shape[1])
                found[agreed.position(j)] = ring.add(planes, pad, sign=-1)
    return found


def _masked_others(
    server: View, recording: Recording, names: Sequence[str], known: dict[int, Planes], left: list[int]
) -> dict[int, tuple[Planes, Planes]]:
    """For the others: G_j + z_j as it comes out, and the same with the known masks taken off."""
    agreed = server.agreed
    ring, code, n = agreed.fixed_point.ring, agreed.code, agreed.n_devices
    sums = coded_sums(server)
    length = sums.shape[2]
    sign = -1 if server.uploads() else 1  # of the masks in the coded sums
    masks = _known_masks(server, recording, names, length)

    def mask_of(j: int) -> Planes:
        """z_j as far as the set knows it; an unknown m counts as 0."""
        zero = ring.zeros(length)
        return ring.add(masks.get(j, zero), masks.get((j + 1) % n, zero), sign=-1)

    result: dict[int, tuple[Planes, Planes]] = {j: (ring.zeros(length), ring.zeros(length)) for j in left}
    whole = {j: ring.add(planes, mask_of(j), sign=sign) for j, planes in known.items()}
    for k, (B, prime) in enumerate(zip(code.matrix(), ring.primes, strict=True)):
        rest = sums[k].astype(np.int64)
        for j, planes in whole.items():
            rest = (rest - B[:, j][:, None] * planes[k].astype(np.int64)) % prime
        form, pivots = reduced(np.hstack([B[:, left], rest]), prime, pivot_columns=len(left))
        assert len(form) == len(pivots) == len(left)  # fewer unknowns than independent equations, and consistent
        solved = form[:, len(left) :]
        for row, j in zip(solved, left, strict=True):
            result[j][0][k] = np.where(row > prime // 2, row - prime, row)
    for j in left:
        result[j][1][...] = ring.add(result[j][0], mask_of(j), sign=-sign)
    return result


def _known_masks(server: View, recording: Recording, names: Sequence[str], length: int) -> dict[int, Planes]:
    agreed = server.agreed
    ring, count = agreed.fixed_point.ring, agreed.parameters.answer_length(1)
    seeds = {j: seed for name in names for j, seed in recording.device(name).mask_seeds.items()}
    return {j: pads.expand(ring, seed, agreed.run, "mask|1", count)[:, :length] for j, seed in seeds.items()}


def _stretches(left: list[int], n_devices: int) -> list[list[int]]:
    """Runs of neighbours among ``left``, around the end."""
    if not left:
        return []
    runs: list[list[int]] = []
    for j in left:
        if runs and runs[-1][-1] == j - 1:
            runs[-1].append(j)
        else:
            runs.append([j])
    if len(runs) > 1 and runs[0][0] == 0 and runs[-1][-1] == n_devices - 1:
        runs[0] = runs.pop() + runs[0]
    return runs

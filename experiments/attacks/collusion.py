"""The server and some devices put together what they have: the documented limit, carried out.

A colluding device i answers for alpha devices. Of these the two hold pads and padded data (in coded-padded the server
has the pads and the device the data, in coded-keys it is the other way round), so X_j'X_j and G_j come out bit for bit.
With those taken off, the coded sums of the others can be solved, in every epoch, for there are fewer of them than
equations: what comes out is the part_j of ``coded_run`` plus z_j, masked. The masks known to the set are those of a
stretch's ends, so it learns the total of every stretch of neighbours between two devices already known. With one
colluding device there is one stretch: all the others.
A stretch of one is a device exposed: with alpha = D - 1, or when two colluding devices leave one between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codedfl.code.masks import mask_label
from codedfl.crypto import pads
from codedfl.data.problem import Problem
from codedfl.privacy.row_reduction import reduced
from codedfl.privacy.views import THE_SERVER, coded_views
from codedfl.protocol.messages import SERVER
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.typing import Planes
from experiments.attacks.coded_run import (
    answered_part,
    coded_sums,
    epochs_of,
    expanded_pads,
    run_recorded,
    seats,
    true_statistics,
)
from experiments.views import Recording, Statistics, View


@dataclass(frozen=True)
class Exposure:
    """Whose answers' content a collusion found bit for bit, and whose it should by the threat model's linear algebra.

    found: every number of G^(1) and of X'X e (in one-shot of X'X itself), in all epochs.
    found_gram: the whole of X'X.
    """

    scheme: str
    alpha: int
    devices: int
    colluders: list[int]
    answered_for: list[int]
    predicted: list[int]
    found: list[int]
    predicted_gram: list[int]
    found_gram: list[int]
    masked_entries_right: int  # of the others' numbers, how many were right when taken as they are: none, ever

    @property
    def as_predicted(self) -> bool:
        same = self.found == self.predicted and self.found_gram == self.predicted_gram
        return same and self.masked_entries_right == 0


def collude(scheme: CodedScheme, problem: Problem, colluders: Sequence[int]) -> Exposure:
    """``colluders`` are positions in the code, and so are all devices in the outcome."""
    names = [seats(scheme, problem)[i] for i in colluders]
    recording = run_recorded(scheme, problem, only=[SERVER, *names])
    server = recording.server
    agreed = server.agreed
    truth = [true_statistics(server, problem, j) for j in range(agreed.n_devices)]
    true_numbers = [_all_epochs(server, one) for one in truth]
    own = {i: truth[i] for i in colluders}  # a device knows its own
    data = {**unpadded(recording, names), **own}
    known = {j: _all_epochs(server, one) for j, one in data.items()}
    left = [j for j in range(agreed.n_devices) if j not in known]
    masked = _masked_others(server, recording, names, known, left)
    for stretch in _stretches(left, agreed.n_devices):
        if len(stretch) == 1:
            known[stretch[0]] = masked[stretch[0]][1]
    right = [j for j, found in sorted(known.items()) if np.array_equal(found, true_numbers[j])]
    whole = [j for j, one in sorted(data.items()) if np.array_equal(one.gram, truth[j].gram)]
    answered_for = sorted({j for i in colluders for j in agreed.code.row_support(i)})
    predicted = sorted(coded_views(agreed.code).exposed([THE_SERVER, *colluders]))
    return Exposure(
        scheme.name,
        scheme.alpha,
        agreed.n_devices,
        list(colluders),
        answered_for,
        predicted,
        right,
        # One-shot's answers hold X'X; otherwise only those whose pads and padded data are known give it away whole.
        predicted if scheme.reveals_gram else answered_for,
        right if scheme.reveals_gram else whole,
        sum(int(np.all(masked[j][0] == true_numbers[j], axis=0).sum()) for j in left if j not in known),
    )


def _all_epochs(view: View, held: Statistics) -> Planes:
    """What all answers of the run would be of these statistics alone, one behind the other."""
    return np.concatenate([answered_part(view, held, epoch) for epoch in epochs_of(view)], axis=1)


def unpadded(recording: Recording, names: Sequence[str]) -> dict[int, Statistics]:
    """X_j'X_j and G_j of the devices that a colluding one answers for: padded data of one side, pads of the other."""
    server = recording.server
    agreed = server.agreed
    ring, uploads = agreed.fixed_point.ring, server.uploads()
    found = {}
    for name in names:
        device = recording.device(name)
        padded = uploads or device.padded_data()
        seeds = {j: secrets.pad for j, secrets in device.shares().items()} if uploads else server.drawn_pad_seeds()
        for j, held in padded.items():
            if seeds.get(j):
                pad = expanded_pads(server, seeds[j])
                found[agreed.position(j)] = Statistics(
                    ring.add(held.gram, pad.gram, sign=-1), ring.add(held.constant, pad.constant, sign=-1)
                )
    return found


def _masked_others(
    server: View, recording: Recording, names: Sequence[str], known: dict[int, Planes], left: list[int]
) -> dict[int, tuple[Planes, Planes]]:
    """For the others: part_j + z_j of all epochs as they come out, and the same with the known masks taken off."""
    agreed = server.agreed
    ring, code, n = agreed.fixed_point.ring, agreed.code, agreed.n_devices
    sums = np.concatenate([coded_sums(server, epoch) for epoch in epochs_of(server)], axis=2)
    length = sums.shape[2]
    sign = -1 if server.uploads() else 1  # of the masks in the coded sums
    masks = _known_masks(server, recording, names)

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


def _known_masks(server: View, recording: Recording, names: Sequence[str]) -> dict[int, Planes]:
    """The masks of all epochs, one behind the other, of the devices whose seeds the set holds."""
    agreed = server.agreed
    ring, p = agreed.fixed_point.ring, agreed.parameters
    seeds = {j: seed for name in names for j, seed in recording.device(name).mask_seeds.items()}
    return {
        j: np.concatenate(
            [
                pads.expand(ring, seed, mask_label(agreed.run, server.update_digest(epoch)), p.answer_length(epoch))
                for epoch in epochs_of(server)
            ],
            axis=1,
        )
        for j, seed in seeds.items()
    }


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

"""Role keys under attack: what the server gets out of uploads and sums of pads, alone and with devices that help it.

The server has every owner's padded upload and, of every role, the answers: sums of all owners' pads. A colluding device
brings the seeds of its role, one of z + 1 parts of every pad. Up to z of them leave each upload padded by a part that
nobody in the set has; z + 1 of different roles take all parts off, and everybody's data come out bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.data.problem import Problem
from codedfl.protocol.messages import SERVER
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.typing import Planes
from experiments.attacks.coded_run import (
    answered_part,
    epochs_of,
    expanded_pads,
    run_recorded,
    seats,
    true_statistics,
)
from experiments.attacks.collusion import Exposure
from experiments.views import Recording, Statistics, View

Floats = NDArray[np.float64]


def uploads_less_answers(server: View, epoch: int) -> Planes:
    """Each owner's upload, as an answer of the epoch would be of it, less one answer of each role: (P, D, length).

    Of the right owner alone this would be its data; of all of them together the sum is the total.
    """
    agreed, ring = server.agreed, server.agreed.fixed_point.ring
    answers, uploads = server.answers(epoch), server.uploads()
    pads = ring.zeros(agreed.parameters.answer_length(epoch))
    for role in sorted(set(agreed.roles)):
        first = next(name for name, one in zip(agreed.names, agreed.roles, strict=True) if one == role)
        pads = ring.add(pads, answers[first])
    found = [ring.add(answered_part(server, uploads[name], epoch), pads, sign=-1) for name in agreed.names]
    return np.stack(found, axis=1)


def decoded_total(server: View, epoch: int) -> Planes:
    """What the honest server makes of uploads and answers."""
    agreed, ring = server.agreed, server.agreed.fixed_point.ring
    less = uploads_less_answers(server, epoch)
    total = ring.zeros(less.shape[2])
    uploads = server.uploads()
    for j, name in enumerate(agreed.names):
        # The pads are in every one of them: they are taken off once.
        part = np.ascontiguousarray(less[:, j]) if j == 0 else answered_part(server, uploads[name], epoch)
        total = ring.add(total, part)
    return total


def less_known_pads(recording: Recording, helpers: Sequence[str]) -> dict[int, Statistics]:
    """Every upload less all parts of its pad whose seeds the server's helpers hold; by position."""
    server = recording.server
    agreed, ring = server.agreed, server.agreed.fixed_point.ring
    found = server.uploads()
    done: set[tuple[int, str]] = set()  # role and owner: two helpers of a role know the same
    for helper in helpers:
        role = agreed.roles[agreed.position(helper)]
        for owner, secrets in recording.device(helper).shares().items():
            if (role, owner) not in done:
                done.add((role, owner))
                pad = expanded_pads(server, secrets.pad)
                gram = ring.add(found[owner].gram, pad.gram, sign=-1)
                found[owner] = Statistics(gram, ring.add(found[owner].constant, pad.constant, sign=-1))
    return {agreed.position(name): one for name, one in found.items()}


def collude(scheme: RoleKeys, problem: Problem, colluders: Sequence[int]) -> Exposure:
    """As ``collusion.collude``, of role keys: whose data the server and these positions have bit for bit."""
    names = [seats(scheme, problem)[i] for i in colluders]
    recording = run_recorded(scheme, problem, only=[SERVER, *names])
    server = recording.server
    agreed = server.agreed
    truth = [true_statistics(server, problem, j) for j in range(agreed.n_devices)]
    held = less_known_pads(recording, names) | {i: truth[i] for i in colluders}
    numbers = {j: [_all_epochs(server, one) for one in (held[j], truth[j])] for j in held}
    right = [j for j, (found, true) in sorted(numbers.items()) if np.array_equal(found, true)]
    whole = [j for j, one in sorted(held.items()) if np.array_equal(one.gram, truth[j].gram)]
    every_role = {agreed.roles[i] for i in colluders} == set(agreed.roles)
    predicted = list(range(agreed.n_devices)) if every_role else sorted(colluders)
    return Exposure(
        scheme.label,
        scheme.agreed["alpha"],
        agreed.n_devices,
        list(colluders),
        [],
        predicted,
        right,
        predicted,
        whole,
        sum(int(np.all(found == true, axis=0).sum()) for j, (found, true) in numbers.items() if j not in right),
    )


def _all_epochs(view: View, held: Statistics) -> Planes:
    return np.concatenate([answered_part(view, held, epoch) for epoch in epochs_of(view)], axis=1)


def different_roles(scheme: RoleKeys, problem: Problem, count: int) -> Iterator[int]:
    """Positions of ``count`` devices, each of another role, as far as there are roles."""
    names = seats(scheme, problem)
    by_name = {name: i % (scheme.colluders + 1) for i, name in enumerate(problem.device_names)}
    for role in range(min(count, scheme.colluders + 1)):
        yield next(i for i, name in enumerate(names) if by_name[name] == role)

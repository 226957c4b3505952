"""Sums of one vector per device that show nobody a single one, by the training protocol itself.

With features x and labels Y, a device's G^(1) = X'X 0 - X'Y: one epoch of coded keys with alpha = 1 decodes the total
of the X'Y and nothing else. One device that colludes with the server learns nothing of another then; where more are to
be withstood, the same is done with role keys. ``data.vector_sums`` makes samples of a vector. Used for the mean and
variance of columns without public ranges, and for scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.data.preprocessing import Moments, secure_moments
from codedfl.data.vector_sums import SAMPLES, SUM_PRECISION, n_sum_outputs, read_sum, sum_bounds, sum_rows
from codedfl.errors import InvalidInput
from codedfl.protocol import Parameters, Policy
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.role_device import RoleDevice
from codedfl.protocol.schemes.role_server import RoleServer
from codedfl.run.in_process import run_in_process
from codedfl.state import PLAIN, Kept, Resumable
from codedfl.typing import Floats


class ReadTotal(Resumable):
    """A solver that takes the first total and is done."""

    _kept: ClassVar[Mapping[str, Kept]] = {"model": PLAIN}

    def __init__(self) -> None:
        self.epochs = 1
        self.model: Floats | None = None

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        del initial, samples
        self.model = -constant

    def request(self) -> Floats | None:
        return None

    def receive(self, sent: Floats, product: Floats) -> None:
        raise AssertionError(f"nothing was requested, got a product of shape {product.shape} for {sent.shape}")


def secure_sum_in_process(vectors: Sequence[Floats], colluders: int = 1) -> Floats:
    """The sum of at least two vectors of one length, exact but for the last bit of each float.

    colluders: so many devices together with the server learn the sum of the others only.
    """
    if len(vectors) < 2:
        raise InvalidInput(f"a secure sum must have at least two devices, got {len(vectors)}")
    length = len(vectors[0])
    roles = colluders > 1
    server_type, device_type = (RoleServer, RoleDevice) if roles else (KeysServer, KeysDevice)
    parameters = Parameters(
        server_type.scheme,
        alpha=1,
        colluders=colluders if roles else 0,
        n_features=1,
        n_outputs=n_sum_outputs(length),
        bounds=sum_bounds(len(vectors)),
        precision=SUM_PRECISION,
        samples=None if roles else SAMPLES * len(vectors),
        epochs=1,
    )
    policy = Policy(allow_unpinned=True)  # all vectors are here already
    rows = [sum_rows(np.asarray(one, dtype=np.float64)) for one in vectors]
    devices = [device_type(f"device-{i}", *one, policy=policy) for i, one in enumerate(rows)]
    total = run_in_process(server_type(parameters, [device.name for device in devices], ReadTotal()), devices)
    return read_sum(total[0])


def secure_moments_in_process(
    parts: list[NDArray[Any]], weights: list[Floats] | None = None, colluders: int = 1
) -> Moments:
    """Mean and variance of each column over at least two devices, ``parts`` holding the rows of each.

    ``weights`` are those of each device's rows, if they do not all count alike.
    """
    return secure_moments(parts, partial(secure_sum_in_process, colluders=colluders), weights)

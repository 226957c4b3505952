"""One scheme on one fleet as a row: how long, how many bytes, how many may straggle or collude, who sees what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codedfl.schemes.scheme import Conditions, Scheme, WorkShape, epoch_end_times


@dataclass(frozen=True)
class TimedRow:
    """Seconds are means over draws; bytes are those of one device for the whole training.

    stragglers: devices that an epoch need not wait for. colluders: see ``Exposure``.
    """

    label: str
    devices: int
    epochs: int
    seconds: float
    sharing_seconds: float
    epoch_seconds: float
    upload_bytes: float
    download_bytes: float
    stragglers: int
    colluders: int
    server_sees: str


def timed_row(
    scheme: Scheme, shape: WorkShape, at: Conditions, epochs: int, draws: int, rng: np.random.Generator
) -> TimedRow:
    """For schemes with and without state machines alike, by one convention."""
    start, ends = epoch_end_times(scheme, shape, at, epochs, draws, rng)
    costs = scheme.device_costs(shape, at, epochs)
    devices = at.fleet.n_devices
    return TimedRow(
        label=scheme.label,
        devices=devices,
        epochs=epochs,
        seconds=float(ends[:, -1].mean()),
        sharing_seconds=float(start.mean()),
        epoch_seconds=float((ends[:, -1] - start).mean() / epochs),
        upload_bytes=costs.upload_bytes,
        download_bytes=costs.download_bytes,
        stragglers=scheme.stragglers(shape, at.fleet),
        colluders=scheme.exposure(devices).colluders,
        server_sees=scheme.server_sees,
    )

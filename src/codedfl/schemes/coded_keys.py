"""Coded keys in time: one upload, then pads expanded from seeds (``protocol.schemes.coded_keys`` has its machines)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.fleet.latency import crypto_macs, ring_macs, upload_times
from codedfl.privacy.rows import PrivacyRow, coded_rows
from codedfl.protocol.device import Device
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.server import Server
from codedfl.schemes.coded import CodedScheme
from codedfl.schemes.scheme import Conditions, DeviceCosts, Sharing, WorkShape


class CodedKeys(CodedScheme):
    """One upload; seeds are coded instead of data."""

    name: ClassVar[str] = KeysServer.scheme
    device_type: ClassVar[type[Device]] = KeysDevice
    server_type: ClassVar[type[Server]] = KeysServer

    def privacy_rows(self, n_devices: int) -> list[PrivacyRow]:
        self.check(n_devices)
        return coded_rows(n_devices, self.alpha, self.groups, padded=False, one_shot=self.reveals_gram)

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """alpha pads are expanded and added up."""
        return super().device_costs(shape, at, epochs).plus(macs=self.alpha * _macs_of_pad(shape, at))

    def sharing(self, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
        """One sealed upload each, all of which the server needs; meanwhile devices expand the seeds they hold.

        A device's own pad is drawn before the run, like its Gram matrix (paper V: preprocessing is offline). Seeds
        are 32 bytes: of their transfer only the messages' latency is counted, up with the call that asks for them and
        down to those who expand them.
        """
        fleet, empty = at.fleet, at.times.mean_transfer_times
        asked = empty(0, "down")
        seeds_here = (asked + empty(0, "up")).max() + empty(0, "down")
        uploaded = asked + upload_times(
            at.times,
            shape.bulk_bits,
            at.sharing,
            draws,
            rng,
            macs=crypto_macs(fleet, sealed_bits=shape.bulk_bits),
            chunk_bits=at.chunk_bits,
        )
        expanded = seeds_here + at.times.compute_times(self.alpha * _macs_of_pad(shape, at), draws, rng)
        return Sharing(np.maximum(uploaded.max(axis=1), self.quorum(fleet.n_devices).time(expanded)), expanded)


def _macs_of_pad(shape: WorkShape, at: Conditions) -> float:
    return crypto_macs(at.fleet, pad_bits=shape.bulk_bits) + ring_macs(shape.bulk_numbers, shape.number_bits)

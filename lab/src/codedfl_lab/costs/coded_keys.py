"""Coded keys in time: one upload, then pads expanded from seeds (``protocol.schemes.coded_keys`` has its machines)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.privacy.views import Views, coded_views
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes import CODED_KEYS
from codedfl_lab.costs.coded import GradientCoded
from codedfl_lab.costs.padded_uploads import macs_of_pad, uploads_and_pads
from codedfl_lab.costs.scheme import Conditions, DeviceCosts, Sharing, WorkShape


class CodedKeys(GradientCoded):
    """One upload; seeds are coded instead of data."""

    name: ClassVar[str] = CODED_KEYS.name
    sharing_scheme: ClassVar[SharingScheme] = CODED_KEYS

    def views(self, n_devices: int) -> Views:
        return coded_views(self.code(n_devices), whole_answers=self.reveals_gram)

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """alpha pads are expanded and added up."""
        return super().device_costs(shape, at, epochs).plus(macs=self.alpha * macs_of_pad(shape, at))

    def sharing(self, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
        """One sealed upload each, all of which the server needs; meanwhile devices expand the seeds they hold."""
        uploaded, expanded = uploads_and_pads(shape, at, self.alpha, draws, rng)
        ready = self.quorum(at.fleet.n_devices).time(expanded)
        return Sharing(np.maximum(uploaded.max(axis=1), ready), expanded)

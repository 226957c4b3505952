"""Rules of the protocol taken away, one at a time; the harness must find out. No insecure switch is installed.

Masks are changed where the stage names their streams, devices that forget are made from the public face of the
machines (``state`` and ``restore``), policies are arguments.
"""

from __future__ import annotations

import hashlib

import numpy as np
from adversary import Party

from codedfl.protocol import Parameters
from codedfl.protocol.messages import Kind, Message, Update, unpack_list
from codedfl.typing import Floats

MASK = "mask"  # how the labels of mask streams begin


def masks_unbound(label: str, handling: Message | None) -> str:
    """The rule of protocol 1: one mask an epoch, whatever the update."""
    if label.startswith(MASK) and handling is not None and handling.kind is Kind.UPDATE:
        return f"{MASK}|{Update.decode(handling.body).epoch}"
    return label


def masks_for_all_epochs(label: str, handling: Message | None) -> str:
    """One mask for the whole run."""
    del handling
    return MASK if label.startswith(MASK) else label


def masks_bound(label: str, handling: Message | None) -> str:
    """The rule of protocol 2, on machines that do not have it: a mask for each update."""
    if label.startswith(MASK) and handling is not None and handling.kind is Kind.UPDATE:
        return f"{label}|{hashlib.sha256(handling.body).hexdigest()}"
    return label


class TwoAgreements(Party):
    """Accepts any number of agreements in a run: it forgets the one before."""

    def receive(self, data: bytes) -> list[bytes]:
        if Message.decode(data).kind is Kind.AGREEMENT:
            if Message.decode(data).run != self._run:
                self.remember()
                self._run, self._before_agreement = Message.decode(data).run, len(self.snapshots) - 1
            else:
                self.machine = self.remembered(self._before_agreement)
        return super().receive(data)

    _run: bytes = b""
    _before_agreement: int = -1


class JudgesByRows(Party):
    """Joins a run only if its rows are within the run's bounds, so whether it joins tells of its rows."""

    def receive(self, data: bytes) -> list[bytes]:
        replies = super().receive(data)
        if Message.decode(data).kind is Kind.INVITATION and objection_of_rows(invited(data), *self.rows):
            return []
        return replies


def invited(data: bytes) -> Parameters:
    """The parameters in an invitation."""
    return Parameters.decode(unpack_list(Message.decode(data).body, "an invitation")[1])


def objection_of_rows(parameters: Parameters, X: Floats, Y: Floats) -> str:
    """The rule of protocol 1."""
    bounds = parameters.bounds
    if len(X) > bounds.samples_per_device:
        return "too many rows"
    within = np.abs(X).max() <= bounds.features and np.abs(Y).max() <= bounds.labels
    return "" if within else "too large values"

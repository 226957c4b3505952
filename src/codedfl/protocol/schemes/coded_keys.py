"""Coded keys: one padded upload per device, the 32-byte pads' seeds are coded instead of the data.

Device j draws its own seed, uploads U_j = X_j'X_j + R_j and V_j = G_j^(1) + r_j to the server once (sealed to the
server's key: other devices hold R_j), and seals the seed to the devices of its column. Device i expands its alpha
seeds into S_i = sum_j b_ij R_j and s_i = sum_j b_ij r_j and answers s_i + S_i e, masked. The server keeps only sum U_j
and sum V_j and subtracts the decoded pads: exactly sum_j G_j. Devices never hold others' data, padded or not.

One shot is the same with a first answer that carries the triangle of X'X behind the constant; no update follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from codedfl.crypto import pads
from codedfl.errors import MessageRefused
from codedfl.protocol.contribution import OwnData
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.device_sharing import CodedDeviceSharing
from codedfl.protocol.messages import Message, Secrets, Shares
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.prepared_pad import CONSTANT, GRAM
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.gradient_coded import GradientCoded
from codedfl.protocol.server_session import ServerSession
from codedfl.protocol.server_sharing import CodedServerSharing
from codedfl.protocol.terms import Terms
from codedfl.state import MAP, PLAIN, CheckpointFields
from codedfl.typing import Planes


class KeysDeviceSharing(CodedDeviceSharing):
    """A device's side: it adds pads up."""

    checkpoint_fields: ClassVar[CheckpointFields] = {**CodedDeviceSharing.checkpoint_fields, "_pad_seeds": MAP}

    def __init__(self, session: DeviceSession, own: OwnData, terms: Terms | None) -> None:
        super().__init__(session, own, terms)
        self._pad_seeds: dict[int, bytes] = {}

    def begin(self) -> None:
        pad = self._pad()
        (seed,) = pad.seeds
        self._pad_seeds[self._session.position] = seed
        bulk, opens_it = self._encrypted(pad.padded(self._own_statistics()))
        self._share_with_column(Secrets(pad=seed), bulk, for_server=opens_it)
        self._taken()

    def _take_data(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        del bulk  # nothing bulky comes down in this scheme
        if not secrets.pad:
            raise MessageRefused("a share along the code must bring a pad seed, got none")
        self._pad_seeds[sender] = secrets.pad

    def _data_complete(self) -> bool:
        return set(self._pad_seeds) == set(self._session.agreed.code.row_support(self._session.position))

    def _finish_sums(self) -> None:
        code, position = self._session.agreed.code, self._session.position
        self._start_sums()
        assert self.gram_sum is not None and self.constant_sum is not None
        ring = self._session.agreed.ring
        coefficients, seeds = code.coefficients(position), [self._pad_seeds[j] for j in code.row_support(position)]
        pads.add_expanded(ring, self.gram_sum, coefficients, seeds, GRAM)
        pads.add_expanded(ring, self.constant_sum, coefficients, seeds, CONSTANT)
        self._pad_seeds = {}
        super()._finish_sums()

    def forget(self) -> None:
        super().forget()
        self._pad_seeds = {}


class KeysServerSharing(CodedServerSharing):
    """The server's side: it keeps the sums of the padded uploads, never a single one."""

    sign: ClassVar[int] = -1
    checkpoint_fields: ClassVar[CheckpointFields] = {
        **CodedServerSharing.checkpoint_fields,
        "_gram_sum": PLAIN,
        "_constant_sum": PLAIN,
    }

    def __init__(self, session: ServerSession, plan: RunPlan) -> None:
        super().__init__(session, plan)
        self._gram_sum: Planes | None = None
        self._constant_sum: Planes | None = None

    def open(self) -> None:
        ring, p = self._session.agreed.ring, self._session.parameters
        self._gram_sum, self._constant_sum = ring.zeros(p.triangle_length), ring.zeros(p.constant_length)

    def _take(self, sender: int, message: Message, shares: Shares) -> Mapping[str, bytes]:
        del sender
        assert self._gram_sum is not None and self._constant_sum is not None
        self._add_upload(self._gram_sum, self._constant_sum, self._opened_upload(message, shares))
        return {}

    def can_start(self) -> bool:
        """All uploads must be in: without one, the decoded pads would not match the sum."""
        if self.unshared or self._gram_sum is None or self._constant_sum is None:
            return False
        self._offset_by(self._gram_sum, self._constant_sum)
        self._gram_sum = self._constant_sum = None
        return True


CODED_KEYS = SharingScheme("coded-keys", KeysDeviceSharing, KeysServerSharing)
ONE_SHOT = replace(CODED_KEYS, name="one-shot", reveals_gram=True)


class CodedKeys(GradientCoded, CodedScheme):
    """One upload; seeds are coded instead of data.

    Examples
    --------
    >>> from codedfl import CodedKeys
    >>> CodedKeys(alpha=3, spare=3).check(10)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: spare must be between 0 and alpha - 1 (2), got 3
    """

    name: ClassVar[str] = CODED_KEYS.name
    sharing_scheme: ClassVar[SharingScheme] = CODED_KEYS


class OneShot(GradientCoded, CodedScheme):
    """Coded keys with one epoch, whose answer is the whole coded key: X'X and X'Y summed securely once.

    For linear regression these sums are sufficient, so the server solves in closed form. The price is that it learns
    the whole total Gram matrix; block Krylov on coded keys takes about as long and shows it a few directions.

    Examples
    --------
    >>> from codedfl import OneShot
    >>> OneShot(alpha=3).reveals_gram  # the server learns the total of X'X itself
    True
    """

    name: ClassVar[str] = ONE_SHOT.name
    sharing_scheme: ClassVar[SharingScheme] = ONE_SHOT
    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = "the total Gram matrix"

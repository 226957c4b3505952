"""Coded keys: one padded upload a device, the 32-byte pads' seeds are coded instead of the data.

Device j draws its own seed, uploads U_j = X_j'X_j + R_j and V_j = G_j^(1) + r_j to the server once (sealed to the
server's key: other devices hold R_j), and seals the seed to the devices of its column. Device i expands its alpha
seeds into S_i = sum_j b_ij R_j and s_i = sum_j b_ij r_j and answers s_i + S_i e, masked. The server keeps only sum U_j
and sum V_j and subtracts the decoded pads: exactly sum_j G_j. Devices never hold others' data, padded or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codedfl.crypto import pads, sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol.coded_device import CodedDevice
from codedfl.protocol.coded_server import CodedServer
from codedfl.protocol.convener import Outgoing
from codedfl.protocol.messages import SERVER, Kind, Message, Secrets
from codedfl.protocol.schemes.coded_padded import CONSTANT, GRAM
from codedfl.state import MAP, PLAIN, Kept
from codedfl.typing import Planes


class KeysDevice(CodedDevice):
    """Device of the scheme ``coded-keys``."""

    scheme: ClassVar[str] = "coded-keys"
    _kept: ClassVar[Mapping[str, Kept]] = {**CodedDevice._kept, "_pad_seeds": MAP}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pad_seeds: dict[int, bytes] = {}

    def _begin_sharing(self) -> list[Message]:
        seed = self._random_bytes(SEED_BYTES)
        self._pad_seeds[self._position] = seed
        gram, constant = self._own_statistics()
        ring, one = self._ring, [[1]] * len(self._ring.primes)
        pads.add_expanded(ring, gram, one, [seed], self._run, GRAM)
        pads.add_expanded(ring, constant, one, [seed], self._run, CONSTANT)
        content_key = self._random_bytes(KEY_BYTES)
        header = Message(Kind.SHARES, self._run, self._agreed.hash, self.name, SERVER)
        plaintext = ring.pack(gram) + ring.pack(constant)
        del gram, constant
        bulk = b"".join(sealed.encrypt_bulk(content_key, header.context(), plaintext))
        for_server = Secrets(content_key=content_key, digest=sealed.digest_of([bulk]))
        envelope = self._seal(self._invited.server_key, header, for_server.encode())
        column = set(self._agreed.code.column_support(self._position))
        pad_seed = Secrets(pad=seed)
        shares = self._shares(lambda i: pad_seed if i in column else Secrets(), bulk, pad=seed, for_server=envelope)
        return [shares, *self._announce_if_ready()]

    def _take_secrets(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        del bulk  # nothing bulky comes down in this scheme
        if sender not in self._agreed.code.row_support(self._position):
            return  # a mask seed only
        if not secrets.pad:
            raise MessageRefused("a share along the code must bring a pad seed, got none")
        self._pad_seeds[sender] = secrets.pad

    def _shares_complete(self) -> bool:
        return set(self._pad_seeds) == set(self._agreed.code.row_support(self._position))

    def _forget_secrets(self) -> None:
        super()._forget_secrets()
        self._pad_seeds = {}

    def _finish_sharing(self) -> None:
        ring, code, p = self._ring, self._agreed.code, self._agreed.parameters
        seeds = [self._pad_seeds[j] for j in code.row_support(self._position)]
        coefficients = code.coefficients(self._position)
        triangle = ring.zeros(p.triangle_length)
        pads.add_expanded(ring, triangle, coefficients, seeds, self._run, GRAM)
        self.linear = ring.symmetric(triangle, p.n_features)
        self.constant = ring.zeros(p.constant_length)
        pads.add_expanded(ring, self.constant, coefficients, seeds, self._run, CONSTANT)
        self._pad_seeds = {}


class KeysServer(CodedServer):
    """Server of the scheme ``coded-keys``: it keeps the sums of the padded uploads, never a single one."""

    scheme: ClassVar[str] = "coded-keys"
    pad_sign: ClassVar[int] = -1
    _kept: ClassVar[Mapping[str, Kept]] = {**CodedServer._kept, "_upload_sum": PLAIN}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._upload_sum: Planes | None = None

    def _open_sharing(self) -> list[Outgoing]:
        self._upload_sum = self._ring.zeros(self.parameters.triangle_length)
        self.pad_constant = self._ring.zeros(self.parameters.constant_length)
        return []

    def _take_shares(self, sender: int, message: Message, for_server: bytes) -> bytes:
        assert self._upload_sum is not None and self.pad_constant is not None
        ring, p = self._ring, self.parameters
        header = Message(Kind.SHARES, self.run, self._agreement_hash, message.sender, SERVER)
        run_key = self._agreed.members[sender].run_key
        secrets = Secrets.decode(sealed.open_sealed(self._sealing, run_key, header.context(), for_server))
        if not secrets.content_key:
            raise MessageRefused("an upload must bring a content key, got none")
        upload = sealed.decrypt_bulk(secrets.content_key, header.context(), secrets.digest, message.attachment)
        ring.check_packed_length(upload, p.triangle_length + p.constant_length)
        split = p.triangle_length * ring.bytes_per_number
        one = [[1]] * len(ring.primes)
        view = memoryview(upload)
        ring.add_scaled_packed(self._upload_sum, one, [view[:split]])
        ring.add_scaled_packed(self.pad_constant, one, [view[split:]])
        return b""

    def _can_start(self) -> bool:
        """All uploads must be in: without one, the decoded pads would not match the sum."""
        if len(self._shared) < self._agreed.n_devices or self._upload_sum is None:
            return False
        self.pad_linear = self._ring.symmetric(self._upload_sum, self.parameters.n_features)
        self._upload_sum = None
        return True

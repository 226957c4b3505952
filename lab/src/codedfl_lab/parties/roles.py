"""The parties of role keys: those of the product's secure sum, one disclosure group with everybody in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput
from codedfl.sum.asking import Engine
from codedfl.sum.device import Device, Memory
from codedfl.sum.keys import pack
from codedfl.sum.layout import Layout
from codedfl.sum.one_sum import OneSum
from codedfl.sum.session import Session
from codedfl.sum.terms import Participant, Terms
from codedfl_lab.parties.making import Parties, Rows, TrainingRoster
from codedfl_lab.parties.statistic import ASK, RowsStatistic


@dataclass(frozen=True)
class RoleParties(Parties):
    """See ``Parties``."""

    study: OneSum
    statistic: RowsStatistic
    spare: int
    blocks: int

    @property
    def terms(self) -> Terms:
        return self.study.terms

    @classmethod
    def of(
        cls, statistic: RowsStatistic, roster: TrainingRoster, colluders: int, holders: int, spare: int, blocks: int
    ) -> RoleParties:
        """Roles are dealt in the order of names: let that be the order of the roster."""
        if list(roster.keys) != sorted(roster.keys, key=str.encode):
            raise InvalidInput("names must ascend in the order of the run, since roles are dealt by it, got others")
        sizes, settings = statistic.sizes, (colluders, holders, spare, blocks)
        digest = hashlib.sha256(pack("codedfl lab roles", *settings, statistic.digest, roster.server)).digest()
        people = tuple(Participant(name, key, 0) for name, key in roster.keys.items())
        terms = Terms(digest, roster.server, people, colluders, holders=holders or None)
        bits, words = _width(statistic)
        form = Layout(bits, words, sizes.length, statistic.limit, sizes.size, sizes.columns, sizes.room)
        return cls(OneSum(terms, (ASK,), form), statistic, spare, blocks)

    def device(
        self, name: str, identity: Identity, rows: Rows, memory: Memory, *, noise_seed: bytes = b"", **more: Any
    ) -> Device:
        form, numbers = self.study.form, self.statistic.numbers
        study = replace(self.study, make=lambda: form.words_of(*numbers(*rows(), noise_seed)))
        return Device(name, identity, study, memory, **more)

    def server(self, engine: Engine, identity: Identity, **more: Any) -> Session:
        return Session(engine, self.study, identity, spare=self.spare, row_blocks=self.blocks, **more)


def _width(statistic: RowsStatistic) -> tuple[int, int]:
    """Bits of a word, and words of a number: 2^bits is just beyond the modulus of the scales."""
    bits = (statistic.scales.modulus - 1).bit_length()
    for width in (32, 48, 64):
        if bits <= width:
            return width, 1
    if statistic.sizes.size:
        raise InvalidInput(f"products by roles must have at most 64 bits, got {bits}: ask for less precision")
    return 64, 2

"""A coded scheme from outside: coded keys in pairs. A device's partner can answer for it, and nobody else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from codedfl_lab import CodedKeys


@dataclass(frozen=True)
class Pairs(CodedKeys):
    """The least that survives a failure: one in each pair. One colluder exposes one device."""

    alpha: int = 2
    name: ClassVar[str] = "pairs"

    @classmethod
    def default_for(cls, n_devices: int) -> "Pairs":
        return cls(2, n_devices // 2)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator["Pairs"]:
        if n_devices >= 4:
            yield cls.default_for(n_devices)

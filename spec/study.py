"""A study: who takes part, who holds which role, over whom may be summed. Every party derives it by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spec.numbers import Layout
from spec.secrets import Scope, is_signed


@dataclass
class Study:
    """As it was approved."""

    digest: bytes
    server: bytes  # the server's long-term public key
    key: dict[str, bytes]  # the roster: the long-term public key of each participant
    group: dict[int, list[str]]  # the owners of each disclosure group; who is in none has no rows
    colluders: int  # z
    least_owners: int  # in a sum
    holders: int | None  # of roles, at most; None is everybody
    layout: dict[bytes, Layout]  # by ask; what is not there does not follow from the study
    fixed: dict[bytes, set[int]]  # by ask: the groups in its sum, where it says so
    needs: dict[bytes, set[bytes]]  # by ask: digests of the contents that it names, where it names some

    def __post_init__(self) -> None:
        """What follows from it."""
        self.owners = [name for group in self.group.values() for name in group]
        self.role = roles(self)


def roles(study: Study) -> dict[str, int]:
    """Who holds which of the z + 1 roles: by the rank in the group, so that every whole group has holders of all.

    Groups by their number, names by the bytes of UTF-8; those without rows come last, as if one more group.
    """
    groups = [*(names for _, names in sorted(study.group.items())), study.key.keys() - {*study.owners}]
    ranked = [(rank + at, one) for at, of in enumerate(groups) for rank, one in enumerate(sorted(of, key=str.encode))]
    return {name: number % (study.colluders + 1) for number, name in ranked[: study.holders]}


def check_enrolment(study: Study, scope: Scope, enrolment: Sequence[Any], now: float) -> None:
    """Of somebody on the roster, not expired, signed."""
    name, public, not_after, signature = enrolment
    assert name in study.key and now < not_after, "list"
    assert is_signed(study.key[name], signature, "enrolment", *scope, not_after, public), "list"


def check_role_key(study: Study, scope: Scope, role: int, key: Sequence[Any]) -> None:
    """Signed by a holder of this very role."""
    (drawer, _, _, signature), text = key, ("role key", *scope, role, key[2])
    assert study.role.get(drawer) == role and is_signed(study.key[drawer], signature, *text), "role"


def check_list(study: Study, scope: Scope, ask: bytes, entries: Sequence[Sequence[Any]], now: float) -> None:
    """Enough owners, each once, ascending, in whole groups: what privacy rests on."""
    names = [name for name, *_ in entries]
    whole = {number for number, group in study.group.items() if set(group) <= set(names)}
    assert names == sorted((name for number in whole for name in study.group[number]), key=str.encode), "list"
    assert whole == study.fixed[ask] if ask in study.fixed else len(names) >= study.least_owners, "list"
    for *enrolment, _ in entries:
        check_enrolment(study, scope, enrolment, now)

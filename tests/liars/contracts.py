"""What operators approve, as the harness has it: enough of a study to make the terms of its runs.

A contract fixes parameters, roster, pods and the server's key, and its digest over all of that is the recipe of its
runs: who approved another one cannot be in the same run. A new edition of the rows is a new contract.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from codedfl.protocol.agreement import Parameters
from codedfl.protocol.terms import Terms

Pods = tuple[frozenset[str], ...]


@dataclass(frozen=True, eq=False)
class Contract:
    """``parameters.recipe`` is its digest. Who is on the roster and in no pod is a helper."""

    label: str
    parameters: Parameters
    server_public: bytes
    roster: Mapping[str, bytes]
    pods: Pods
    least_owners: int = 2

    @classmethod
    def drawn_up(
        cls,
        label: str,
        parameters: Parameters,
        server_public: bytes,
        roster: Mapping[str, bytes],
        pods: Iterable[Iterable[str]],
        least_owners: int = 2,
        *,
        says_pods: bool = True,
    ) -> Contract:
        """``says_pods``: whether the digest is over the pods too; without, it is a mutant."""
        divided = tuple(frozenset(pod) for pod in pods)
        owners = sum(map(len, divided)) if parameters.owners else 0  # none is a mutant: scales move with who joins
        fixed = replace(parameters, recipe=b"", owners=owners)
        said = (label, fixed.encode(), server_public, sorted(roster.items()), least_owners)
        division = sorted(map(sorted, divided)) if says_pods else []
        digest = hashlib.sha256(repr((said, division)).encode()).digest()
        return cls(label, replace(fixed, recipe=digest), server_public, roster, divided, least_owners)

    @property
    def digest(self) -> bytes:
        return self.parameters.recipe

    @property
    def owners(self) -> frozenset[str]:
        return frozenset[str]().union(*self.pods)

    @property
    def helpers(self) -> frozenset[str]:
        return frozenset(self.roster) - self.owners

    def pod_of(self, name: str) -> frozenset[str]:
        """Empty for a helper."""
        return next((pod for pod in self.pods if name in pod), frozenset())

    def has_whole_pods(self, owners: Iterable[str]) -> bool:
        """Whether these are a union of pods."""
        listed = frozenset(owners)
        return listed <= self.owners and all(pod <= listed or not pod & listed for pod in self.pods)

    def terms(self, terms_type: type[Terms] = Terms, **changes: Any) -> Terms:
        """As a device derives them; mutants derive others."""
        found: dict[str, Any] = {
            "parameters": self.parameters,
            "server_public": self.server_public,
            "roster": self.roster,
            "pods": self.pods,
            "least_owners": self.least_owners,
        }
        return terms_type(**found | changes)

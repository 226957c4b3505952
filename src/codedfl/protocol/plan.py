"""Everything that is fixed before a run begins: the one argument from which its parties are made.

Whoever starts a run makes a plan: the laboratory of a problem (``run.parties``), a study of what its parties approved
(``contract``). ``Server`` and ``Device`` take it.
"""

from __future__ import annotations

from dataclasses import dataclass

from codedfl.code.roles import most_blocks
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.terms import Terms


@dataclass(frozen=True)
class RunPlan:
    """One run to be.

    scheme: how its data are shared.
    parameters: the public parameters.
    names: the devices, in the run's order. The set freezes when all have joined, or at ``Server.freeze``.
    spare: how many answers beyond those that decode to wait for, in each group or role. 0 waits for none; 1 detects a
        wrong answer; 2t find out up to t devices that lie, which are then excluded.
    holders: who holds keys in a scheme of roles, the fastest first; empty is everybody.
    helpers: devices without data, in a scheme of roles.
    terms: what devices hold the server to; None in simulations, where one process holds everything.
    blocks: in how many blocks the rows of a role are dealt out among its holders, as far as rows and holders go; 1
        leaves all rows to each of them.
    reserve: how many holders of each role keep all rows all the same, where rows are dealt out.
    """

    scheme: SharingScheme
    parameters: Parameters
    names: tuple[str, ...]
    spare: int = 0
    holders: tuple[str, ...] = ()
    helpers: frozenset[str] = frozenset()
    terms: Terms | None = None
    blocks: int = 1
    reserve: int = 0

    def blocks_among(self, n_holders: int) -> int:
        """In how many blocks the rows are dealt out when this number of holders is there."""
        most = most_blocks(n_holders, self.parameters.colluders + 1, self.reserve, self.spare)
        return max(1, min(self.blocks, self.parameters.n_features, most))

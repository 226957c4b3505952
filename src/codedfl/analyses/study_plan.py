"""The plan of each run of a study: every parameter follows from the study and the roster, on all machines alike.

Server and devices call the same functions, so a device compares what it is invited to with what it derived itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codedfl.contract.merging import recoded
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.recipe import Recipe
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Contribution, Rows, WholeNumbers
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.prepared_pad import PadLayout
from codedfl.protocol.schemes.registry import sharing_scheme
from codedfl.protocol.terms import Terms
from codedfl.solve.noise_level import NoiseLevel, noise_and_level
from codedfl.solve.solver import Solver
from codedfl.statistics.products import Products
from codedfl.statistics.statistic import Ask, Statistic, contribution, statistic_of

MANY_DEVICES = 50  # with more devices than this, not everybody holds keys
HOLDERS_PER_ROLE = 12  # and each role has this number of holders


def too_few(study: Study, roster: Roster, names: Collection[str]) -> str:
    """Why these devices cannot make a total of the study: too few owners in whole pods; empty when they can.

    Examples
    --------
    >>> from codedfl.analyses.study_plan import too_few
    >>> from codedfl.contract.roster import Roster
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> roster = Roster.draft({name: name.encode() * 32 for name in "abc"}, colluders=1)
    >>> too_few(study, roster, "ab")
    'at least 3 owners in whole pods must take part (least_participants of the study file), got 0'
    """
    here = set(names)
    owners, least = sum(len(pod) for pod in roster.pods if pod <= here), study.least_owners
    if owners >= least:
        return ""
    key = "least_participants" if study.least_participants == least else "colluders + honest"
    # Whole pods that are there would do by the protocol: it is the study's own bound that stops them.
    would_do = owners >= max(3, study.colluders + study.honest)
    hint = f": with least_participants = {owners} there, approved anew by all, these would do" if would_do else ""
    return f"at least {least} owners in whole pods must take part ({key} of the study file), got {owners}{hint}"


def prepared_layout(study: Study, roster: Roster) -> PadLayout | None:
    """How the pads of a study's one large upload will be laid out, if all come; None where all totals are small.

    It follows from the study alone: an ask adds which levels are merged and the principal components, neither of which
    changes how many numbers there are.

    Examples
    --------
    >>> from codedfl.analyses.study_plan import prepared_layout
    >>> from codedfl.contract.roster import Roster
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, features="rbf")
    >>> prepared_layout(study, Roster.draft({name: name.encode() * 32 for name in "abc"}, colluders=1)).numbers
    125250
    """
    if Products.name not in study.statistics:
        return None
    point = np.zeros(0)
    if study.needs_covariance:
        components = np.eye(len(study.design_names), study.components)
        point = np.concatenate((study.preprocessing().low, components.ravel()))
    return PadLayout.expected(StudyRun(study, roster, Ask(Products.name, (), point)).plan())


@dataclass(frozen=True)
class StudyRun:
    """One run of a study: the total that is asked for.

    study: as the parties approved it.
    roster: whose digest the study has.

    Examples
    --------
    >>> from codedfl.analyses.study_plan import StudyRun
    >>> from codedfl.contract.roster import Roster
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.statistics.statistic import Ask
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> roster = Roster.draft({name: name.encode() * 32 for name in "abc"}, colluders=1)
    >>> StudyRun(study, roster, Ask("gram")).parameters.n_outputs
    12
    """

    study: Study
    roster: Roster
    ask: Ask

    @cached_property
    def _statistic(self) -> Statistic:
        return statistic_of(self.study, self.ask)

    @property
    def trains(self) -> bool:
        """Whether the run is a training by products, epoch by epoch, and no single total."""
        return isinstance(self._statistic, Products)

    @property
    def terms(self) -> Terms:
        """What every device holds the server to."""
        return Terms(
            self.parameters,
            bytes.fromhex(self.study.server_key),
            self.roster.keys,
            self.roster.pods,
            self.study.least_owners,
        )

    def plan(self, names: tuple[str, ...] = ()) -> RunPlan:
        """The run with these devices, in the server's order; none is the whole roster."""
        names = names or tuple(self.roster.keys)
        return RunPlan(
            sharing_scheme(self.parameters.scheme),
            self.parameters,
            names,
            holders=names[: self._n_holders(len(names))],
            helpers=frozenset(self.roster.helpers) & set(names),
            terms=self.terms,
            blocks=self.study.row_blocks,
            reserve=int(self.study.row_blocks > 1),  # on real machines the only holder of a cell may die
        )

    def _n_holders(self, n_devices: int) -> int:
        if self.study.holders is not None:
            return min(self.study.holders, n_devices)
        return n_devices if n_devices <= MANY_DEVICES else HOLDERS_PER_ROLE * (self.study.colluders + 1)

    @cached_property
    def parameters(self) -> Parameters:
        """The public parameters: nothing in them is anybody's choice."""
        if self.trains:
            return self._of_products()
        return Parameters(
            "role-keys",
            alpha=1,
            n_features=1,
            n_outputs=self._statistic.length,
            bounds=Bounds(1.0, 1.0, self.study.max_rows, self.study.max_rows_per_device),
            epochs=1,
            recipe=self.ask.digest(self.study),
            colluders=self.study.colluders,
            owners=len(self.roster.owners),
            total_limit=self._statistic.limit,
        )

    def _of_products(self) -> Parameters:
        recipe, study, owners = self.recipe, self._statistic.study, len(self.roster.owners)
        noise, _ = self._noise
        return Parameters(
            "role-keys" if study.noise is None else "role-sums",
            alpha=1,
            n_features=recipe.n_features,
            n_outputs=recipe.n_outputs,
            bounds=study.bounds(recipe),
            precision=study.precision(recipe, owners),
            reveals_gram=study.noise is not None,
            epochs=self.solver().epochs,
            recipe=self.ask.digest(self.study),
            colluders=study.colluders,
            noise=noise,
            owners=owners,
        )

    @cached_property
    def recipe(self) -> Recipe:
        """How rows become features and labels where products are asked for; scaled by the public ranges."""
        assert isinstance(self._statistic, Products)
        return self._statistic.recipe

    @cached_property
    def _noise(self) -> tuple[RowNoise | None, NoiseLevel | None]:
        study, recipe = self._statistic.study, self.recipe
        return noise_and_level(study.noise, study.bounds(recipe), recipe, len(self.roster.owners))

    def solver(self) -> Solver:
        """What the server makes of the answers."""
        from codedfl.solve.registry import make_solver
        from codedfl.solve.whole_total import TakesTotal

        if not self.trains:
            return TakesTotal()
        study = self.study
        return make_solver(
            study.solver,
            regularisation=float(study.regularisation),
            epochs=study.epochs,
            gram=study.noise is not None,
            noise=self._noise[1],
        )

    def contribution(self, snapshot: Snapshot) -> Contribution:
        """What a device brings: made of the rows that its operator approved, and of nothing else."""
        if not self.trains:
            return WholeNumbers(
                self._statistic.length, lambda ring: ring.from_wholes(contribution(self.study, self.ask, snapshot))
            )
        study, train = self._statistic.study, snapshot.part(held_out=False)
        codes = recoded(self.study, train.codes, self.ask.merged) if self.ask.merged else train.codes
        made = self.recipe.rows(study.matrix(codes), study.target.values(train.target))
        return Rows(made.X.astype(np.float64), made.Y)

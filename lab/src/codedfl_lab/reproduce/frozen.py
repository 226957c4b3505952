"""Heads on frozen features: closed forms from one secure sum beside FedAvg, FedProx and Scaffold on the same features.

Every method sees the same embeddings, the same training rows and the same rows to be chosen by; nobody sees the test
rows. Rows are sorted by label or dealt out by Dirichlet draws, over 25, 100 and 1000 devices. Embeddings are computed
once for each row whatever follows, so no method is charged for them. The sum X'X costs a device 0.2 % of what its
embeddings cost; times are given without it, as the paper has it, and with it.

Finished parts are kept (`parts`), so a run that was stopped continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from codedfl.typing import Floats, Integers, Progress
from codedfl_lab.baselines.gradient_heads import GradientHead
from codedfl_lab.comparing import paper
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.reproduce.frozen_results import AtEqual, FrozenResults, FrozenRow, FrozenSizes, Lead
from codedfl_lab.reproduce.frozen_rivals import Standardised, curves, parts_of, tuned
from codedfl_lab.reproduce.frozen_rows import SPLITS, Embedded, held_out_rows
from codedfl_lab.reproduce.frozen_sums import (
    CLEAR,
    CLIP_NORM,
    EPSILONS,
    HONEST,
    ClosedSums,
    closed_forms,
    pooled,
    same_sum,
)
from codedfl_lab.reproduce.frozen_times import COLLUDERS, FLOAT_BITS, WORD_BITS, FrozenTimes
from codedfl_lab.reproduce.parts import Parts
from codedfl_lab.reproduce.scope import software_versions


def reproduce_frozen(
    data: Embedded,
    sizes: FrozenSizes | None = None,
    progress: Progress | None = None,
    command: str = "",
    parts: Parts | None = None,
    narrower: Sequence[Embedded] = (),
) -> FrozenResults:
    """Run the benchmark on embeddings that are there, or continue with it.

    narrower: the same rows in fewer numbers, of which a sum has fewer bytes.
    """
    study = _Study(data, sizes or FrozenSizes(), parts or Parts(), progress or (lambda *_: None), narrower)
    found = study.all()
    first = study.closed[0]
    return FrozenResults(
        rows=tuple(found),
        exact=(sum(study.exact), len(study.exact)),
        heads=tuple((name, weight, judged, tested) for name, weight, judged, tested in first.heads),
        confusion=tuple(map(tuple, first.confusion)),
        dataset=data.name,
        classes=data.classes,
        width=data.X.shape[1],
        n_train=len(held_out_rows(len(data.y), 0)[0]),
        n_test=len(data.y_test),
        seeds=study.sizes.seeds,
        command=command,
        seconds=study.parts.seconds,
        versions=software_versions(),
    )


class _Study:
    """The parts of a run, each asked of ``parts`` by its name."""

    def __init__(
        self, data: Embedded, sizes: FrozenSizes, parts: Parts, say: Progress, narrower: Sequence[Embedded] = ()
    ) -> None:
        self.data, self.sizes, self.parts, self._say, self.narrower = data, sizes, parts, say, narrower
        self._scaled: Standardised | None = None
        self._totals: dict[int, Integers] = {}
        self.closed: list[ClosedSums] = []
        self.closed_narrower: dict[int, list[ClosedSums]] = {one.X.shape[1]: [] for one in narrower}
        self.exact: list[bool] = []

    @property
    def scaled(self) -> Standardised:
        """Made when a part needs it."""
        self._scaled = self._scaled or Standardised.of(self.data)
        return self._scaled

    def total(self, seed: int) -> Integers:
        """The pooled sum of a seed, made when a part needs it."""
        if seed not in self._totals:
            self._totals[seed] = pooled(self.data, seed)
        return self._totals[seed]

    def all(self) -> list[FrozenRow]:
        """Seed by seed, so that what is there first is of all splits."""
        sizes, places = self.sizes, [(split, devices) for split in SPLITS for devices in self.sizes.devices]
        for seed in range(sizes.seeds):
            self._say(f"closed forms, seed {seed}", 0.1 * seed / sizes.seeds)
            made = partial(closed_forms, self.data, seed)
            found = self.parts.get(f"closed forms, seed {seed}", made, repr((EPSILONS, HONEST, CLIP_NORM)))
            self.closed.append(ClosedSums(*found))
            for one in self.narrower:
                name = f"closed forms, {one.X.shape[1]} numbers, seed {seed}"
                found = self.parts.get(name, partial(closed_forms, one, seed, alone=True), one.digest)
                self.closed_narrower[one.X.shape[1]].append(ClosedSums(*found))
            for split, devices in places:
                name = f"sums, {split}, {devices} devices, seed {seed}"
                self.exact.append(self.parts.get(name, partial(self._same, split, devices, seed)))
        heads = {place: self._tuned(*place, done / len(places)) for done, place in enumerate(places)}
        reached: dict[tuple[str, int], list[dict[str, list[float]]]] = {place: [] for place in places}
        for seed in range(sizes.of_gradient):
            for done, place in enumerate(places):
                part = (seed + done / len(places)) / sizes.of_gradient
                self._say(f"{place[0]}, {place[1]} devices, seed {seed}", 0.3 + 0.7 * part)
                reached[place].append(self._curves(heads[place], (*place, seed)))
        return [row for place in places for row in self._rows(place, heads[place], reached[place])]

    def _same(self, split: str, devices: int, seed: int) -> bool:
        parts = parts_of(self.data, split, devices, seed)
        return same_sum(self.data, self.total(seed), parts, whole=seed == 0)

    def _tuned(self, split: str, devices: int, done: float) -> list[GradientHead]:
        sizes = self.sizes
        self._say(f"tuning, {split}, {devices} devices", 0.1 + 0.2 * done)
        of = (sizes.rounds, sizes.rates, sizes.pulls)
        found = self.parts.get(
            f"tuned, {split}, {devices} devices",
            lambda: tuned(self.data, self.scaled, split, devices, sizes),
            repr(of),
        )
        return [GradientHead(**one) for one in found]

    def _curves(self, heads: list[GradientHead], where: tuple[str, int, int]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = self.parts.get(
            "curves, {}, {} devices, seed {}".format(*where),
            lambda: curves(self.data, self.scaled, heads, where, self.sizes.rounds),
            repr((heads, self.sizes.rounds)),
        )
        return found

    # -- rows

    def _rows(
        self, place: tuple[str, int], heads: Sequence[GradientHead], reached: Sequence[dict[str, list[float]]]
    ) -> list[FrozenRow]:
        split, devices = place
        parts = parts_of(self.data, split, devices, 0)
        owned = np.zeros(devices)  # rows by device; those without come last, where the fleet has its slowest
        owned[: len(parts)] = [len(one) for one in parts]
        times = FrozenTimes(Fleet.load(paper.FLEET).scaled_to(devices), self.sizes.draws)
        mine = self._closed_rows(place, times, owned, self.data.X.shape[1], self.closed)
        fewer = [
            replace(row, method=f"{row.method}, {n_features} numbers")
            for n_features, closed in self.closed_narrower.items()
            for row in self._closed_rows(place, times, owned, n_features, closed)
        ]
        rivals = [self._gradient_row(head, reached, [mine[0], *fewer], times, owned) for head in heads]
        return mine + fewer + rivals

    def _closed_rows(
        self, place: tuple[str, int], times: FrozenTimes, owned: Floats, n_features: int, closed: Sequence[ClosedSums]
    ) -> list[FrozenRow]:
        data = self.data
        split, devices = place
        width = 1 + n_features + data.n_classes
        numbers, score = width * (width + 1) // 2, 8.0 * (1 + n_features) * data.n_classes * len(closed[0].heads)
        size, gram = WORD_BITS * numbers / 8, owned * width**2 / 2
        shared = size * (COLLUDERS + 1) / devices  # one holder of each role sends the sum of pads
        found = []
        for method in closed[0].by_method:
            clear = method == CLEAR
            seconds, charged = times.ours(numbers, gram, clear)
            accuracies = tuple(one.by_method[method] for one in closed)
            chosen = "" if method != "ours" else ", ".join(dict.fromkeys(one.best for one in closed))
            sees = (
                "each device's X'X and X'Y" if clear else "the total, " + ("with noise" if "eps" in method else "exact")
            )
            down = score * (method == "ours")
            up, most = (size, size) if clear else (size + shared, 2 * size + down)
            found.append(
                FrozenRow(split, devices, method, accuracies, 1, up, down, most, seconds, charged, sees, tuned=chosen)
            )
        return found

    def _gradient_row(
        self,
        head: GradientHead,
        reached: Sequence[dict[str, list[float]]],
        mine: Sequence[FrozenRow],
        times: FrozenTimes,
        owned: Floats,
    ) -> FrozenRow:
        each_seed = [one[head.name] for one in reached]
        curve, rounds = np.mean(each_seed, axis=0).tolist(), self.sizes.rounds
        numbers = (1 + self.data.X.shape[1]) * self.data.n_classes
        size = FLOAT_BITS * numbers * head.models_sent / 8
        each = times.per_round(head, numbers, owned)

        def after(budget: float, price: float, ours: FrozenRow) -> Lead:
            return Lead.of(ours.accuracies, each_seed, int(budget / price), 1.0 / self.data.n_classes)

        def equal(one: FrozenRow) -> AtEqual:
            seconds, charged = (after(budget, each, one) for budget in (one.seconds, one.charged))
            return AtEqual(one.method, after(one.most, 2 * size, one), seconds, charged)

        ours = mine[0]
        passed = [place for place, one in enumerate(curve, start=1) if one > ours.accuracy]
        row = FrozenRow(
            ours.split,
            ours.devices,
            head.name,
            tuple(one[-1] for one in each_seed),
            rounds,
            size * rounds,
            size * rounds,
            2 * size * rounds,
            each * rounds,
            each * rounds,
            "each device's model, every round",
            head.said,
        )
        return replace(
            row,
            at_equal=tuple(map(equal, mine)),
            at_end=after(rounds, 1, ours),
            crossing=passed[0] if passed else None,
            curve=tuple(curve),
        )

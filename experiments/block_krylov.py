"""Epochs to the paper's highest targets with conjugate gradient and with block Krylov, on the ring.

The paper's setting: 2000 random features of the kernel with gamma = 0.02, rows sorted by label on 25 devices, lambda =
9e-6, no random partition. Products are those of the ring (``CentralTotals``), so the models are bit for bit those of
the coded schemes. An epoch for the constant is counted. Directions are those of the total Gram matrix of which the
server learns the image.

    python -m experiments.block_krylov --dataset mnist --dataset fashion-mnist
"""

from __future__ import annotations

import argparse
from pathlib import Path

from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl_lab import datasets
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.problems.problem import PAPER_FEATURES, PAPER_REGULARISATION, Problem, make_problem

TARGETS = {"mnist": 0.95, "fashion-mnist": 0.85, "digits": 0.95}
SOLVERS: dict[str, type[ConjugateGradient | BlockKrylov]] = {
    "conjugate gradient": ConjugateGradient,
    "block Krylov": BlockKrylov,
}
GAMMA = 0.02
DEVICES = 25
MAX_EPOCHS = 30


def epochs_to(target: float, totals: CentralTotals, solver: ConjugateGradient | BlockKrylov) -> int | None:
    """The first epoch whose model reaches the target on the test rows; None if none does."""
    for epoch, theta in enumerate(totals.train(solver), 1):
        if totals.problem.score(theta) >= target:
            return epoch
    return None


def problem_of(dataset: str, seed: int, n_features: int, data_dir: Path | None = None) -> Problem:
    data = datasets.load(dataset, data_dir)
    return make_problem(data, n_devices=DEVICES, n_features=n_features, gamma=GAMMA, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", action="append", choices=list(TARGETS), help="default: digits")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to this, exclusively")
    parser.add_argument("--n-features", type=int, default=PAPER_FEATURES)
    parser.add_argument("--data-dir", type=Path)
    arguments = parser.parse_args()
    print(f"{'data set':14}{'target':>7}{'seed':>6}  {'solver':20}{'epochs':>7}{'directions':>12}")
    for dataset in arguments.dataset or ["digits"]:
        for seed in range(arguments.seeds):
            totals = CentralTotals(problem_of(dataset, seed, arguments.n_features, arguments.data_dir))
            for name, kind in SOLVERS.items():
                solver = kind(MAX_EPOCHS, PAPER_REGULARISATION)
                epochs = epochs_to(TARGETS[dataset], totals, solver)
                row = f"{dataset:14}{TARGETS[dataset]:7.2f}{seed:6}  {name:20}{epochs or 'never':>7}"
                print(f"{row}{solver.directions:12}", flush=True)


if __name__ == "__main__":
    main()

"""Random features of principal components beside those of the pixels: what fewer of them do, and cost to upload.

The paper's kernel width and lambda, exact totals of the ring (``CentralTotals``), block Krylov to its end. The
covariance is that of all training rows, which a study sums over its devices (``pca-rbf``).

    python -m experiments.principal_features --dataset mnist
"""

from __future__ import annotations

import argparse
from pathlib import Path

from codedfl.data.features import FeatureMap, covariance_rows, principal_of
from codedfl.data.features.pca_rbf import PrincipalFourierFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.solve.krylov import BlockKrylov
from codedfl_lab import datasets
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import PAPER_REGULARISATION, make_problem

GAMMA = 0.02
DEVICES = 25
COMPONENTS = 30
EPOCHS = 30


def score(data: Dataset, features: FeatureMap) -> float:
    totals = CentralTotals(make_problem(data, n_devices=DEVICES, features=features))
    *_, theta = totals.train(BlockKrylov(EPOCHS, PAPER_REGULARISATION))
    return totals.problem.score(theta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=list(datasets.NAMED), default="digits")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--n-features", type=int, default=1000, help="and twice as many of the pixels")
    options = parser.parse_args()
    data = datasets.load(options.dataset, options.data_dir)
    scaled, _ = make_problem(data, n_devices=DEVICES, features="linear").recipe.preprocessing.apply(data.X_train)
    rows = covariance_rows(scaled)
    principal = principal_of(rows.T @ rows, COMPONENTS)
    columns, count = scaled.shape[1], options.n_features
    maps: dict[str, FeatureMap] = {
        f"{count} features of {COMPONENTS} components": PrincipalFourierFeatures(
            principal, RandomFourierFeatures(COMPONENTS, count, GAMMA, 0)
        )
    }
    for number in (count, 2 * count):
        maps[f"{number} features of {columns} columns"] = RandomFourierFeatures(columns, number, GAMMA, 0)
    for name, features in maps.items():
        upload = 3e-6 * features.n_features**2
        print(f"{options.dataset}: {name:34} {100 * score(data, features):5.1f} %, upload {upload:5.1f} MB", flush=True)


if __name__ == "__main__":
    main()

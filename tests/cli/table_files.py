"""Small data files of all three kinds, with text labels, device columns and a regression target."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ROWS = 120
COLUMNS = ("width", "height", "age")


def numbers(rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(rows, len(COLUMNS))) * (1.0, 100.0, 0.01) + (0.0, 5.0, 3.0)


def species(X: np.ndarray) -> list[str]:
    return ["ant" if width < 0 else "[bee]" for width in X[:, 0]]


def prices(X: np.ndarray) -> np.ndarray:
    return 3.0 * X[:, 0] + 0.02 * X[:, 1] + 40.0


def write_csv(path: Path, label: str = "species", rows: int = ROWS) -> Path:
    """Columns width, height, age, shop and the label; four shops."""
    X = numbers(rows)
    labels = species(X) if label == "species" else prices(X)
    with path.open("w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow([*COLUMNS, "shop", label])
        lines.writerows([*x, f"shop-{i % 4}", y] for i, (x, y) in enumerate(zip(X, labels, strict=True)))
    return path


def write_npz(path: Path) -> Path:
    X = numbers()
    np.savez(path, X=X, y=prices(X))
    return path


def write_parquet(path: Path) -> Path:
    import pyarrow
    import pyarrow.parquet

    X = numbers()
    columns = {name: X[:, j] for j, name in enumerate(COLUMNS)}
    pyarrow.parquet.write_table(pyarrow.table({**columns, "label": species(X)}), path)
    return path

"""The digits of scikit-learn: 1 797 images of 8 x 8 pixels, ten classes; embedded, nothing to fetch.

The default wherever the paper's data (section V: MNIST, Fashion-MNIST) are not at hand.
"""

from pathlib import Path

import numpy as np

from codedfl.typing import FileProgress
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.datasets.splitting import split_rows
from codedfl_lab.problems.dataset import Dataset

# The data come without a test part; everyone's accuracy must refer to the same one.
_SPLIT_SEED = 0
_TEST_FRACTION = 0.2
_GREATEST_PIXEL = 16.0


def _load(_data_dir: Path | None, _progress: FileProgress | None, _use_network: bool) -> Dataset:
    # Imported here: it takes a second, and most users of this package load other data.
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    X = np.asarray(pixels, dtype=np.float64) / _GREATEST_PIXEL
    y = np.asarray(labels, dtype=np.int64)
    train, test = split_rows(y, "classification", _TEST_FRACTION, np.random.default_rng(_SPLIT_SEED))
    return Dataset(
        name="digits",
        X_train=X[train],
        y_train=y[train],
        X_test=X[test],
        y_test=y[test],
        task="classification",
        public_range=(0.0, 1.0),
    )


DIGITS = NamedDataset(
    name="digits",
    description="1 797 handwritten digits of 8 x 8 pixels, comes with scikit-learn",
    licence="CC BY 4.0 (Alpaydin, Kaynak)",
    load=_load,
)

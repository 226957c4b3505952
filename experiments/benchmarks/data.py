"""Tables and published results of others: fetched by who wants them, known by their SHA-256; none is kept here.

FLamby (https://github.com/owkin/FLamby, MIT) has the table of Fed-TCGA-BRCA in its repository, clinical columns of
TCGA-BRCA under the GDC's terms (no attempt to identify anybody), and the result files of its benchmark. Fed-Heart is
UCI's heart disease data (CC BY 4.0; Janosi, Steinbrunn, Pfisterer and Detrano, 1988).
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd

from codedfl_lab.datasets.fetch import fetch_files
from codedfl_lab.datasets.source import Source, SourceFile

COMMIT = "edacf54d5211520583b0133d55ac39b6fda8324b"
_FLAMBY = f"https://raw.githubusercontent.com/owkin/FLamby/{COMMIT}/flamby"
_TCGA = Source(
    "fed-tcga-brca",
    (
        SourceFile("brca.csv", 113184, "07cb53423f7d579d33cfdbf2cba57b2aee75318b85866c68ce39a75b1f1ba020"),
        SourceFile("train_test_split.csv", 28946, "1249c6543a4060ff0fdaf8510fc37017755836db6c9fc5e6af96057c36510990"),
    ),
    "fed_tcga_brca",
    f"{_FLAMBY}/datasets/fed_tcga_brca/",
    f"git clone https://github.com/owkin/FLamby (commit {COMMIT[:8]})",
)
_HEART = Source(
    "fed-heart",
    tuple(
        SourceFile(f"processed.{name}.data", size, sha256)
        for name, size, sha256 in (
            ("cleveland", 18461, "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
            ("hungarian", 10263, "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796"),
            ("switzerland", 4109, "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314"),
            ("va", 6737, "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f"),
        )
    ),
    "fed_heart_disease",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/",
    "wget of the four files from https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/",
)
_TCGA_RESULTS = (
    (5856, 8643, "cff6187f40abdf2ee8cb565fdeb8e01263708b9d1d93fd96ccf90ecdc4b204e8"),
    (5864, 8720, "3896933f00629415792e472dbfa12f677fdd62b6fb37c423d21174685ea8f06c"),
    (5876, 8613, "9ba9860f9654668293c4ef76715cdc1add64731cbe9ef970ddbe7a67d338bacd"),
    (5869, 8759, "98d99d54b66adad62407afaf38c5478116523a7b1b683305985439fb0d56af83"),
    (5880, 8717, "0e4ec673efab611a033fd8a7788d7a5122025c2b146d98262c1715e8acb0479c"),
)
_HEART_RESULTS = (
    "7b0b243cad9a1e2180f0c8a8538c10579dc4767e154885a7b4afdb746af0336d",
    "9e4104ea72bc4ebb83654c0e6dffc63ebd074c3a5ee8b28495ee0cb7c4ef9510",
    "79059cdc1cbf729579ca0702ab0b1758f11eee3425b2140ef29885e2e7599292",
    "4a49e8475b21e49199b3076df3e808e159cf4ae4d55f6e6768bf4ef7ea11f3aa",
    "d5a5de26d0bf44fb80e50866395e4c4d9886d788bfd73a8dcfcd9e731cf06662",
)


def _results(name: str, of_seeds: list[SourceFile]) -> Source:
    folder = f"results_benchmark_{name}"
    return Source(folder, tuple(of_seeds), folder, f"{_FLAMBY}/results/{folder}/", _TCGA.package)


_PUBLISHED = {
    "fed_tcga_brca": _results(
        "fed_tcga_brca",
        [SourceFile(f"tcga_seed{42 + k}.csv", size, sha256) for k, (_, size, sha256) in enumerate(_TCGA_RESULTS)],
    ),
    "fed_heart_disease": _results(
        "fed_heart_disease",
        [
            SourceFile(f"heart_seed{42 + k}.csv", size, sha256)
            for k, ((size, _, _), sha256) in enumerate(zip(_TCGA_RESULTS, _HEART_RESULTS, strict=True))
        ],
    ),
}


def published(name: str, data_dir: Path | None = None) -> pd.DataFrame:
    """FLamby's own result files of one of its data sets: a row per method, seed and test set."""
    parts = [pd.read_csv(path) for path in fetch_files(_PUBLISHED[name], data_dir).values()]
    return pd.concat(parts, ignore_index=True)


def tcga(data_dir: Path | None = None) -> pd.DataFrame:
    """A row per patient, with ``fold`` (train, test) and ``site``, one of six regions."""
    files = fetch_files(_TCGA, data_dir)
    table = pd.read_csv(files["brca.csv"]).merge(pd.read_csv(files["train_test_split.csv"]), on="pid")
    return table.assign(site=table["fold2"].str.split("_").str[1]).drop(columns=["pid", "fold2"])


HEART_COLUMNS = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak")


def heart(data_dir: Path | None = None) -> pd.DataFrame:
    """As FLamby cuts it: ten columns, complete rows, its own split into training and test rows of each centre."""
    from sklearn.model_selection import train_test_split

    parts = []
    for name, path in fetch_files(_HEART, data_dir).items():
        frame = pd.read_csv(io.StringIO(path.read_text(encoding="utf-8")), header=None, na_values="?")
        frame = frame.drop(columns=[10, 11, 12]).dropna()
        ill = (frame[13] > 0).astype(int)
        counts = ill.value_counts()
        alike = ill if len(counts) > 1 and (counts > 2).all() else None
        places = np.arange(len(frame))
        _, test = train_test_split(places, train_size=0.66, test_size=0.34, random_state=43, stratify=alike)
        frame = frame.drop(columns=13).set_axis(list(HEART_COLUMNS), axis=1)
        fold = np.where(np.isin(places, test), "test", "train")
        parts.append(frame.assign(ill=np.where(ill, "yes", "no"), fold=fold, site=name.split(".")[1]))
    return pd.concat(parts, ignore_index=True)

"""The command: ``python -m experiments.wraparound``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.wraparound import __doc__ as about
from experiments.wraparound.cases import run
from experiments.wraparound.images import load_images
from experiments.wraparound.sharing import (
    ALPHA,
    DEVICES,
    N_FEATURES,
    Setting,
)
from experiments.wraparound.show import as_table, save


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="experiments.wraparound", description=(about or "").split("\n")[0])
    parser.add_argument(
        "--dataset", choices=("mnist", "synthetic"), help="default: MNIST if its files are here, else synthetic images"
    )
    parser.add_argument("--d", type=int, default=N_FEATURES, help="number of random features")
    parser.add_argument(
        "--alpha", type=int, default=ALPHA, choices=range(1, DEVICES + 1), metavar=f"1..{DEVICES}", help="of the code"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/wraparound"))
    options = parser.parse_args(argv)
    console, started = Console(), time.perf_counter()
    setting = Setting(n_features=options.d, alpha=options.alpha, seed=options.seed)
    report = run(*load_images(options.dataset, options.seed), setting)
    console.print(as_table(report))
    for path in save(report, options.out):
        console.print(f"wrote {path}")
    console.print(f"took {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()

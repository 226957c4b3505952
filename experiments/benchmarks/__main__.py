"""``make benchmarks``: every benchmark, printed, and written to docs/benchmarks.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from codedfl.files import write_text
from experiments.benchmarks.bias import DRAWS, share_ill
from experiments.benchmarks.bias import lines as bias_lines
from experiments.benchmarks.curves import ROWS, SITES, curves
from experiments.benchmarks.flamby import Rows, accuracy, survival
from experiments.benchmarks.seen import seen

PAGE = Path("docs/benchmarks.md")


def page(data_dir: Path | None) -> Iterator[str]:
    """Markdown, paragraph by paragraph."""
    yield "# Benchmarks of others"
    yield (
        "`make benchmarks` makes this page. Data and published results are fetched by who runs it (`--data-dir`, by"
        " SHA-256); intervals are of 95 %: over test rows drawn again for us, over five seeds for FLamby, so that the"
        " first also hold the chance of the test rows and are wider. Rehearsals by the real protocol, on one machine."
    )
    yield "## FLamby, Fed-TCGA-BRCA"
    yield from _rows(survival(data_dir))
    yield "## FLamby, Fed-Heart"
    yield from _rows(accuracy(data_dir))
    yield (
        "On both tables an exact fit is as good as the best of FLamby's tuned methods, within the intervals, and"
        " needs no tuning; it is not better than they are. FLamby's pooled training is of a model of the same form,"
        " by batches. FLamby's other data sets need deep networks on pictures, which are not here at all."
    )
    yield from _bias()
    yield from _curves()
    yield from _seen(data_dir)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(one)} |" for one in lines)


def _rows(found: Rows) -> Iterator[str]:
    yield _table(("", f"{found.measure} on the pooled test rows"), [(name, one.text()) for name, one in found.lines])
    yield from found.notes


def _bias() -> Iterator[str]:
    found = bias_lines()
    yield "## Bias of coefficients, after Li et al. 2024"
    yield (
        "[Li et al.](https://pmc.ncbi.nlm.nih.gov/articles/PMC11615161/) judge seven frameworks by the bias of logistic"
        " coefficients, and find that statistical ones are far less biased than those that average parameters. Their"
        f" data are not public; these are five unequal made-up sites with {100 * share_ill():.0f} % ill, {DRAWS} draws,"
        " five coefficients."
    )
    head = ("", "furthest from pooled rows, in standard errors", "mean error away from 0, against the truth")
    yield _table(head, [(one.name, f"{one.pooled:.1g}", f"{one.truth:+.3f} ± {one.reach:.3f}") for one in found])
    yield (
        "Sites that are combined by their variances lose most of what the small ones know; averaged parameters end"
        " near the truth here, half a standard error from the pooled estimate, and bring no standard errors. Other"
        " steps and rounds would move them."
    )


def _curves() -> Iterator[str]:
    found = curves()
    low, high = min(found.ratios), max(found.ratios)
    yield f"## Kaplan and Meier's curves at {SITES} sites"
    yield (
        "[Veeraragavan et al.](https://arxiv.org/abs/2412.20495) sum the counts under threshold CKKS: 8 to 19 times the"
        " time of the plain sums with up to 50 sites (first version), and 500 sites with 60,000 rows and no visible"
        " difference (second)."
    )
    head = ("", "threshold CKKS, as published", "codedfl, measured here")
    rows: list[tuple[str, ...]] = [
        ("sites, rows", "500, 60,000", f"{SITES}, {ROWS:,}"),
        (
            "furthest from the curve of pooled rows",
            "numerical precision",
            f"{found.difference:.0e}" if found.difference else "the same bits",
        ),
        (
            "processor time by that of the plain sums",
            "8 to 19 (to 50 sites)",
            f"{low:.0f} to {high:.0f} ({SITES} sites)",
        ),
        ("sent and received by a site", "ciphertexts, linear in times", f"{found.bytes_per_site / 1e3:.1f} kB"),
    ]
    yield _table(head, rows)
    yield (
        f"The whole study took {found.seconds:.0f} s of one processor for all parties, signatures and keys included,"
        f" where adding up {found.numbers} numbers of each site in the clear takes a fraction of a second: the ratio"
        " is of little meaning, theirs as well as ours, and on it we lose. Times of different machines cannot be"
        " compared. CKKS needs no second round trip and no disclosure groups; its committee must be trusted not to"
        " decrypt single sites."
    )


def _seen(data_dir: Path | None) -> Iterator[str]:
    found = seen(data_dir)
    yield "## What DataSHIELD's analyst sees"
    yield (
        f"A logistic model of Fed-Heart. `ds.glm` brings the analyst {found.numbers} numbers of every site in every"
        f" iteration. Our server gets as many, {found.iterations} times, each summed over all sites. What the first"
        " iteration alone tells of a site, worked out from the sums that it would send:"
    )
    head = ("site", "rows", "of them with the disease")
    yield _table(head, [(name, str(rows), str(ill)) for name, (rows, ill) in found.sites.items()])
    yield (
        "The first row of X'WX has the counts of every level of every category in the same way. DataSHIELD's sites"
        " check that no count is below a threshold and that a model has few columns by its rows; who runs a"
        " consortium in which the analyst may see sums of sites gets many more analyses from it, and needs no"
        " agreement on ranges."
    )


def main() -> None:
    """Print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="a folder with the files, in folders by data set")
    parser.add_argument("--out", type=Path, default=PAGE)
    arguments = parser.parse_args()
    parts = []
    for part in page(arguments.data_dir):
        print(part, end="\n\n", flush=True)
        parts.append(part)
    write_text(arguments.out, "\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()

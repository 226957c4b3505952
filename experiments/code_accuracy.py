"""How far gradient codes are from A B = 1 as the number of devices grows (paper II-B, eq. 1).

Two codes, the same survivor sets of D - alpha + 1 devices:

* Tandon's random real code, which the paper takes. Its B is rounded to the paper's datatype Q<48,24>, the least
  squares decoding vector is solved for that rounded B (what the devices really use), then rounded as well.
* The circulant code of ``codedfl_lab.code.gradient_code`` modulo the ring's primes, checked in integers.

The error of a draw is the largest entry of |a B - 1|: the share by which one device's gradient is counted too much or
too little. Coefficients that do not fit the datatype at all are counted as refused and have no error.
It does not look at padded data (``codedfl lab reproduce arithmetic``) nor at codes without cyclic supports.

    python -m experiments.code_accuracy --out results/code_accuracy
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from codedfl.errors import InvalidInput
from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.paper import PaperFixedPoint, TandonCode
from codedfl_lab.primes.ring import Ring

DEVICES = (5, 10, 15, 25, 40, 60, 80, 100, 120, 150, 200)
# 23/25 is the paper's best alpha on MNIST.
SHARES = (Fraction(23, 25), Fraction(1, 2), Fraction(1, 10))
CODES = 40
SURVIVOR_SETS = 10

# Okabe and Ito's palette, told apart with every kind of colour blindness.
RANDOM_COLOUR = "#D55E00"
EXACT_COLOUR = "#0072B2"
GREY = "#595959"
LABELLED_SIZES = (5, 10, 25, 60, 100, 200)  # of DEVICES: all would overlap
LABEL_ROOM = 4.0  # how far the axis goes on beyond the last D, for the labels of the curves


@dataclass(frozen=True)
class Accuracy:
    """|a B - 1| over ``draws`` pairs of a code and a survivor set; the error fields are None if all were refused.

    ``refused``: draws whose coefficients do not fit the paper's datatype.
    ``exact_wrong``: entries of a B of the circulant code that are not 1, over all draws and primes.
    """

    devices: int
    alpha: int
    share: str
    draws: int
    refused: int
    median: float | None
    percentile_95: float | None
    worst: float | None
    float64_worst: float
    exact_wrong: int


def alpha_for(devices: int, share: Fraction) -> int:
    """The whole part of share * D, at least 2: alpha = 1 is no code (B is the identity, exact in any arithmetic)."""
    return max(2, int(share * devices))


def random_survivors(devices: int, alpha: int, rng: np.random.Generator) -> list[int]:
    """Any D - alpha + 1 devices, the fewest that decode."""
    return sorted(rng.choice(devices, devices - alpha + 1, replace=False).tolist())


def wrong_entries(code: GradientCode, matrix: NDArray[np.int64], survivors: Sequence[int]) -> int:
    """How many entries of a B are not 1 modulo their prime. int64 is exact: D products below 2^48."""
    vectors = code.decoding_vector(survivors)
    return sum(
        int(np.count_nonzero(a @ B[list(survivors)] % p != 1))
        for a, B, p in zip(vectors, matrix, code.primes, strict=True)
    )


def measure(
    devices: int, share: Fraction, codes: int, survivor_sets: int, datatype: PaperFixedPoint, seed: int
) -> Accuracy:
    """``codes`` random codes, ``survivor_sets`` sets of survivors for each; the circulant code on all those sets."""
    alpha = alpha_for(devices, share)
    rng = np.random.default_rng([seed, devices, alpha])
    circulant = GradientCode(devices, alpha, Ring.for_group_sizes([devices]).primes)
    circulant_matrix = circulant.matrix()
    rounded_errors: list[float] = []
    float_errors: list[float] = []
    exact_wrong = 0
    for _ in range(codes):
        code = TandonCode(devices, alpha, rng)
        sets = [random_survivors(devices, alpha, rng) for _ in range(survivor_sets)]
        float_errors += [code.error(survivors) for survivors in sets]
        exact_wrong += sum(wrong_entries(circulant, circulant_matrix, survivors) for survivors in sets)
        rounded_errors += _rounded_errors(code, sets, datatype)
    return Accuracy(
        devices=devices,
        alpha=alpha,
        share=str(share),
        draws=codes * survivor_sets,
        refused=codes * survivor_sets - len(rounded_errors),
        median=float(np.median(rounded_errors)) if rounded_errors else None,
        percentile_95=float(np.percentile(rounded_errors, 95)) if rounded_errors else None,
        worst=max(rounded_errors, default=None),
        float64_worst=max(float_errors),
        exact_wrong=exact_wrong,
    )


def _rounded_errors(code: TandonCode, sets: Sequence[Sequence[int]], datatype: PaperFixedPoint) -> list[float]:
    """One error for each set that Q<k,f> can decode."""
    errors = []
    try:
        rounded = code.rounded(datatype)
    except InvalidInput:
        return []
    for survivors in sets:
        try:
            errors.append(rounded.error(survivors))
        except InvalidInput:
            continue
    return errors


def as_table(results: Sequence[Accuracy], datatype: PaperFixedPoint) -> Table:
    table = Table(
        title=f"largest |a B - 1| over {results[0].draws} random codes and survivor sets",
        caption=f"median, 95 %, worst: Tandon's random real code in Q<{datatype.k},{datatype.f}>\n"
        "refused: draws with a coefficient that does not fit that datatype\n"
        "float64: worst of the random code when nothing is rounded",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),  # nine columns within 80 characters
    )
    for name in ("D", "alpha", "alpha/D", "refused", "median", "95 %", "worst", "float64", "circulant"):
        table.add_column(name, justify="right", no_wrap=True)
    for i, one in enumerate(results):
        table.add_row(
            str(one.devices),
            str(one.alpha),
            one.share,
            str(one.refused),
            _scientific(one.median),
            _scientific(one.percentile_95),
            _scientific(one.worst),
            _scientific(one.float64_worst),
            "0" if one.exact_wrong == 0 else f"{one.exact_wrong} wrong",
            end_section=i + 1 < len(results) and results[i + 1].share != one.share,
        )
    return table


def _scientific(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def draw(results: Sequence[Accuracy], datatype: PaperFixedPoint) -> Figure:
    """One column of panels per share: a log axis for the random code, below it a strip for the exact one.

    A log axis has no zero, so a curve on it could only pretend; the strip's axis holds the number 0 and no other.
    """
    shares = list(dict.fromkeys(one.share for one in results))
    figure = Figure(figsize=(3.8 * len(shares) + 0.6, 5.4), layout="constrained")
    grid = figure.subplots(
        2, len(shares), sharex=True, sharey="row", squeeze=False, gridspec_kw={"height_ratios": [8, 1]}
    )
    for column, share in enumerate(shares):
        group = [one for one in results if one.share == share]
        upper, lower = grid[:, column]
        _draw_random(upper, group, datatype)
        _draw_exact(lower, group)
        upper.set_title(f"\u03b1 = {share} D", loc="left", fontsize=11)
        lower.set_xlabel("number of devices D", loc="left")
    grid[0, 0].set_ylabel("largest entry of |a B \u2212 1|")
    _caption(grid[0, 0], f"random real code in Q\u27e8{datatype.k},{datatype.f}\u27e9", RANDOM_COLOUR)
    _caption(grid[1, 0], "circulant code modulo primes", EXACT_COLOUR)
    # A power of ten below the resolution, so that its label has a place of its own.
    grid[0, 0].set_ylim(bottom=2.0**-datatype.f / 10)
    figure.suptitle(
        f"How far gradient codes are from A B = 1, over {results[0].draws} draws of a code and a set of survivors",
        x=0.005,
        ha="left",
        fontsize=12,
    )
    return figure


def _draw_random(axes: Axes, group: Sequence[Accuracy], datatype: PaperFixedPoint) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    # Sizes at which every draw was refused have no error and stay empty (nan).
    sizes = [one.devices for one in group]
    median, upper, worst = (
        np.array([getattr(one, name) for one in group], dtype=np.float64)
        for name in ("median", "percentile_95", "worst")
    )
    axes.fill_between(sizes, median, upper, color=RANDOM_COLOUR, alpha=0.15, linewidth=0)
    axes.plot(sizes, median, color=RANDOM_COLOUR, linewidth=2, marker="o", markersize=4)
    axes.plot(sizes, upper, color=RANDOM_COLOUR, linewidth=1)
    # The worst draw is a matter of luck: points without a line, which would suggest a trend.
    axes.plot(sizes, worst, color=RANDOM_COLOUR, linestyle="none", marker="o", markersize=4, fillstyle="none")
    for name, values in (("median", median), ("95 %", upper), ("worst", worst)):
        if np.isfinite(values[-1]):
            _label(axes, f"{name} {values[-1]:.0e}", sizes[-1], float(values[-1]))
    unit = 2.0**-datatype.f
    axes.axhline(unit, color=GREY, linewidth=1, linestyle=":")
    axes.annotate(
        f"resolution of the datatype, 2$^{{-{datatype.f}}}$",
        (sizes[0], unit),
        xytext=(0, -5),
        textcoords="offset points",
        va="top",
        color=GREY,
        fontsize=9,
    )
    axes.yaxis.set_major_locator(LogLocator(10.0, numticks=20))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_exact(axes: Axes, group: Sequence[Accuracy]) -> None:
    """Only where the circulant code was measured to be exact; anything else does not belong at 0."""
    exact = [one.devices for one in group if one.exact_wrong == 0]
    axes.plot(exact, [0] * len(exact), color=EXACT_COLOUR, linewidth=2, marker="o", markersize=4)
    if exact:
        _label(axes, "exactly 0", exact[-1], 0.0, EXACT_COLOUR)
    axes.set_ylim(-1, 2)
    axes.yaxis.set_major_locator(FixedLocator([0]))
    axes.yaxis.set_major_formatter(FixedFormatter(["0"]))
    sizes = [one.devices for one in group]
    axes.set_xlim(sizes[0] / 1.15, sizes[-1] * LABEL_ROOM)
    labelled = [size for size in sizes if size in LABELLED_SIZES or size not in DEVICES]
    axes.xaxis.set_major_locator(FixedLocator(labelled))
    axes.xaxis.set_major_formatter(FixedFormatter([str(size) for size in labelled]))
    axes.xaxis.set_minor_locator(FixedLocator([size for size in sizes if size not in labelled]))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)


def _caption(axes: Axes, text: str, colour: str) -> None:
    axes.annotate(
        text,
        (0, 1),
        xycoords="axes fraction",
        xytext=(7, -3),
        textcoords="offset points",
        va="top",
        color=colour,
        fontsize=10,
        fontweight="bold",
    )


def _label(axes: Axes, text: str, x: float, y: float, colour: str = RANDOM_COLOUR) -> None:
    """To the right of a curve's last point."""
    axes.annotate(text, (x, y), xytext=(7, 0), textcoords="offset points", va="center", color=colour, fontsize=9)


def run(devices: Sequence[int], codes: int, survivor_sets: int, datatype: PaperFixedPoint, seed: int) -> list[Accuracy]:
    """Every share of SHARES for every D, grouped by share."""
    cases = [(size, share) for share in SHARES for size in devices]
    return [
        measure(size, share, codes, survivor_sets, datatype, seed)
        for size, share in track(cases, description="codes", transient=True)
    ]


def save(results: Sequence[Accuracy], datatype: PaperFixedPoint, seed: int, out: Path) -> list[Path]:
    """JSON with everything measured, the figure as PNG and SVG."""
    out.mkdir(parents=True, exist_ok=True)
    written = [out / f"code_accuracy.{ending}" for ending in ("json", "png", "svg")]
    record = {"k": datatype.k, "f": datatype.f, "seed": seed, "results": [asdict(one) for one in results]}
    written[0].write_text(json.dumps(record, indent=1) + "\n")
    figure = draw(results, datatype)
    figure.savefig(written[1], dpi=160)
    figure.savefig(written[2])
    return written


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="experiments.code_accuracy", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=DEVICES, metavar="D")
    parser.add_argument("--codes", type=int, default=CODES, help="random codes per D and alpha")
    parser.add_argument("--survivor-sets", type=int, default=SURVIVOR_SETS, help="survivor sets per code")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/code_accuracy"))
    options = parser.parse_args(argv)
    if min(options.codes, options.survivor_sets) < 1:
        parser.error(f"--codes and --survivor-sets must be at least 1, got {options.codes}, {options.survivor_sets}")
    console, datatype, started = Console(), PaperFixedPoint(), time.perf_counter()
    results = run(sorted(options.devices), options.codes, options.survivor_sets, datatype, options.seed)
    console.print(as_table(results, datatype))
    for path in save(results, datatype, options.seed, options.out):
        console.print(f"wrote {path}")
    console.print(f"took {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()

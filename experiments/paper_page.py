"""docs/paper.md and README's table: from each equation of the paper to its code, and to what shows it.

``python -m experiments.paper_page`` writes both, a test makes them again and compares. The rows are made of docstrings:
the function that implements something of the paper has a line such as

    Paper: IV-B, eq. 6, eq. 7. Shown by ``pytest tests/coded/test_coded_sums.py -k plain_integers``.

``--against paper.tex`` holds the list of places below against the source of the paper (arXiv 2109.15226 has it).
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from codedfl.solve.descent import STEP_LITERAL, STEP_PAPER
from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.comparing import paper
from codedfl_lab.paper import PaperFixedPoint, TandonCode
from codedfl_lab.primes.ring import Ring
from codedfl_lab.reproduce.arithmetic import TINY, try_everything

ROOT = Path(__file__).resolve().parents[1]
PAGE, README, REPRODUCE = ROOT / "docs" / "paper.md", ROOT / "README.md", ROOT / "docs" / "reproduce.md"
SOURCES = ("src/codedfl", "lab/src/codedfl_lab")
MARK = re.compile(r"Paper: (?P<places>[^`]+)\. Shown by ``(?P<shown>[^`]+)``\.")
CODES, SETS = 40, 200  # of the random code, and survivor sets of each


@dataclass(frozen=True)
class Place:
    """A section, equation, proposition or figure of the paper, and its label in the source where it has one."""

    name: str
    says: str
    label: str = ""


PLACES = (
    Place("II-A", r"Fixed-point numbers $Q\langle k,f\rangle$", "sec:Fixed-Point Numbers"),
    Place("II-B", "Cyclic gradient codes"),
    Place("eq. 1", r"$AB = 1$: any $D - \alpha + 1$ rows of $B$ combine to the sum", "Eq: GradientCodeCondition"),
    Place("III", "System model: the rows $X$, $Y$ of all devices, one below the other"),
    Place("III-A", "Federated gradient descent"),
    Place("eq. 2", "The problem: least squares with a ridge", "Eq: OptimisationProblem"),
    Place("eq. 3", r"A device's gradient, $X^\top X \Theta - X^\top Y$", "Eq: DeviceComputation"),
    Place("eq. 4", "The server adds gradients up", "Eq: ServerAggregation"),
    Place("eq. 5", "and takes a step", "Eq: ServerUpdate"),
    Place("III-B", "Latency: computing, links that fail, messages relayed by the server"),
    Place("IV-A", "Adding and multiplying under a pad"),
    Place("Proposition 1", "Perfect privacy: a padded number is uniform", "Th: Perfect Privacy"),
    Place("Proposition 2", "Retrieval: $cx$ from $c(x + r)$ and $r$"),
    Place("IV-B", "Phase 1, sharing: who is sent whose padded data"),
    Place("eq. 6", r"$\Psi$, the padded first gradient", "Eq: PaddedData2"),
    Place("eq. 7", r"$\Phi$, the padded $X^\top X$", "eq:phi"),
    Place("eq. 8", r"$C$, what a device adds up of $\Psi$", "eq:C"),
    Place("eq. 9", r"$\bar C$, what it adds up of $\Phi$", "eq:Cbar"),
    Place("IV-C", "Phase 2, coded gradient descent", "Sec: CodedFederatedBatchGradient"),
    Place("IV-C (a) to (c)", r"An answer, $C + \bar C e$: of products added up once, without a row of data"),
    Place("eq. 10", "$e$, how far the model is from its start: all that is sent", "eq:theta"),
    Place("eq. 11", "Decoding: keys off, then $A$", "Eq: CodedFL_UpdateRule"),
    Place("Proposition 3", r"$\alpha - 1$ stragglers cost nothing, and the optimum is reached", "prop:Prop"),
    Place("V", "The experiment: data, features, devices, baselines, claims"),
    Place("Figure 1a", "Time against accuracy, MNIST", "Fig: TrainingTimeVSaccuracy_nu0.1"),
    Place("Figure 1b", "Time against accuracy, Fashion-MNIST", "Fig: FMNIST_TrainingTimeVSaccuracy_nu0.1"),
)
NAMES = tuple(place.name for place in PLACES)

# The rows of README: a place, and the function that is the best door to it.
DOORS = (
    ("fixed-point numbers under a pad, II-A and IV-A", "PaperFixedPoint"),
    ("cyclic gradient codes, II-B", "GradientCode"),
    ("latency, III-B", "FleetLatency.compute_times"),
    ("sharing padded data, IV-B", "Padded.upload"),
    ("coded descent, IV-C", "CodedSession.product"),
    ("exact whoever straggles, Proposition 3", "CentralTotals.train"),
    ("figures and claims, V", "reproduce"),
)


@dataclass(frozen=True)
class Mark:
    """What a docstring says: which places a function implements, and what shows it."""

    file: str
    function: str
    places: tuple[str, ...]
    shown: str

    @property
    def link(self) -> str:
        """Into the repository, as the site and a checkout both read it."""
        short = self.file.removeprefix("lab/").removeprefix("src/")
        return f"`{self.function}` in `{short}`"


def marks() -> list[Mark]:
    """All of them, in the order of files."""
    found = []
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "Paper: " in text:
                found += list(_marks_of(str(path.relative_to(ROOT)), ast.parse(text)))
    return found


def _marks_of(file: str, node: ast.AST, inside: str = "") -> Iterator[Mark]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef | ast.FunctionDef):
            name = f"{inside}{one.name}"
            for mark in MARK.finditer(" ".join((ast.get_docstring(one) or "").split())):
                yield Mark(file, name, tuple(mark["places"].split(", ")), mark["shown"])
            yield from _marks_of(file, one, f"{name}.")


def table(found: Sequence[Mark]) -> list[str]:
    """Every place, in the paper's order, with all that implements it."""
    lines = ["| paper | what it says | file and function | shown by |", "|---|---|---|---|"]
    for place in PLACES:
        for number, mark in enumerate(mark for mark in found if place.name in mark.places):
            first = (f"**{place.name}**", place.says) if number == 0 else ("", "")
            lines.append(f"| {first[0]} | {first[1]} | {mark.link} | `{mark.shown}` |")
    return lines


def readme_table(found: Sequence[Mark]) -> list[str]:
    """A row per section."""
    by_function = {mark.function: mark for mark in found}
    rows = ((text, by_function[function]) for text, function in DOORS)
    return [
        "| paper | code | shown by |",
        "|---|---|---|",
        *(f"| {text} | [`{mark.function}`]({mark.file}) | `{mark.shown}` |" for text, mark in rows),
    ]


def errata() -> list[str]:
    """What the paper has wrong and how it is mended here, in four sentences; every number is computed or read now."""
    tiny = try_everything(TINY)
    code_error = _code_error()
    code = GradientCode(paper.DEVICES, 6, Ring.for_group_sizes([paper.DEVICES]).primes)
    sent = [(i, j) for i in range(code.n_devices) for j in code.row_support(i) if j != i]
    useful = sum(j in code.column_support(i) for i, j in sent)
    literal, used = _headline("literal"), _headline("paper")
    experiment = paper.EXPERIMENTS["mnist"]
    return [
        "**The product.** It is truncated under the pad, which fails as soon as a padded number wraps around:"
        f" Proposition 2 is wrong for {100 * tiny.failed / tiny.triples:.0f} % of all factors, secrets and keys of"
        f" Q<{tiny.k},{tiny.f}>, and at the paper's own size it breaks the training"
        " ([what was found](reproduce.md#what-was-found)); here numbers are whole, nothing is truncated before the pads"
        " are off, and every sum is exact (`codedfl lab reproduce arithmetic`).",
        "**The code.** Random real coefficients rounded to 24 bits have A B = 1 only nearly, with errors of up to"
        f" {code_error:.0e} of a device's gradient at D = {paper.DEVICES} and alpha = {paper.BEST_ALPHA}"
        f" ({CODES} codes, {SETS} survivor sets each); here the code is made of roots of unity modulo primes, and its"
        " error is 0 (`python -m experiments.code_accuracy`).",
        "**Who is sent what.** Section IV-B sends along the support of row i of B, but those who need device i's data"
        f" are in column i: with alpha = {code.alpha}, {len(sent) - useful} of {len(sent)} messages would go to devices"
        " that have no use for them, and here they go along the column (`pytest tests/code/test_gradient_code.py -k"
        " cyclic_supports`).",
        f"**The step.** With the step of {STEP_LITERAL.initial:g} in the text MNIST comes out {literal} times faster,"
        f" with {STEP_PAPER.initial:g}, which fits the figures, {used} (the paper: {experiment.speedup:g}); both are"
        " computed, and every report says which it shows (`codedfl lab reproduce mnist`).",
    ]


def _code_error() -> float:
    """The largest |a B - 1| of random codes rounded to the paper's datatype."""
    worst, rng = 0.0, np.random.default_rng(0)
    needed = paper.DEVICES - paper.BEST_ALPHA + 1
    sets = list(combinations(range(paper.DEVICES), needed))
    for _ in range(CODES):
        code = TandonCode(paper.DEVICES, paper.BEST_ALPHA, rng).rounded(PaperFixedPoint())
        worst = max(worst, *(code.error(sets[i]) for i in rng.integers(len(sets), size=SETS)))
    return worst


def _headline(step: str) -> str:
    """The speed-up by the authors' sharing, as docs/reproduce.md has it from a run."""
    found = re.search(rf"^\| MNIST \| authors \| {step} \| ([0-9.]+) ", REPRODUCE.read_text("utf-8"), re.MULTILINE)
    assert found is not None, "docs/reproduce.md must have the headline under this step"
    return found[1]


def page() -> str:
    """The whole page."""
    found = marks()
    lines = [
        "---",
        "hide: [toc]",
        "---",
        "",
        "# From the paper to the code",
        "",
        "*Coding for Straggler Mitigation in Federated Learning* (Kumar, Schlegel, Rosnes, Graell i Amat,"
        " [arXiv:2109.15226](https://arxiv.org/abs/2109.15226)): each section, equation, proposition and figure, the"
        " function that implements it, and a command or test that shows it. `codedfl_lab.paper` has the paper's own"
        " arithmetic to the letter; the rest is the scheme as it runs, in exact integers. `make run` runs it once;"
        " [Reproduce the paper](reproduce.md) has its figures.",
        "",
        "## What the paper has wrong, and how it is mended",
        "",
        *(f"{number}. {sentence}" for number, sentence in enumerate(errata(), start=1)),
        "",
        "## Place by place",
        "",
        *table(found),
        "",
        "Files are in `src/` and `lab/src/`. Commands run in a checkout with `.venv/bin` in the path. The table is made"
        " of the functions' docstrings by `python -m experiments.paper_page`.",
        "",
    ]
    return "\n".join(lines)


def readme_with_table(text: str) -> str:
    """README with its table of this kind made again."""
    head, heading, rest = text.partition("## From the paper to the code\n\n")
    rows, blank, tail = rest.partition("\n\n")
    assert heading and rows.startswith("| paper |"), "README.md must have the heading and a table below it"
    return head + heading + "\n".join(readme_table(marks())) + blank + tail


def labels_of(tex: str) -> set[str]:
    """Every label in the source of the paper."""
    return set(re.findall(r"\\label\{([^}]+)\}", re.sub(r"(?<!\\)%.*", "", tex)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, metavar="paper.tex", help="compare the labels, write nothing")
    against = parser.parse_args(arguments).against
    if against is not None:
        ours, theirs = {place.label for place in PLACES if place.label}, labels_of(against.read_text("utf-8"))
        for name, labels in (("not in the list", theirs - ours), ("not in the paper", ours - theirs)):
            print(f"{name}: {', '.join(sorted(labels)) or 'none'}")
        return int(ours != theirs)
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme_with_table(README.read_text("utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A table of a paper, as CSV, HTML and LaTeX: the same cells, each format with its own escapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from codedfl.files import harmless

HEADING, INNER = "heading", "inner"  # a row that names those below it, and one of these
_LATEX = {
    "\\": r"\textbackslash{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "²": "\\textsuperscript{2}",
    "χ": r"$\chi$",
}
_MINUS = "\u2212"
_NUMBER = re.compile(r"-[\d.,]+(e-?\d+)?( ?%)?( [(\[][-\d.,e%to ]*[)\]])?")  # with an interval, as a cell has it
_NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")


@dataclass(frozen=True)
class TableRow:
    """Cells, the first of which names the row; ``kind`` is "", HEADING or INNER."""

    cells: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True)
class Table:
    r"""A table with a title, heads of its columns, and notes below it.

    name: of its files.

    >>> table = Table("effects", "Effects", ("", "odds ratio"), (TableRow(("age & sex", "-1.5")),), ("n = 50",))
    >>> print(table.csv(), end="")
    "","odds ratio"
    "age & sex","-1.5"
    >>> print(table.latex().splitlines()[7])
    age \& sex & $-$1.5 \\
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    def files(self) -> dict[str, str]:
        """All formats, by the names of their files."""
        page = f'<!doctype html>\n<meta charset="utf-8">\n<title>{escape(self.title)}</title>\n{self.html()}\n'
        return {f"{self.name}.csv": self.csv(), f"{self.name}.html": page, f"{self.name}.tex": self.latex()}

    def csv(self) -> str:
        """Every cell is a text, so that no program reads "1.10 (0.95 to 1.27)" as something else."""
        return csv_text(self.head, (row.cells for row in self.rows), plain=True)

    def html(self, *, caption: bool = True) -> str:
        """A ``table`` with its caption; the page's style says how it looks, and without one it can be read as well."""
        head = "".join(f'<th scope="col">{escape(one)}</th>' for one in self.head)
        body = "".join(self._html(row) for row in self.rows)
        said = f"<caption>{escape(self.title)}</caption>" if caption else ""
        foot = f'<tfoot><tr><td colspan="{len(self.head)}">{escape(" ".join(self.notes))}</td></tr></tfoot>'
        return f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot if self.notes else ''}</table>"

    def _html(self, row: TableRow) -> str:
        name, *cells = row.cells
        cells += [""] * (len(self.head) - 1 - len(cells))
        indent = "&nbsp;&nbsp;" if row.kind == INNER else ""
        shown = "".join(
            f'<td data-name="{escape(head)}">{_NEGATIVE.sub(_MINUS, escape(one))}</td>'
            for head, one in zip(self.head[1:], cells, strict=True)
        )
        kind = f' class="{row.kind}"' if row.kind else ""
        return f'<tr{kind}><th scope="row">{indent}{escape(name)}</th>{shown}</tr>'

    def latex(self) -> str:
        """A ``table`` environment with the rules of booktabs."""
        lines = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            f"\\caption{{{latex_text(self.title)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}",
            "\\toprule",
            f"{' & '.join(map(latex_text, self.head))} \\\\",
            "\\midrule",
        ]
        for row in self.rows:
            name, *cells = row.cells
            cells += [""] * (len(self.head) - 1 - len(cells))
            shown = [_NEGATIVE.sub("$-$", latex_text(one)) for one in cells]
            indent = "\\quad " * (row.kind == INNER)
            lines.append(f"{' & '.join([indent + latex_text(name), *shown])} \\\\")
        notes = [f"\\par\\footnotesize {latex_text(' '.join(self.notes))}"] if self.notes else []
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", *notes, "\\end{table}", ""])


def latex_text(text: str) -> str:
    r"""A text with what LaTeX would take for commands written out.

    >>> print(latex_text("5 % of <b> & c_1"))
    5 \% of \textless{}b\textgreater{} \& c\_1
    """
    return "".join(_LATEX.get(one, one) for one in text)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[str | float | None]], *, plain: bool = False) -> str:
    """Lines as R and spreadsheets read them: texts in quotes, numbers in full, nothing for None.

    plain: leave a minus alone, as in a table whose cells all are texts.
    """
    return "".join(",".join(_cell(one, plain) for one in row) + "\n" for row in (head, *rows))


def _cell(value: str | float | None, plain: bool) -> str:
    """A text that a spreadsheet would take for a formula has an apostrophe before it."""
    if not isinstance(value, str):
        return "" if value is None else repr(float(value))
    text = harmless(value)
    if plain and _NUMBER.fullmatch(value):
        text = text.removeprefix("'")
    return '"' + text.replace('"', '""') + '"'

"""Hooks of the documentation site (mkdocs.yml): pages made of the repository's documents and of notebooks.

``make docs`` builds it, offline, and takes warnings for errors: a link that leads nowhere, a notebook that fails.
"""

from __future__ import annotations

import base64
import html
import re
import time
from pathlib import Path
from typing import Any

import nbformat
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 120.0  # for one notebook
# The repository's documents, where the site has them, and the links in them that lead elsewhere there.
DOCUMENTS = {"THREAT_MODEL.md": "threat-model.md", "DESIGN.md": "design.md", "CHANGELOG.md": "changelog.md"}
_ELSEWHERE = {
    **DOCUMENTS,
    "docs/deploy.md": "deploy.md",
    "docs/deploy-flower.md": "deploy-flower.md",
    "docs/extend.md": "extend.md",
    "README.md": "index.md",
}
# What pymdownx.arithmatex leaves of a formula.
_FORMULA = re.compile(
    r'<span class="arithmatex">\\\((?P<inline>.*?)\\\)</span>'
    r'|<div class="arithmatex">\s*\\\[(?P<block>.*?)\\\]\s*</div>',
    re.DOTALL,
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not written by hand."""
    made: dict[str, str | bytes] = {}
    for name, place in DOCUMENTS.items():
        made[place] = _relinked((ROOT / name).read_text(encoding="utf-8"))
    for script in sorted((ROOT / "docs" / "notebooks").glob("*.py")):
        made |= _notebook(script)
        files.remove(files.get_file_from_path(f"notebooks/{script.name}") or _missing(script))
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_content(content: str, **_page: Any) -> str:
    """Typeset mathematics, ``$...$`` and ``$$...$$``, as MathML: browsers draw it themselves, without a script."""
    return _FORMULA.sub(_typeset, content)


def _typeset(found: re.Match[str]) -> str:
    inside = found["inline"] if found["inline"] is not None else found["block"]
    return str(convert(html.unescape(inside), display="inline" if found["inline"] is not None else "block"))


def _missing(script: Path) -> File:
    raise FileNotFoundError(script)


def _relinked(text: str) -> str:
    def link(found: re.Match[str]) -> str:
        return f"]({_ELSEWHERE.get(found[1], found[1])})"

    return re.sub(r"\]\(([\w./-]+)\)", link, text)


def notebook_of(script: str) -> Any:
    """A notebook, without outputs, of a script with ``# %%`` between its cells."""
    cells = []
    for part in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            text = re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)
            cells.append(nbformat.v4.new_markdown_cell(text))
        else:
            cells.append(nbformat.v4.new_code_cell(body.strip()))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # the same in every build
    return nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def _notebook(script: Path) -> dict[str, str | bytes]:
    """The notebook itself, and a page of it with what it puts out when it is run."""
    notebook = notebook_of(script.read_text(encoding="utf-8"))
    made: dict[str, str | bytes] = {f"notebooks/{script.stem}.ipynb": nbformat.writes(notebook)}
    began = time.perf_counter()
    # By files of this user, not by a port that others on this machine could listen to.
    sockets = Config({"KernelManager": {"transport": "ipc"}})
    here = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=MOST_SECONDS, resources=here, config=sockets).execute()
    took = time.perf_counter() - began
    if took > MOST_SECONDS:
        raise TimeoutError(f"a notebook must run within {MOST_SECONDS:g} s, {script.name} took {took:.0f} s")
    lines = ["---", "hide: [toc]", "---", ""]  # its room is for the code
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            lines += [cell.source, ""]
            continue
        lines += ["```py", cell.source, "```", ""]
        for place, output in enumerate(cell.outputs):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{script.stem}-{number}-{place}.png"
                made[f"notebooks/{picture}"] = base64.b64decode(data["image/png"])
                lines += [f"![What the cell above draws]({picture})", ""]
            elif output.output_type == "stream" or "text/plain" in data:
                lines += ["```", (output.get("text") or data["text/plain"]).rstrip(), "```", ""]
    lines += [f"[Take the notebook along]({script.stem}.ipynb). It ran in {took:.0f} s when this page was made."]
    made[f"notebooks/{script.stem}.md"] = "\n".join(lines)
    return made

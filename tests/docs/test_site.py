"""The site's pages before a browser sees them: words, lengths of sentences, signatures, formulas, drawings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiments.docs_blocks import PAGES, ROOT, page_text
from experiments.docs_outputs import STEP_BY_STEP
from experiments.docs_reference import pages

from experiments import docs_api, docs_pictures
from wording import PRIVATE, private_words

DOCS = ROOT / "docs"
DRAWINGS = sorted(path for path in (DOCS / "drawings").glob("*.svg") if not path.stem.endswith("-narrow"))
MOST_WORDS = 20  # per sentence, on average
TO_LEARN = sorted({*STEP_BY_STEP, "index.md", "install.md", "faq.md", "fit.md", "pretrained.md", "r-users.md"})
# Words that the code has as keys and names, and pages do not.
OF_KEYS = {
    r"pods?": "disclosure group", r"helpers?": "key-only participant", r"totals": "sums", r"editions?": "version",
    r"deviations?(?<!standard deviation)(?<!standard deviations)": "SD",
}  # fmt: skip
# Made of the code, or about it: they name keys and functions as these are called.
OF_THE_CODE = {"protocol.md", "paper.md", "methods.md", "reproduce.md", "pretrained.md"}


def prose(text: str) -> str:
    """What is neither code nor table, heading, picture or formula."""
    for gone in (r"\A---\n.*?^---\n", r"<!--.*?-->", r"^```.*?^```$", r"^\$\$.*?^\$\$$", r"\]\([^)]*\)", r"`[^`]*`"):
        text = re.sub(gone, "]" if gone.startswith(r"\]") else "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "![", "<"))]
    return "\n".join(re.sub(r"^\s*(?:[-:] +|\d+\. +)", "\n", line) for line in lines)


def sentences(text: str) -> list[list[str]]:
    """Of a page's prose, as words."""
    without_tables = "\n".join(line for line in prose(text).splitlines() if not line.lstrip().startswith("|"))
    found = [part.split() for part in re.split(r"[.:?!](?=\s)|\n\s*\n", without_tables)]
    return [words for words in found if len(words) > 2]


@pytest.mark.parametrize("page", TO_LEARN)
def test_sentences_are_short(page: str):
    found = sentences(page_text(page))
    assert sum(map(len, found)) / len(found) <= MOST_WORDS


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OF_THE_CODE])
def test_a_page_has_the_words_of_the_field(page: str):
    assert private_words(prose(page_text(page)), {**PRIVATE, **OF_KEYS}) == {}


def test_signatures_fit_a_narrow_screen():
    made = {name: text for name, text in pages().items() if name.startswith(docs_api.FOLDER)}
    assert len(made) > 15
    for name, text in made.items():
        blocks = re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        long = [line for block in blocks for line in block.splitlines() if len(line) > docs_api.MOST_COLUMNS]
        assert long == [], name
        assert " at 0x" not in text and "<factory>" not in text, name


def test_every_public_name_has_its_place():
    index = pages()[f"{docs_api.FOLDER}/index.md"]
    for folder, things in docs_api.homes():
        assert [name for name in things if f"[`{name}`]({docs_api.page_of(folder)}#{name.lower()})" not in index] == []
        assert f"{docs_api.FOLDER}/{docs_api.page_of(folder)}" in (ROOT / "mkdocs.yml").read_text()


def test_formulas_become_mathml():
    docs_site = pytest.importorskip("experiments.docs_site", reason="make docs installs what builds the site")
    made = docs_site.on_page_content(
        r'<p><span class="arithmatex">\(x^2 &lt; 3\)</span></p><div class="arithmatex">\[ \sum_i x_i \]</div>'
    )
    assert made.count("<math") == 2 and "<msup>" in made and "&#x0003C;" in made
    assert 'display="block"' in made and "arithmatex" not in made


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_has_one_for_phones_that_says_the_same(path: Path):
    narrow = path.with_name(f"{path.stem}-narrow.svg")
    said = re.compile(r'<(title|desc) id="\w">(.*?)</\1>')
    assert said.findall(narrow.read_text()) == said.findall(path.read_text())
    width = int(re.search(r'viewBox="0 0 (\d+) ', narrow.read_text())[1])
    assert width <= 360 and f"drawings/{narrow.name}" in (DOCS / "site.css").read_text()


def test_pictures_are_small_and_made_by_the_command():
    kept = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}
    assert kept.keys() == {one.name for one in docs_pictures.PICTURES}
    assert max(kept.values()) <= docs_pictures.MOST_BYTES


def test_messages_that_are_explained_are_those_of_the_program():
    text = page_text("troubleshooting.md")
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    quoted = [found for cell in cells if (found := re.match(r"`([^`]+)`", cell)[1]).count(" ") > 1]
    source = " ".join(
        re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in (ROOT / "src").rglob("*.py")
    )
    assert len(quoted) > 8
    assert [one for one in quoted if one not in source and not one.startswith(("No module", "codedfl "))] == []

"""The field's words, not private ones: in docstrings, comments and messages of the sources, and in the documents."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from wording import private_words

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("src", "lab/src") for path in (ROOT / folder).rglob("*.py"))
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md", "SECURITY.md", "THREAT_MODEL.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(path for folder in ("src", "lab/src") for path in (ROOT / folder).rglob("*.toml")),
]
# On record: the event in kept logs, and the text in hashes of rows that were approved.
ON_RECORD = {
    "src/codedfl/data/columns/number.py": r'f"gap[^"]*"',
    "docs/reference/event_log.md": r"^## liar$",
}
TEXTS = {"STRING", "COMMENT", "FSTRING_MIDDLE"}
NAME = re.compile(r"^\"\w+\"$|^ +\w+:(?= )|^ *>>>.*$|``[^`]*``|`[^`]*`|tests/\w+|\{[^{}]*\}", re.MULTILINE)


def prose(path: Path) -> str:
    """Comments and texts of a source, or a document, without the names, code and examples in it."""
    texts = path.read_text(encoding="utf-8")
    for name, kept in ON_RECORD.items():
        texts = re.sub(kept, '""', texts, flags=re.MULTILINE) if path == ROOT / name else texts
    if path.suffix == ".py":
        found = tokenize.generate_tokens(io.StringIO(texts).readline)
        texts = "\n".join(one.string for one in found if tokenize.tok_name[one.type] in TEXTS)
    return NAME.sub(" ", texts)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_has_the_words_of_the_field(path: Path):
    assert private_words(prose(path)) == {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_has_the_words_of_the_field(path: Path):
    assert private_words(prose(path)) == {}


def test_a_private_word_is_found(tmp_path: Path):
    source = tmp_path / "made_up.py"
    source.write_text('gaps = 1  # begun anew\n\n\ndef f():\n    """Told of ``gaps``."""\n    return f"{gaps} gaps"\n')
    assert private_words(prose(source)).keys() == {"anew", "told", "gaps?"}

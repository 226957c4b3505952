"""docs/protocol.md is what the specification makes, and names every message that the package has."""

from __future__ import annotations

from codedfl.protocol.messages import Kind
from experiments import docs_protocol


def test_the_page_is_what_the_specification_makes() -> None:
    assert docs_protocol.PAGE.read_text(encoding="utf-8") == docs_protocol.page()


def test_every_message_is_on_it() -> None:
    page = docs_protocol.page()
    assert not [kind for kind in Kind if f"`{kind}`" not in page]

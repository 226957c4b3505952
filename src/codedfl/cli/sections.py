"""Answers to a reader's questions about a study, as ``codedfl study show`` and ``codedfl site approve`` print them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codedfl.cli.screen import Screen

if TYPE_CHECKING:
    from codedfl.contract.words import Section


def show_sections(screen: Screen, sections: tuple[Section, ...]) -> None:
    """Question by question."""
    for section in sections:
        screen.say()
        screen.say(section.question)
        for answer in section.answers:
            screen.item(answer)

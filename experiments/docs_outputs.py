"""Run the blocks of pages and write what they put out below them: ``python -m experiments.docs_outputs PAGE ...``.

Without a page all of ``STEP_BY_STEP`` are run, each in an empty folder, top to bottom. An output that agrees with the
one that is there, but for what differs from run to run, is left as it is: so a second call changes nothing. A page with
a new output is run twice: numbers that differ then depend on keys, and are marked as those of one run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from codedfl.files import write_text
from experiments.docs_blocks import OF_ONE_RUN, OUTPUT, ROOT, a_reader, comparable, page_text, shortened, with_outputs

STEP_BY_STEP = (
    "ten-minutes.md",
    "ten-hospitals.md",
    "publish.md",
    "deploy-one-machine.md",
    "cookbook.md",
    "how-it-works.md",
)
"""Pages on which every shell block that is run has its output below it."""


def run_page(text: str, *, mark: bool = False) -> str:
    """The page with the outputs of a run; with ``mark`` an output whose numbers alone have changed is marked so."""
    made, done = [], 0
    with tempfile.TemporaryDirectory() as place, a_reader(Path(place)) as reader:
        for block, below in with_outputs(text):
            said = shortened(reader.type(block))
            if not block.shown:
                continue
            title = below.title if below else OUTPUT
            if below and mark and agree(said, below.text, digits=False) and not agree(said, below.text):
                title = OF_ONE_RUN
            if below and agree(said, below.text, digits=title != OF_ONE_RUN):
                said = below.text
            made.append(text[done : block.end])
            if said:
                made.append(f'\n\n```text title="{title}"\n{said}```')
            done = below.end if below else block.end
    return "".join([*made, text[done:]])


def agree(one: str, other: str, *, digits: bool = True) -> bool:
    """Whether two outputs are of the same blocks, but for what differs from run to run."""
    return comparable(one, digits=digits) == comparable(other, digits=digits)


def main(pages: list[str]) -> int:
    for page in pages or STEP_BY_STEP:
        before = page_text(page)
        after = run_page(before)
        if after != before:
            after = run_page(after, mark=True)
        write_text(ROOT / "docs" / page, after)
        print(f"docs/{page}: {'as it was' if after == before else 'written'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

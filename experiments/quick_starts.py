"""The quick starts of README and of the site, typed where only the wheels are installed: ``make quick-starts``.

Both wheels are built and installed into an empty environment, without this checkout on the path. There README's code
has to give README's output, and the blocks of ``PAGES`` what stands below them. Ends with 1 at the first that does not.
"""

from __future__ import annotations

import sys
import tempfile
import venv
from itertools import pairwise
from pathlib import Path

from experiments.dist import SOURCES, built
from experiments.docs_blocks import ROOT, Block, a_reader, blocks, page_text, shortened, with_outputs
from experiments.first_steps import run

PAGES = ("ten-minutes.md", "cookbook.md", "deploy-one-machine.md")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = [built(one, source, folder / "dist") for one, source in SOURCES.items()]
        venv.create(folder / "empty", with_pip=True)
        python = folder / "empty" / "bin" / "python"
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--find-links", "dist"]
        run([*pip, f"{wheels[0]}[estimators,inference,report,mqtt]", str(wheels[1])], folder)
        with a_reader(folder / "README", python) as reader:
            code, output = _of_readme()
            _compare("README.md", reader.type(code), output)
        for page in PAGES:
            with a_reader(folder / page, python) as reader:
                for block, below in with_outputs(page_text(page)):
                    said = shortened(reader.type(block))
                    if below is not None:
                        _compare(page, said, below)
            print(f"docs/{page}: as it stands", flush=True)
    return 0


def _of_readme() -> tuple[Block, Block]:
    found = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    ((code, output),) = (pair for pair in pairwise(found) if pair[0].language == "python")
    return code, output


def _compare(page: str, said: str, output: Block) -> None:
    if output.comparable(said) != output.comparable(output.text):
        raise SystemExit(f"{page} must say what its code puts out:\n{said}\ngot\n{output.text}")


if __name__ == "__main__":
    sys.exit(main())

"""Pictures of result pages for the site: ``python -m experiments.docs_pictures`` writes them to docs/pictures.

It runs the blocks of the pages that make them, as a reader would, and takes what a browser shows of the result. Needs
chromium (of the system's packages) and Pillow; few colours keep each picture below ``MOST_BYTES``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from experiments.docs_blocks import ROOT, a_reader, blocks, page_text

FOLDER = ROOT / "docs" / "pictures"
COLOURS, MOST_BYTES = 48, 100_000


@dataclass(frozen=True)
class Picture:
    """One of docs/pictures.

    page: whose blocks make what is shown.
    shown: the file of it, below the reader's folder.
    width, height: of the window, in pixels.
    """

    name: str
    page: str
    shown: str
    width: int
    height: int


PICTURES = (
    Picture("result.png", "publish.md", "stay/result.html", 900, 1000),
    Picture("run.png", "ten-minutes.md", "first/report.html", 1280, 820),
    Picture("comparison.png", "ten-minutes.md", "race/report.html", 1000, 1000),
)


def take(picture: Picture, folder: Path, place: Path) -> None:
    """Show a file in a browser, and keep what the window has of it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium must be installed: apt-get install chromium")
    raw = place / picture.name
    switches = [
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
        *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--force-device-scale-factor=1"),
        f"--user-data-dir={place / 'profile'}",
        f"--window-size={picture.width},{picture.height}",
        f"--screenshot={raw}",
    ]
    shown = (folder / picture.shown).as_uri()
    subprocess.run([browser, *switches, shown], check=True, capture_output=True, timeout=120)
    with Image.open(raw) as whole:
        whole.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / picture.name, optimize=True)
    size = (FOLDER / picture.name).stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{picture.name} must have at most {MOST_BYTES} bytes, got {size}")
    print(f"docs/pictures/{picture.name}: {size / 1e3:.0f} kB", flush=True)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for page in dict.fromkeys(one.page for one in PICTURES):
        with tempfile.TemporaryDirectory() as name, a_reader(Path(name)) as reader:
            for block in blocks(page_text(page)):
                reader.type(block)
            for picture in PICTURES:
                if picture.page == page:
                    take(picture, reader.folder, Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())

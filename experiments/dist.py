"""Wheel and source archive, and the proof that the wheel is whole: installed into an empty environment, it compares.

``make dist`` runs it. Both land in dist/. What is checked: the version is the one of src/codedfl/version.py, the fleet
and the page of a run are in the wheel, ``codedfl compare`` and ``codedfl train`` run without this checkout and write a
page each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from codedfl.version import __version__

ROOT = Path(__file__).parents[1]
NEEDED = ("codedfl/fleet/paper.toml", "codedfl/report/page.css", "codedfl/report/run_page.html", "codedfl/py.typed")
SMALL = ("--devices", "5", "--n-features", "60")


def main() -> int:
    dist = ROOT / "dist"
    for old in (*dist.glob("codedfl-*.whl"), *dist.glob("codedfl-*.tar.gz")):
        old.unlink()
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)])
    (wheel,) = dist.glob("codedfl-*.whl")
    (archive,) = dist.glob("codedfl-*.tar.gz")
    with zipfile.ZipFile(wheel) as content:
        missing = sorted(set(NEEDED) - set(content.namelist()))
    if missing:
        raise SystemExit(f"the wheel must hold {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "empty", with_pip=True)
        program = folder / "empty" / "bin"
        pip = [str(program / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], folder)
        codedfl = str(program / "codedfl")
        said = _run([codedfl, "--version"], folder)
        if said.split() != ["codedfl", __version__]:
            raise SystemExit(f"the wheel must be version {__version__}, got {said!r}")
        _run([codedfl, "compare", "digits", *SMALL, "--seeds", "1", "--draws", "10", "--out", "race"], folder)
        _run([codedfl, "train", "digits", *SMALL, "--out", "first"], folder)
        pages = [folder / one / "report.html" for one in ("race", "first")]
        if not all(page.stat().st_size > 10_000 for page in pages):
            raise SystemExit("compare and train must write a page from the wheel")
    for path in (wheel, archive):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e3:.0f} kB")
    print("installed into an empty environment, codedfl compare and codedfl train run there")
    return 0


def _run(command: list[str], folder: Path = ROOT) -> str:
    """Without this checkout on the path."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

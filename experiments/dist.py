"""Wheels of both distributions, the source archive of the first, and the proof that they are whole.

``make dist`` runs it. All land in dist/. The first wheel is installed alone into an empty environment, where neither
matplotlib, scikit-learn nor scipy comes along, and runs a study there: drafted, checked, rehearsed, its model used.
Then the second is installed beside it, and compares and trains. What is checked besides: the version is the one of
src/codedfl/version.py, and the fleet, the pages and a bill of materials are in the wheels.
"""

from __future__ import annotations

import json
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from codedfl.version import __version__
from experiments.first_steps import compare_and_train, run, run_a_study

ROOT = Path(__file__).parents[1]
SOURCES = {"codedfl": ROOT, "codedfl_lab": ROOT / "lab"}
NEEDED = {
    "codedfl": {"codedfl/report/run_page.html", "codedfl/py.typed"},
    "codedfl_lab": {"codedfl_lab/fleet/paper.toml", "codedfl_lab/report/page.css", "codedfl_lab/py.typed"},
}
NOT_ALONG = ("matplotlib", "sklearn", "scipy", "codedfl_lab")


def main() -> int:
    dist = ROOT / "dist"
    for old in (*dist.glob("codedfl*.whl"), *dist.glob("codedfl*.tar.gz")):
        old.unlink()
    wheels = {name: built(name, source, dist) for name, source in SOURCES.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "empty", with_pip=True)
        program = folder / "empty" / "bin"
        pip = [str(program / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--find-links", str(dist), "--constraint", str(ROOT / "constraints.txt")]
        run([*pip, str(wheels["codedfl"])], folder)
        said = run([str(program / "codedfl"), "--version"], folder)
        if said.split() != ["codedfl", __version__]:
            raise SystemExit(f"the wheel must be version {__version__}, got {said!r}")
        _bring_nothing_else(str(program / "python"), folder)
        run_a_study(program, folder / "study")
        print("alone in an empty environment, codedfl runs a study without matplotlib, scikit-learn and scipy")
        run([*pip, str(wheels["codedfl_lab"])], folder)
        compare_and_train(program, folder)
        pages = [folder / one / "report.html" for one in ("study/rehearsal", "race", "first")]
        if not all(page.stat().st_size > 10_000 for page in pages):
            raise SystemExit("rehearsal, compare and train must write a page each")
        print("with codedfl-lab beside it, codedfl lab compare and codedfl lab train run")
    for path in sorted((*dist.glob("codedfl*.whl"), *dist.glob("codedfl*.tar.gz"))):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e3:.0f} kB")
    return 0


def built(name: str, source: Path, dist: Path) -> Path:
    """The wheel of one distribution, of the product also the source archive, looked into."""
    # The laboratory takes its version from the first, so it is built where both are: it has no archive of its own.
    wanted = ["--wheel"] if source != ROOT else ["--wheel", "--sdist"]
    run([sys.executable, "-m", "build", "--no-isolation", *wanted, "--outdir", str(dist), str(source)], ROOT)
    (wheel,) = dist.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as content:
        missing = sorted(NEEDED[name] - set(content.namelist()))
        bills = [json.loads(content.read(one)) for one in content.namelist() if one.endswith(".cdx.json")]
    if missing:
        raise SystemExit(f"the wheel of {name} must hold {', '.join(missing)}")
    if [(one["bomFormat"], one["metadata"]["component"]["version"]) for one in bills] != [("CycloneDX", __version__)]:
        raise SystemExit(f"the wheel of {name} must hold one bill of materials, got {len(bills)}")
    return wheel


def _bring_nothing_else(python: str, folder: Path) -> None:
    look = f"from importlib.util import find_spec; print(*(one for one in {NOT_ALONG} if find_spec(one)))"
    if found := run([python, "-c", look], folder).split():
        raise SystemExit(f"the product must install without {', '.join(found)}")


if __name__ == "__main__":
    sys.exit(main())

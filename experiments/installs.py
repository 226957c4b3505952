"""Both distributions in empty environments, with the newest and with the oldest versions that they allow.

``make installs`` runs it. No constraints: what ``pip install`` takes is what newcomers get. The oldest versions are the
lower bounds that the two pyproject.toml declare. Each environment runs the help of every command, a study, a comparison
and a training, then has every extra beside them and runs them again. What ``pip install codedfl`` brings has at most
115 MB, without pip and setuptools and with bytecode, and no compiler. Flower has bounds of its own on typer and rich
and thus an environment of its own, with the newest that they leave. Ends with 1 at the first step that fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement

from experiments.first_steps import compare_and_train, every_help, run, run_a_study

ROOT = Path(__file__).parents[1]
CHOICES = ("newest", "oldest", "flower")
DEVELOPERS = ("test", "docs", "dist")  # extras of those who work on the project
EXPORTS = ("export", "export-texts")
MOST_INSTALLED = 115e6  # bytes
INSTALLER = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
COMPILERS = ("numba", "llvmlite")


def extras(folder: Path) -> dict[str, list[str]]:
    """What users of one distribution may add to it. The laboratory's exports of networks bring gigabytes: left out."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = project.get("optional-dependencies", {})
    return {name: lines for name, lines in found.items() if name not in (*DEVELOPERS, *EXPORTS)}


def declared(folder: Path) -> list[Requirement]:
    """What one distribution needs, with all that its users may add."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [line for wanted in extras(folder).values() for line in wanted]
    return [Requirement(line) for line in (*project["dependencies"], *lines)]


def lower_bounds() -> list[str]:
    """The oldest version of each requirement, as constraints of pip."""
    found = {}
    for requirement in (*declared(ROOT), *declared(ROOT / "lab")):
        (bound,) = (one.version for one in requirement.specifier if one.operator == ">=")
        if requirement.name != "codedfl":
            found[requirement.name] = bound
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def installed(environment: Path) -> int:
    """Bytes of what is in an environment beside the installer; ends the program where it is too much or compiles."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    size = 0
    for path in packages.rglob("*"):
        first = path.relative_to(packages).parts[0]
        if path.is_file() and first.split("-")[0].split(".")[0] not in INSTALLER:
            size += path.stat().st_size
    compiling = [name for name in COMPILERS if (packages / name).exists()]
    if size > MOST_INSTALLED or compiling:
        most = f"at most {MOST_INSTALLED / 1e6:.0f} MB without a compiler"
        raise SystemExit(f"a plain installation must have {most}, got {size / 1e6:.0f} MB {' '.join(compiling)}")
    return size


def try_out(which: str, folder: Path) -> str:
    """One environment, from nothing to a trained model; returns what it had."""
    venv.create(folder / "empty", with_pip=True)
    program = folder / "empty" / "bin"
    (folder / "oldest.txt").write_text("\n".join(lower_bounds()) + "\n", encoding="utf-8")
    pip = [str(program / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--constraint", "oldest.txt"] if which == "oldest" else []
    base = f"{ROOT}[flower]" if which == "flower" else str(ROOT)
    run([*pip, base], folder)
    size = installed(folder / "empty") / 1e6 if which == "newest" else 0.0
    helps = every_help(program, folder)
    run_a_study(program, folder / "study")
    run([*pip, base, str(ROOT / "lab")], folder)
    more = every_help(program, folder)
    compare_and_train(program, folder)
    if which != "flower":
        every = ",".join(extras(ROOT).keys() - {"flower"})
        run([*pip, f"{ROOT}[{every}]", str(ROOT / "lab")], folder)
        every_help(program, folder)
        run_a_study(program, folder / "study with every extra")
    run([*pip[:3], "check"], folder)
    named = {requirement.name for requirement in (*declared(ROOT), *declared(ROOT / "lab"))}
    listed = run([str(program / "python"), "-m", "pip", "list", "--format", "freeze"], folder).split()
    versions = " ".join(one for one in listed if one.partition("==")[0].lower().replace("_", "-") in named)
    plain = f"{size:.0f} MB installed, " if size else ""
    return f"{which}: {plain}{helps} helps, {more} with codedfl-lab; {versions}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", nargs="*", default=CHOICES, help="newest, oldest, flower; all without")
    for which in parser.parse_args().which:
        if which not in CHOICES:
            parser.error(f"{which!r} must be one of {', '.join(CHOICES)}")
        with tempfile.TemporaryDirectory() as name:
            print(try_out(which, Path(name)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

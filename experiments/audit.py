"""What codedfl stands on: the licence of every package it installs, and known vulnerabilities where one can look.

Licences come from the packages' own metadata and need no network. Vulnerabilities are looked up by pip-audit, in an
environment of its own (``make audit`` makes it), on PyPI; packages that it could not look up are counted, not passed
over: without a network none are audited, and the last line says so.

    python -m experiments.audit [--pip-audit .venv-audit/bin/pip-audit]

The exit status is 1 when a package has a known vulnerability or states no licence.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement  # comes with matplotlib
from rich.console import Console
from rich.table import Table

MOST_SECONDS = 120  # without a network pip-audit tries for long, package by package


def dependencies(name: str, extras: Sequence[str]) -> Iterator[Distribution]:
    """Every installed package that ``name`` with these extras needs, each once."""
    found: set[str] = set()
    waiting = [(name, tuple(extras))]
    while waiting:
        current, wanted = waiting.pop()
        try:
            package = distribution(current)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        if current != name:
            yield package
        for line in package.requires or []:
            requirement = Requirement(line)
            key = requirement.name.lower().replace("_", "-")
            environments = [{"extra": extra} for extra in ("", *wanted)]
            needed = requirement.marker is None or any(requirement.marker.evaluate(e) for e in environments)
            if needed and key not in found:
                found.add(key)
                waiting.append((requirement.name, tuple(requirement.extras)))


def licence_of(package: Distribution) -> str:
    """SPDX expression, or the classifiers, or the first line of the free text; empty if it states none."""
    about = package.metadata
    classifiers = [c.split(" :: ")[-1] for c in about.get_all("Classifier") or [] if c.startswith("License :: ")]
    free_text, expression = (str((about.get_all(key) or [""])[0]) for key in ("License", "License-Expression"))
    return expression or ", ".join(classifiers) or free_text.strip().partition("\n")[0][:60]


def vulnerabilities(pip_audit: Path) -> tuple[list[str], int, int]:
    """Findings, packages looked up, packages that could not be."""
    packages = sysconfig.get_path("purelib")
    command = [str(pip_audit), "--path", packages, "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
        listed = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError, subprocess.TimeoutExpired):
        return [], 0, -1
    skipped = [entry for entry in listed if "skip_reason" in entry]
    found = [f"{e['name']} {e['version']}: {v['id']}" for e in listed for v in e.get("vulns", [])]
    return found, len(listed) - len(skipped), len(skipped)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pip-audit", type=Path, help="the pip-audit program; without it licences only")
    options = parser.parse_args(arguments)
    console = Console()
    table = Table("package", "version", "licence", title="What codedfl installs")
    unknown = []
    for package in sorted(dependencies("codedfl", ["flower", "parquet"]), key=lambda p: p.name.lower()):
        licence = licence_of(package)
        unknown += [] if licence else [package.name]
        table.add_row(package.name, package.version, licence or "[red]none stated[/red]")
    console.print(table)
    if unknown:
        console.print(f"No licence stated: {', '.join(unknown)}")
    if options.pip_audit is None or not options.pip_audit.exists():
        console.print("Vulnerabilities: not looked up, pip-audit is not there.")
        return int(bool(unknown))
    found, audited, skipped = vulnerabilities(options.pip_audit)
    for line in found:
        console.print(f"[red]{line}[/red]")
    if skipped < 0:
        console.print("Vulnerabilities: not looked up, pip-audit could not reach its service.")
    else:
        console.print(f"Vulnerabilities: {len(found)} known in {audited} packages; {skipped} could not be looked up.")
    return int(bool(unknown or found))


if __name__ == "__main__":
    sys.exit(main())

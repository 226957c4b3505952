"""Versions with hashes for deployments: ``constraints-deploy.txt`` from what pip itself would install.

pip resolves ``codedfl[flower]`` under constraints.txt and reports each file with its SHA-256 (``pip install --dry-run
--report``); this writes them down, one line a package, for ``pip install --require-hashes``. A machine that installs
from the list gets these very files or none. The list holds for the platform and the Python it was made with.

    python -m experiments.lock                                  from the index that pip is configured for
    python -m experiments.lock --find-links wheels              offline, from a folder of wheels
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from codedfl.errors import InvalidInput

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints-deploy.txt"
HEADER = "# Written by make lock, for this platform and Python: pip install --require-hashes -r constraints-deploy.txt"


def pip_report(find_links: Path | None) -> dict[str, Any]:
    """What pip would install for a node or a server, on a machine where nothing is installed."""
    offline = [] if find_links is None else ["--no-index", "--find-links", str(find_links)]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--ignore-installed", "--report", "-", *offline, "--constraint", str(ROOT / "constraints.txt")]
    done = subprocess.run([*command, f"{ROOT}[flower]"], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidInput(f"pip must be able to resolve codedfl[flower], it cannot: {last}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def locked_lines(report: dict[str, Any]) -> list[str]:
    """One line a package, by name; codedfl itself is what they are for, and not among them."""
    lines = []
    for item in report["install"]:
        name, version = item["metadata"]["name"].lower(), item["metadata"]["version"]
        if name == "codedfl":
            continue
        digest = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            raise InvalidInput(f"every package must come as a file with a SHA-256, got none for {name} {version}")
        lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write constraints-deploy.txt.")
    parser.add_argument("--find-links", type=Path, help="a folder of wheels; no index is asked then")
    lines = locked_lines(pip_report(parser.parse_args().find_links))
    FILE.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    print(f"{FILE.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()

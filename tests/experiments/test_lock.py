"""The list of hashes for deployments, from pip's own report."""

from __future__ import annotations

from typing import Any

import pytest
from experiments.lock import locked_lines

from codedfl.errors import InvalidInput
from wording import exactly


def entry(name: str, version: str, **info: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "version": version}, "download_info": info}


def test_every_package_has_its_version_and_hash():
    report = {
        "install": [
            entry("numpy", "2.0.1", archive_info={"hashes": {"sha256": "ab" * 32}}),
            entry("Flwr", "1.41.0", archive_info={"hashes": {"sha256": "cd" * 32, "md5": "00"}}),
            entry("codedfl", "0.1.0", dir_info={}),
        ]
    }
    assert locked_lines(report) == [
        f"flwr==1.41.0 --hash=sha256:{'cd' * 32}",
        f"numpy==2.0.1 --hash=sha256:{'ab' * 32}",
    ]


def test_what_has_no_hash_cannot_be_locked():
    message = "every package must come as a file with a SHA-256, got none for ray 2.9"
    infos: list[dict[str, Any]] = [{"vcs_info": {}}, {"archive_info": {}}, {"archive_info": {"hashes": {"md5": "00"}}}]
    for info in infos:
        with pytest.raises(InvalidInput, match=exactly(message)):
            locked_lines({"install": [entry("ray", "2.9", **info)]})

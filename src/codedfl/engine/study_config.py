"""What ``codedfl join`` and ``serve`` take: a study file, or a run's flat configuration as a file.

A study (``data.studies``) says everything from the table's columns on, and takes several stages. A run file has the
flat keys of ``RunConfig`` and ``Learning``, as Flower has them, and is one training on numbers. Both are the same file
on the server and on all devices, and what must be alike has a digest, so that a device that was given another file is
told so before anything happens.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from codedfl.data.datasets import read_table
from codedfl.data.studies import Study, load_study
from codedfl.engine.learning import Config, Learning, setting
from codedfl.engine.run_config import RunConfig
from codedfl.errors import InvalidInput

# What decides the features and labels of every device.
_PUBLIC = (
    *("columns", "x-low", "x-high", "classes", "target-low", "target-high", "features", "n-features", "gamma"),
    *("feature-seed", "max-samples", "max-samples-per-device", "label", "column-names"),
)


@dataclass(frozen=True)
class RunFile:
    """name: what the run is called, from its key ``study`` or its file's name."""

    name: str
    config: Config

    def digest(self) -> bytes:
        """SHA-256 of what is public about it."""
        public = {key: self.config[key] for key in _PUBLIC if key in self.config}
        return hashlib.sha256(b"codedfl study v1|" + json.dumps(public, sort_keys=True).encode()).digest()

    @property
    def learning(self) -> Learning:
        return Learning.from_config(self.config)

    def run_config(self, output: Path) -> RunConfig:
        return RunConfig.from_config({**self.config, "output-dir": str(output)})

    def table(self, path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
        """A device's raw rows and labels from its own file."""
        names = setting(self.config, "column-names", str, "")
        columns = tuple(name.strip() for name in names.split(",")) if names else None
        table = read_table(path, setting(self.config, "label", str, "label"), columns=columns)
        assert table.y is not None  # the label was asked for
        return table.X, table.y


def load_agreed(path: Path) -> Study | RunFile:
    """Read a study file, or a run file; the former says its format."""
    return load_study(path) if "format" in _content(path) else load_run_file(path)


def load_run_file(path: Path) -> RunFile:
    """Read a run's flat configuration."""
    config = _content(path)
    return RunFile(setting(config, "study", str, path.stem), config)


def _content(path: Path) -> Config:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the study must be a readable TOML file, got {str(path)!r} ({error})") from None

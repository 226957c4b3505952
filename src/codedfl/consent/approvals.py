"""Studies that a device's operator approved: a file of digests, which a device looks into before it takes part.

An approval is for one digest, that is for one meaning of the file: whoever changes anything asks anew. It reads no
clock; the caller says when.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w

from codedfl.data.studies.study import Study
from codedfl.errors import InvalidInput
from codedfl.files import write_text

FORMAT = "codedfl-approvals-1"


@dataclass(frozen=True)
class Approval:
    """digest: of the study, in hex; who approved it, and when (as the caller writes times)."""

    digest: str
    study: str
    who: str
    when: str

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, str) or not value.strip():
                raise InvalidInput(f"{name} of an approval must be text, got {value!r}")
        if len(self.digest) != 64 or set(self.digest) - set("0123456789abcdef"):
            raise InvalidInput(f"digest of an approval must be 64 hexadecimal digits, got {self.digest!r}")


def load_approvals(path: Path) -> tuple[Approval, ...]:
    """All approvals of a file; none if there is no file."""
    if not path.exists():
        return ()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise InvalidInput(f"{path.name} must be a file of approvals, got {error}") from error
    entries = content.get("approval", [])
    if content.get("format") != FORMAT or not isinstance(entries, list):
        raise InvalidInput(f"{path.name} must be a file of approvals ({FORMAT}), got {content.get('format')!r}")
    try:
        return tuple(Approval(**entry) for entry in entries)
    except TypeError as error:
        raise InvalidInput(f"{path.name} must hold digest, study, who, when of each approval, got {error}") from error


def approve(study: Study, path: Path, *, who: str, when: str) -> Approval:
    """Record that ``who`` agreed to the study; again for the same study changes nothing."""
    known = load_approvals(path)
    for one in known:
        if one.digest == study.digest().hex():
            return one
    approval = Approval(study.digest().hex(), study.name, who, when)
    entries = [asdict(one) for one in (*known, approval)]
    write_text(path, tomli_w.dumps({"format": FORMAT, "approval": entries}))
    return approval


def is_approved(digest: bytes, path: Path) -> bool:
    """Whether the study with this digest was approved here."""
    return any(one.digest == digest.hex() for one in load_approvals(path))

"""Where pictures and texts come from: a folder, an .npz file, a column of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.tables import RawTable
from codedfl.data.tables.npz_file import NpzFile
from codedfl.errors import InvalidInput

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


@dataclass(frozen=True, eq=False)
class Items:
    """Things to encode: paths, arrays or texts; what each is called; what is known of each beside it.

    labels: of each item; None where nothing is known.
    """

    items: Sequence[Any] | NDArray[Any]
    names: Sequence[str]
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.items)


def pictures_of(path: Path | str) -> Items:
    """Pictures of a folder, labelled by the folder below it that they are in; or of an .npz file.

    An .npz file has ``X``, n x height x width (x 3) bytes, and may have ``y``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from codedfl.data.encoders import pictures_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "a.npz"), X=np.zeros((2, 4, 4), dtype=np.uint8), y=np.array([0, 1]))
    ...     found = pictures_of(Path(folder, "a.npz"))
    >>> list(found.names), found.labels.tolist()
    (['a.npz, picture 1', 'a.npz, picture 2'], [0, 1])
    """
    path = Path(path)
    if path.is_dir():
        return _of_folder(path)
    if path.suffix == ".npz" and path.is_file():
        return _of_npz(path)
    raise InvalidInput(f"pictures must be in a folder or an .npz file, got {str(path)!r}")


def _of_folder(folder: Path) -> Items:
    """Sorted by name, so that two listings of one folder are the same."""
    found = sorted(one for one in folder.rglob("*") if one.suffix.lower() in ENDINGS and one.is_file())
    if not found:
        raise InvalidInput(f"{folder} must hold pictures ({', '.join(ENDINGS)}), got none")
    below = [one.relative_to(folder) for one in found]
    labels = np.array([one.parts[0] for one in below]) if all(len(one.parts) > 1 for one in below) else None
    return Items(found, [str(one) for one in below], labels)


def _of_npz(path: Path) -> Items:
    with NpzFile(path) as file:
        pictures, labels = file.read("X"), file.read("y") if "y" in file.files else None
    if pictures.dtype != np.uint8 or pictures.ndim not in (3, 4) or pictures.shape[3:] not in ((), (3,)):
        raise InvalidInput(
            f"X of {path.name} must be n x height x width (x 3) of uint8, got {pictures.shape} of {pictures.dtype}"
        )
    if labels is not None and labels.shape != (len(pictures),):
        raise InvalidInput(f"y of {path.name} must hold one label per picture ({len(pictures)}), got {labels.shape}")
    return Items(pictures, [f"{path.name}, picture {place}" for place in range(1, len(pictures) + 1)], labels)


def texts_of(table: RawTable, column: str, target: str | None = None) -> Items:
    """The texts of one column of a table, and the target's values beside them.

    Examples
    --------
    >>> from codedfl.data.encoders import texts_of
    >>> from codedfl.data.tables import as_raw_table
    >>> found = texts_of(as_raw_table({"note": ["well", "ill"], "y": ["a", "b"]}, "t.csv"), "note", "y")
    >>> found.names, found.labels.tolist()
    (['t.csv, row 1', 't.csv, row 2'], ['a', 'b'])
    """
    texts = [str(one) for one in table.column(column).tolist()]
    names = [f"{table.name}, row {place}" for place in range(1, len(texts) + 1)]
    return Items(texts, names, None if target is None else table.column(target, "the target"))

"""A party's state on disk: one small index and one file per large value, in a folder closed to other users.

Large arrays and byte strings lie in files named by their SHA-256, so what has not changed is not written again, damage
is noticed, and they are memory-mapped when read: a device that answers an update takes ``linear`` from the page cache.
The index begins with its own SHA-256, names the files and is replaced in one stroke after they are safe, so a crash at
any moment leaves the old state or the new one.

States hold secrets, so no file is given up before it is overwritten with zeros. What a copy-on-write file system or a
flash drive keeps beside is beyond reach.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgpack
import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput, MessageRefused
from codedfl.private_files import make_private_folder, sync_folder, write_private
from codedfl.protocol.packing import unpack_bounded
from codedfl.state import State

INDEX = "index.msgpack"
_FORMER = "index.former"  # the last index, until it is overwritten
_FORMAT = "codedfl-state-4"  # 4: protocol version 3
_DEPTH = 32  # how deep lists and tables may lie within each other
_ZEROS = bytes(1 << 20)
SHELVED_BYTES = 1 << 14  # what is shorter is not worth a file
_DIGEST_BYTES = 32
_DTYPE = re.compile(r"[<>|][biuf][1248]")  # numpy makes a little language of these, with errors of its own


@dataclass(frozen=True)
class ShelvedFile:
    """Bytes in a file of a state folder, named by their SHA-256: read when they are wanted, and only then in memory."""

    path: Path
    size: int

    def read(self) -> bytes:
        """See ``Shelved``."""
        return self.path.read_bytes()


class StateFolder:
    """One state in one folder; made, with mode 0700, by the first ``save``."""

    _large: ClassVar[int] = 1 << 14  # bytes: an array that is larger gets a file of its own

    def __init__(self, path: Path, large_bytes: int = SHELVED_BYTES) -> None:
        """large_bytes: a byte string that is longer gets a file of its own."""
        self.path = path
        self._large_bytes = large_bytes
        self._named: dict[int, tuple[object, str]] = {}  # id of a value that cannot change -> itself, its file
        self._mapped: list[tuple[str, weakref.ref[np.memmap[Any, Any]]]] = []

    def __repr__(self) -> str:
        return f"<StateFolder {str(self.path)!r}>"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep out a second process: one that was left behind when its node was killed may still be at work.

        Where no state is kept in the end, no lock is left either: whoever is refused for ever fills no disk.
        """
        make_private_folder(self.path.parent)
        handle = self._take_lock()
        try:
            yield
        finally:
            if not self.path.exists() and self._is_named(handle):  # after a wipe the name may be another's lock
                self._lock.unlink()
            os.close(handle)

    @property
    def _lock(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    def _take_lock(self) -> int:
        """Lock the file that has the name when it is locked: while this one waited, it may have been removed."""
        while True:
            handle = os.open(self._lock, os.O_WRONLY | os.O_CREAT, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if self._is_named(handle):
                return handle
            os.close(handle)

    def _is_named(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._lock.stat())
        except FileNotFoundError:
            return False

    def load(self) -> State | None:
        """The state last saved; None if there is none."""
        try:
            packed = (self.path / INDEX).read_bytes()
        except FileNotFoundError:
            return None
        try:
            digest, packed = packed[:_DIGEST_BYTES], packed[_DIGEST_BYTES:]
            if hashlib.sha256(packed).digest() != digest:
                raise ValueError("the index does not match its digest")
            content = unpack_bounded(packed, "a saved state", depth=_DEPTH)
            if content["format"] != _FORMAT:
                raise InvalidInput(
                    f"a saved state must have format {_FORMAT}, got {content['format']!r:.40}:"
                    f" it is of another version; delete {str(self.path)!r} and start a new run"
                )
            state: State = self._join(self._up_to_date(content["state"], digest))
        except (ValueError, KeyError, TypeError, OSError, MessageRefused) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"a saved state must be whole, got a damaged one in {str(self.path)!r}") from error
        return state

    def save(self, state: State, unchanging: Sequence[NDArray[Any]] = (), *, anew: bool = False) -> None:
        """Make this the state to go on from.

        unchanging: arrays of the state that nobody writes to any more. They are read once, and not again when the
            same objects are saved again. Empty reads all of them.
        anew: nothing of an earlier state may be left on the disk, as it always is here.
        """
        del anew
        make_private_folder(self.path)
        names: set[str] = set()
        self._replace_index(self._split_all(state, unchanging, names), names)

    def shelve(self, data: bytes) -> bytes | ShelvedFile:
        """Put large bytes on the disk at once, and out of memory. They stay as long as saved states hold them."""
        if len(data) <= SHELVED_BYTES:
            return data
        kept = ShelvedFile(make_private_folder(self.path) / hashlib.sha256(data).hexdigest(), len(data))
        write_private(kept.path, [data])
        return kept

    def _split_all(self, state: State, unchanging: Sequence[NDArray[Any]], names: set[str]) -> Any:
        former, self._named = self._named, {}
        fixed = {id(array) for array in unchanging}
        return self._split(state, names, fixed, former)

    def _replace_index(self, split: Any, names: set[str]) -> bytes:
        """Returns the digest of the new index; every other file but ``names`` is overwritten and removed."""
        packed = msgpack.packb({"format": _FORMAT, "state": split})
        digest = hashlib.sha256(packed).digest()
        self._hold_former_index()
        sync_folder(self.path)
        write_private(self.path / INDEX, [digest, packed])
        sync_folder(self.path)
        for entry in self.path.iterdir():
            if entry.name not in names and entry.name != INDEX:
                self._erase(entry)
        return digest

    def _up_to_date(self, split: Any, digest: bytes) -> Any:
        """What the index with this digest holds, and what was noted since."""
        del digest
        return split

    def wipe(self) -> None:
        """Overwrite and remove everything, the index first: a wipe cut short leaves no state, and can be repeated."""
        self._named = {}
        if self.path.exists():
            if (self.path / INDEX).exists():
                (self.path / INDEX).replace(self.path / _FORMER)
                sync_folder(self.path)
            for entry in self.path.iterdir():
                self._erase(entry)
            self.path.rmdir()
        self._lock.unlink(missing_ok=True)

    def _hold_former_index(self) -> None:
        """Give the index a second name, or its blocks would be free before they are overwritten."""
        index, former = self.path / INDEX, self.path / _FORMER
        if not index.exists():
            return
        if former.exists():  # a save was cut short
            if former.samefile(index):
                return
            self._erase(former)
        os.link(index, former)

    def _erase(self, entry: Path) -> None:
        for name, reference in self._mapped:
            if name == entry.name and (array := reference()) is not None:
                _unshare(array)
        size = entry.stat().st_size
        with entry.open("r+b") as stream:
            for start in range(0, size, len(_ZEROS)):
                stream.write(_ZEROS[: size - start])
            stream.flush()
            os.fsync(stream.fileno())
        entry.unlink()

    # -- large values beside the index

    def _split(self, value: Any, names: set[str], fixed: set[int], former: dict[int, tuple[object, str]]) -> Any:
        """``value`` for msgpack, with large values written to files and named in their place."""
        if isinstance(value, np.ndarray):
            about = {"$dtype": value.dtype.str, "$shape": list(value.shape)}
            if value.nbytes > self._large:
                return about | self._write(value, value.nbytes, id(value) in fixed, names, former)
            return about | {"$bytes": np.ascontiguousarray(value).tobytes()}
        if isinstance(value, bytes) and len(value) > self._large_bytes:
            return self._write(value, len(value), True, names, former)
        if isinstance(value, ShelvedFile):
            names.add(value.path.name)
            return {"$file": value.path.name, "$size": value.size, "$shelved": True}
        if isinstance(value, dict):
            return {key: self._split(entry, names, fixed, former) for key, entry in value.items()}
        if isinstance(value, list):
            return [self._split(entry, names, fixed, former) for entry in value]
        return value

    def _write(
        self,
        value: NDArray[Any] | bytes,
        size: int,
        unchanging: bool,
        names: set[str],
        former: dict[int, tuple[object, str]],
    ) -> dict[str, Any]:
        """Into a file named by its content, unless that is there; a known value that cannot change is not even read."""
        _, name = former.get(id(value), (None, "")) if unchanging else (None, "")
        if not name:
            data = memoryview(value) if isinstance(value, bytes) else _octets(value).data
            name = hashlib.sha256(data).hexdigest()
            if name not in names and not (self.path / name).exists():
                write_private(self.path / name, [data])
        if unchanging:
            self._named[id(value)] = (value, name)  # held, so that no other value gets its id
        names.add(name)
        return {"$file": name, "$size": size}

    def _join(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._join(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if not _DTYPE.fullmatch(value.get("$dtype", "|u1")):
            raise ValueError(f"the type of an array must be one that is saved, got {value['$dtype']!r:.20}")
        if "$file" in value:
            path = self.path / Path(value["$file"]).name
            if path.stat().st_size != value["$size"]:
                raise ValueError(f"{path.name} has another size")
            with path.open("rb") as stream:  # a flipped bit would make a wrong model; reading it once costs little
                if hashlib.file_digest(stream, "sha256").hexdigest() != path.name:
                    raise ValueError(f"{path.name} does not match its digest")
            if "$shelved" in value:
                return ShelvedFile(path, value["$size"])
            if "$dtype" not in value:
                return path.read_bytes()
            # Copy on write: sums go on growing in memory, the file stays as it is.
            mapped = np.memmap(path, value["$dtype"], "c", shape=tuple(value["$shape"]))
            self._mapped.append((path.name, weakref.ref(mapped)))
            return mapped.view(np.ndarray)
        if "$dtype" in value:
            return np.frombuffer(bytearray(value["$bytes"]), value["$dtype"]).reshape(value["$shape"])
        return {key: self._join(entry) for key, entry in value.items()}


def _octets(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _unshare(array: np.memmap[Any, Any]) -> None:
    """Have the system copy every page that still is the file's, so that who uses the array does not see the zeros."""
    octets = array.reshape(-1).view(np.uint8)
    octets[:: mmap.PAGESIZE] |= 0

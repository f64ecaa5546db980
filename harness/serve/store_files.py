"""The files of a store, opened name by name from its directory: nothing outside can be opened.

A place is a tuple of names. Each name is opened relative to the descriptor of the directory before
it, and no symbolic link is followed (openat(2), O_NOFOLLOW). So neither a name nor a link, even one
that is made at the same time, leads out of the store. Only directories and regular files are
opened.

    StoreFileError
    |-- FileAbsent       there is no such file, or it is a link or no regular file
    |-- FileUnreadable   the file cannot be read
    `-- FileTooLarge     the file is larger than the caller allows
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

Place = tuple[str, ...]
"""Names below the store's directory. The store itself is the empty tuple."""

ENTRIES: Final = 20_000
"""Entries of a directory that are listed; the page says when there are more."""

_ABSENT: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.EINVAL}
)


class StoreFileError(Exception):
    """A file that cannot be opened; see the module."""


class FileAbsent(StoreFileError):
    """There is no such file."""


class FileUnreadable(StoreFileError):
    """The file exists but cannot be read."""


class FileTooLarge(StoreFileError):
    """The file is larger than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory."""

    name: str
    kind: str
    """directory, file, link, or other."""
    size_bytes: int
    modified_ns: int
    """UTC, since 1970."""
    inode: int


class StoreFiles:
    """A store's files. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """Raises OSError when the store is no readable directory."""
        self.root = root.resolve()
        self._descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the store."""
        os.close(self._descriptor)

    def __enter__(self) -> "StoreFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def path(self, place: Place) -> Path:
        """Return the path of a place, for display; it is never opened by this path."""
        return self.root.joinpath(*place)

    @contextlib.contextmanager
    def file(self, place: Place) -> Iterator[BinaryIO]:
        """Open a regular file for reading. Raises StoreFileError."""
        with self._opened(place, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileAbsent(f"{_name(place)} is no file")
            with open(descriptor, "rb", closefd=False) as file:
                yield file

    def read(self, place: Place, most_bytes: int) -> bytes:
        """Read a whole file. Raises StoreFileError; FileTooLarge above `most_bytes`."""
        with self.file(place) as file:
            try:
                content = file.read(most_bytes + 1)
            except OSError as error:
                raise FileUnreadable(f"{_name(place)} cannot be read: {error.strerror}") from error
        if len(content) > most_bytes:
            raise FileTooLarge(f"{_name(place)} is larger than {most_bytes:,} bytes")
        return content

    def entries(self, place: Place) -> list[Entry]:
        """Return the entries of a directory by name, at most ENTRIES. Raises StoreFileError."""
        found = []
        with self._opened(place, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            try:
                with os.scandir(descriptor) as listing:
                    for item in listing:
                        with contextlib.suppress(OSError):  # removed meanwhile
                            found.append(_entry(item))
                        if len(found) >= ENTRIES:
                            break
            except OSError as error:
                raise FileUnreadable(f"{_name(place)} cannot be read: {error.strerror}") from error
        return sorted(found, key=lambda entry: entry.name)

    def about(self, place: Place) -> Entry:
        """Return the entry of a place. Links are not followed. Raises StoreFileError."""
        if not place:
            return _about("", os.fstat(self._descriptor))
        with self._opened(place[:-1], os.O_RDONLY | os.O_DIRECTORY) as parent:
            try:
                found = os.stat(place[-1], dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                raise _refused(place, error) from error
        return _about(place[-1], found)

    @contextlib.contextmanager
    def _opened(self, place: Place, flags: int) -> Iterator[int]:
        # Opened, not duplicated: duplicates would share the position in the listing.
        here = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(".", here, dir_fd=self._descriptor)
        try:
            for number, name in enumerate(place):
                if name in ("", ".", "..") or "/" in name or "\0" in name:
                    raise FileAbsent(f"{_name(place)} is no file name")
                last = number == len(place) - 1
                how = flags if last else os.O_RDONLY | os.O_DIRECTORY
                try:
                    step = os.open(name, how | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
                except (OSError, UnicodeEncodeError) as error:
                    raise _refused(place, error) from error
                os.close(descriptor)
                descriptor = step
            yield descriptor
        finally:
            os.close(descriptor)


def _entry(item: os.DirEntry[str]) -> Entry:
    return _about(item.name, item.stat(follow_symlinks=False))


def _about(name: str, found: os.stat_result) -> Entry:
    mode = found.st_mode
    kind = (
        "directory" if stat.S_ISDIR(mode)
        else "file" if stat.S_ISREG(mode)
        else "link" if stat.S_ISLNK(mode)
        else "other"
    )  # fmt: skip
    return Entry(
        name=name,
        kind=kind,
        size_bytes=found.st_size,
        modified_ns=found.st_mtime_ns,
        inode=found.st_ino,
    )


def _refused(place: Place, error: OSError | UnicodeEncodeError) -> StoreFileError:
    if isinstance(error, OSError) and error.errno not in _ABSENT:
        return FileUnreadable(f"{_name(place)} cannot be read: {error.strerror}")
    return FileAbsent(f"there is no {_name(place)}")


def _name(place: Place) -> str:
    return "/".join(place) or "the store"

"""The files of a store, opened step by step from its own directory: nothing else can be reached.

A place is a tuple of names. Each is opened relative to the descriptor of the directory before it,
and no symbolic link is followed, so that neither a name nor a link, nor one that is made meanwhile,
leads out of the store (openat(2), O_NOFOLLOW). Only directories and regular files are opened.

    VaultError
    |-- Absent       there is no such file, or it is a link or no regular one
    |-- Unreadable   it cannot be read
    `-- TooLarge     it is larger than whoever asked wants
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
"""Names from the store's directory down; the store itself is the empty one."""

ENTRIES: Final = 20_000
"""Of a directory, more are not listed, which is said."""

_ABSENT: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.EINVAL}
)


class VaultError(Exception):
    """A file that is not to be had; see the module."""


class Absent(VaultError):
    """There is no such file."""


class Unreadable(VaultError):
    """It is there and cannot be read."""


class TooLarge(VaultError):
    """It is larger than asked for."""


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


class Vault:
    """A store's files. Safe to use from several threads."""

    def __init__(self, root: Path) -> None:
        """Raises OSError where the store is no directory that can be read."""
        self.root = root.resolve()
        self._descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let the store go."""
        os.close(self._descriptor)

    def __enter__(self) -> "Vault":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def path(self, place: Place) -> Path:
        """Where a place is, to be shown; it is never opened by this."""
        return self.root.joinpath(*place)

    @contextlib.contextmanager
    def file(self, place: Place) -> Iterator[BinaryIO]:
        """A regular file, for reading. Raises VaultError."""
        with self._opened(place, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Absent(f"{_name(place)} is no file")
            with open(descriptor, "rb", closefd=False) as file:
                yield file

    def read(self, place: Place, most_bytes: int) -> bytes:
        """A whole file. Raises VaultError; TooLarge above `most_bytes`."""
        with self.file(place) as file:
            try:
                content = file.read(most_bytes + 1)
            except OSError as error:
                raise Unreadable(f"{_name(place)} cannot be read: {error.strerror}") from error
        if len(content) > most_bytes:
            raise TooLarge(f"{_name(place)} is larger than {most_bytes:,} bytes")
        return content

    def entries(self, place: Place) -> list[Entry]:
        """What is in a directory, by name; at most ENTRIES. Raises VaultError."""
        found = []
        with self._opened(place, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            try:
                with os.scandir(descriptor) as listing:
                    for item in listing:
                        with contextlib.suppress(OSError):  # gone meanwhile
                            found.append(_entry(item))
                        if len(found) >= ENTRIES:
                            break
            except OSError as error:
                raise Unreadable(f"{_name(place)} cannot be read: {error.strerror}") from error
        return sorted(found, key=lambda entry: entry.name)

    def about(self, place: Place) -> Entry:
        """What a place is; links are told as such and not followed. Raises VaultError."""
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
        # Opened, not duplicated: duplicates would share one position in the listing.
        here = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(".", here, dir_fd=self._descriptor)
        try:
            for number, name in enumerate(place):
                if name in ("", ".", "..") or "/" in name or "\0" in name:
                    raise Absent(f"{_name(place)} is no name of a file")
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


def _refused(place: Place, error: OSError | UnicodeEncodeError) -> VaultError:
    if isinstance(error, OSError) and error.errno not in _ABSENT:
        return Unreadable(f"{_name(place)} cannot be read: {error.strerror}")
    return Absent(f"there is no {_name(place)}")


def _name(place: Place) -> str:
    return "/".join(place) or "the store"

"""A run as a zip file that is made while it is sent: it needs little memory for any size of run.

A file that still grows is sent with its present size. The archive leaves out links, unreadable
files and the disks of running nodes, and lists them in a file of its own.
"""

import io
import itertools
import time
import zipfile
from collections.abc import Iterator
from typing import Final

from harness.serve.store_files import Entry, Place, StoreFileError, StoreFiles

CHUNK_BYTES: Final = 256 << 10
FILES: Final = 200_000
LEFT_OUT: Final = "LEFT-OUT.txt"
DISKS: Final = ("data.img",)
"""The disk of a node. The run has copies of what was read from it."""
STORED: Final = (".parquet", ".zip", ".gz", ".zst", ".png")
"""Files that are compressed already."""


class _Pipe(io.RawIOBase):
    """A buffer: the zip file is written into it and taken out of it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        part = bytes(data)  # type: ignore[call-overload]
        self._parts.append(part)
        return len(part)

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def zip_chunks(store_files: StoreFiles, place: Place) -> Iterator[bytes]:
    """Yield the bytes of the archive. Raises StoreFileError at once when there is no directory."""
    store_files.entries(place)
    return _zip_chunks(store_files, place)


def _zip_chunks(store_files: StoreFiles, place: Place) -> Iterator[bytes]:
    pipe, left_out = _Pipe(), []
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        for number, (here, entry) in enumerate(_walk(store_files, place)):
            name = "/".join((*place[-2:], *here[len(place) :]))
            if entry.kind != "file" or entry.name in DISKS or number >= FILES:
                why = "a disk" if entry.name in DISKS else entry.kind
                left_out.append(f"{name}: {why if here[-1:] == (entry.name,) else entry.name}")
                continue
            try:
                with (
                    store_files.file(here) as source,
                    archive.open(_info(name, entry), "w") as target,
                ):
                    left = entry.size_bytes
                    while left > 0 and (part := source.read(min(left, CHUNK_BYTES))):
                        left -= len(part)
                        target.write(part)
                        yield pipe.taken()
            except (StoreFileError, OSError) as error:
                left_out.append(f"{name}: {error}")
        if left_out:
            text = "Not in this archive:\n" + "".join(f"{line}\n" for line in left_out[:FILES])
            archive.writestr("/".join((*place[-2:], LEFT_OUT)), text)
    yield pipe.taken()


def _walk(store_files: StoreFiles, place: Place) -> Iterator[tuple[Place, Entry]]:
    """Yield everything below a directory except directories, in the order of names."""
    waiting = [place]
    for number in itertools.count():
        if not waiting:
            return
        if number == FILES:
            more = f"and {len(waiting)} more directories"
            yield place, Entry(name=more, kind="other", size_bytes=0, modified_ns=0, inode=0)
            return
        here = waiting.pop()
        try:
            entries = store_files.entries(here)
        except StoreFileError as error:
            yield here, Entry(name=str(error), kind="other", size_bytes=0, modified_ns=0, inode=0)
            continue
        for entry in entries:
            if entry.kind == "directory":
                waiting.append((*here, entry.name))
            else:
                yield (*here, entry.name), entry


def _info(name: str, entry: Entry) -> zipfile.ZipInfo:
    moment = time.gmtime(max(entry.modified_ns / 1e9, 315_532_800))[:6]
    info = zipfile.ZipInfo(name, moment)
    stored = name.endswith(STORED)
    info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    info.file_size = entry.size_bytes  # makes large files zip64
    info.external_attr = 0o644 << 16
    return info

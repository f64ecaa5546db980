"""Unpacks what a node's machine sent: only files and directories, and nothing outside of the place.

Faults damage the machine's disk, and programs run there, so its archive is not trusted.
"""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def unpack(packed: bytes, directory: Path) -> None:
    """Unpack a gzipped tar archive below `directory`; the files belong to this process's user.

    Raises tarfile.TarError and OSError.
    """
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(directory, filter="data")
        else:  # before Python 3.11.4, as in Debian 12
            tar.extractall(directory, _data(tar))


def _data(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield what the filter `data` of newer Pythons lets through, except for links."""
    for entry in tar:
        name = PurePosixPath(entry.name)
        if name.is_absolute() or ".." in name.parts:
            raise tarfile.ExtractError(f"{entry.name} is outside of the archive's directory")
        if entry.isfile() or entry.isdir():
            entry.uid, entry.gid, entry.uname, entry.gname = os.getuid(), os.getgid(), "", ""
            entry.mode = 0o755 if entry.isdir() else (entry.mode | 0o600) & 0o755
            yield entry

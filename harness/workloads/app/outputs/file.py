"""A file of lines. A line counts when it is complete; the last one counts in the end anyway."""

from pathlib import Path
from typing import Final

from harness.workloads.app.elements import Place
from harness.workloads.app.outputs.base import Elements

CHUNK_BYTES: Final = 4_000_000
"""How much is read in one poll."""
MAX_LINE_BYTES: Final = 1_000_000
"""A longer line is cut into several."""


class FileOutput:
    """Reads a file while the program appends to it. A file that got shorter, or that is another one
    now, is read again from its beginning."""

    def __init__(self, path: Path, elements: Elements) -> None:
        self.elements = elements
        self.problem: str | None = None
        self._path = path
        self._position = 0
        self._inode: int | None = None
        self._lines = 0
        self._rest = b""

    @property
    def address(self) -> str:
        """The path."""
        return str(self._path)

    def poll(self) -> None:
        """See `OutputReader`."""
        self._read(CHUNK_BYTES)

    def _read(self, size: int) -> bool:
        """Read up to `size` bytes; return whether there may be more."""
        try:
            with self._path.open("rb") as file:
                stat = self._path.stat()
                if stat.st_ino != self._inode or stat.st_size < self._position:
                    self._begin(stat.st_ino)
                file.seek(self._position)
                found = file.read(size)
        except FileNotFoundError:  # a program that writes nothing need not make its file
            return False
        except OSError as error:
            self.problem = f"{self._path}: {error.strerror or error}"
            return False
        self.problem = None
        self._position += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._add(line)
        return len(found) == size

    def _begin(self, inode: int) -> None:
        if self._inode is not None:
            self.elements.clear()
        self._inode, self._position, self._lines, self._rest = inode, 0, 0, b""

    def _add(self, line: bytes) -> None:
        self.elements.add(Place(0, self._lines), line.decode(errors="replace"))
        self._lines += 1

    def finish(self) -> None:
        """See `OutputReader`. The whole file is read again: its bytes may have changed."""
        if self._inode is not None:
            self._begin(self._inode)
        while self._read(CHUNK_BYTES):
            pass
        if self._rest:
            self._add(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Do nothing: the file is not kept open."""

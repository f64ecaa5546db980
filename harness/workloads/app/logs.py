"""What an instance prints, with times: each line of its log is `seconds since the start | text`."""

import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, Final

MAX_BYTES: Final = 50_000_000
"""The size at which a log ends; what the program prints then is dropped."""
MAX_LINE: Final = 10_000
LAST_LINES: Final = 10
CUT: Final = "highwater: the log ends here, at its greatest size; the rest is dropped"


class ProgramLog:
    """The log of one instance, over all its starts. Threads of several starts may write."""

    def __init__(self, path: Path, base_ns: int) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._base_ns = base_ns
        self._mutex = threading.Lock()
        self._written = 0
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        """The program's own last lines."""

    def follow(self, pipe: IO[bytes]) -> threading.Thread:
        """Read the pipe to its end in a thread of its own."""
        thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        thread.start()
        return thread

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(MAX_LINE):
                text = line.decode(errors="replace").rstrip()
                self.last.append(text)
                self.note(text)

    def note(self, text: str) -> None:
        """Write a line with the present time."""
        seconds = (time.monotonic_ns() - self._base_ns) / 1e9
        with self._mutex:
            if self._file.closed or self._written > MAX_BYTES:
                return
            line = f"{seconds:10.3f} | {text}\n"
            self._written += len(line)
            if self._written > MAX_BYTES:
                line += f"{seconds:10.3f} | {CUT}\n"
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        """End the log."""
        with self._mutex:
            self._file.close()

"""Joins this process's input and output with an agent's socket: `python -m ...relay HOME S`,
which waits for the socket for as many seconds: an agent makes the node's disk first.

It imports nothing of ours, so that a lost connection is had again at once.
"""

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final

SOCKET: Final = "agent.sock"
LOG: Final = "agent.log"
FAILED: Final = "failed"
"""In the agent's home: where it is called, what it tells, and why it never was there."""
CHUNK_BYTES: Final = 1 << 16


def relay(home: Path, timeout_s: float) -> None:
    """Carry bytes both ways until one side ends. Exits with a sentence when there is no agent."""
    connection = _connect(home, timeout_s)

    def inwards() -> None:
        while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=inwards, daemon=True).start()
    while chunk := connection.recv(CHUNK_BYTES):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _connect(home: Path, timeout_s: float) -> socket.socket:
    deadline_s = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(home / SOCKET))
        except OSError:
            connection.close()
            if (home / FAILED).exists():
                sys.exit((home / FAILED).read_text())
            if time.monotonic() > deadline_s:
                sys.exit(f"no agent answers in {home}: see {home / LOG}")
            time.sleep(0.05)
        else:
            return connection


if __name__ == "__main__":
    relay(Path(sys.argv[1]), float(sys.argv[2]))

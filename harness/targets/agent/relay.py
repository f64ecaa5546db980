"""Connect this process's input and output with an agent's socket: `python -m ...relay HOME S`.

It waits up to S seconds for the socket, since an agent makes the node's disk first. It imports no
other module of highwater, so that a lost connection is replaced quickly.
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
"""Files in the agent's home: its socket, its log, and the reason why it failed to start."""
CHUNK_BYTES: Final = 1 << 16


def relay(home: Path, timeout_s: float) -> None:
    """Copy bytes in both directions until one side ends. Exits with a message without an agent."""
    connection = _connect(home, timeout_s)

    def copy_input() -> None:
        while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=copy_input, daemon=True).start()
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
                sys.exit(
                    f"no agent answers in {home} after {timeout_s:.0f} s: its log is {home / LOG}"
                )
            time.sleep(0.05)
        else:
            return connection


if __name__ == "__main__":
    relay(Path(sys.argv[1]), float(sys.argv[2]))

"""Asks one ZooKeeper server for its state by its command `srvr`.

A server without a quorum answers too, and says that it serves nobody.
"""

import re
import socket
from dataclasses import dataclass
from typing import Final

TIMEOUT_S: Final = 1.0
LEADING: Final = frozenset({"leader", "standalone"})
_MODE: Final = re.compile(rb"^Mode: (\w+)", re.MULTILINE)
_ZXID: Final = re.compile(rb"^Zxid: 0x([0-9a-f]+)", re.MULTILINE)
_LONGEST: Final = 1 << 16

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What a server that serves clients says of itself."""

    mode: str
    """leader, follower, observer or standalone."""
    zxid: int
    """The last transaction that it has applied; the upper 32 bits are the leader's epoch."""

    @property
    def leads(self) -> bool:
        """Whether it orders the transactions."""
        return self.mode in LEADING


def parse(answer: bytes) -> ServerState | None:
    """Return the state in an answer to `srvr`; None when the server serves nobody. Pure."""
    mode, zxid = _MODE.search(answer), _ZXID.search(answer)
    if mode is None or zxid is None:
        return None
    return ServerState(mode=mode[1].decode(), zxid=int(zxid[1], 16))


def ask(address: Address, timeout_s: float = TIMEOUT_S) -> ServerState | None:
    """Ask the server at `address`; None when it does not answer in time or serves nobody.

    The calling thread must be in a network that reaches it.
    """
    answer = b""
    try:
        with socket.create_connection(address, timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"srvr")
            while len(answer) < _LONGEST and (part := connection.recv(4096)):
                answer += part
    except OSError:
        return None
    return parse(answer)

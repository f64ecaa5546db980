"""Operations on znodes that are carried out together or not at all, and how they fail.

ZooKeeperError
├── NoNode           the znode does not exist
├── NodeExists       a znode of this path exists
├── BadVersion       the znode has another version than the operation expects
├── NotEmpty         the znode has children
├── ConnectionLost   the operation may have happened
└── SessionExpired   the session is over, and with it its ephemeral znodes; nothing happened
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

ANY_VERSION: Final = -1


class ZooKeeperError(Exception):
    """Any failure of an operation; of several, `operation` is the number of the one that failed."""

    def __init__(self, message: str = "", operation: int = 0) -> None:
        super().__init__(message)
        self.operation = operation


class NoNode(ZooKeeperError):
    """The znode does not exist."""


class NodeExists(ZooKeeperError):
    """A znode of this path exists."""


class BadVersion(ZooKeeperError):
    """The znode has another version than the operation expects."""


class NotEmpty(ZooKeeperError):
    """The znode has children."""


class ConnectionLost(ZooKeeperError):
    """The connection ended before the answer: the operation may have happened."""


class SessionExpired(ZooKeeperError):
    """The session is over."""


class Stat(NamedTuple):
    """What ZooKeeper keeps of a znode besides its data."""

    czxid: int
    """The number of the transaction that created the znode: it rises with each one."""
    version: int
    """How often the data was set."""
    owner: int = 0
    """The session of an ephemeral znode; 0 for others."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace the data of a znode, if it has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode without children, if it has this version."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Do nothing, if a znode has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check

"""Reads ZooKeeper's transaction logs: every change of a znode, in the order of their zxids. Pure.

The format is that of `FileTxnLog` of ZooKeeper 3.4 to 3.9, in the encoding of its records (jute):
a header, then for each transaction an Adler-32 checksum, a length, the transaction and the byte
0x42. A server allocates its log ahead of what it writes, so zeros end it. A server that was killed
may leave a torn transaction, which ends the log too.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"ZKLG"
HEADER_BYTES: Final = 16
END: Final = 0x42

CREATE: Final = frozenset({1, 15, 19, 21})
"""create, create2, createContainer, createTTL."""
DELETE: Final = frozenset({2, 20})
"""delete, deleteContainer."""
SET_DATA: Final = 5
MULTI: Final = 14
CLOSE_SESSION: Final = -11
ERROR: Final = -1
WITHOUT_EPHEMERAL: Final = frozenset({19, 21})
"""Kinds of create that have no flag for ephemeral znodes."""


class TransactionLogError(Exception):
    """The bytes are no transaction log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One znode after a transaction."""

    path: str
    data: bytes | None
    """None: the znode was deleted."""
    version: int = 0
    """The znode's version: 0 when it was created."""
    ephemeral: bool = False
    """Whether the znode ends with the session that created it."""
    created: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction. Those of an ensemble are ordered by `zxid`."""

    zxid: int
    """The upper 32 bits are the epoch of the ensemble's leader, the lower ones a counter from 1."""
    at_ms: int
    """ms since 1970, by the wall clock of the ensemble's leader."""
    session: int
    changes: tuple[Change, ...] = ()
    closes_session: bool = False

    @property
    def epoch(self) -> int:
        """The epoch of the ensemble's leader."""
        return self.zxid >> 32


class _Reader:
    """Reads jute's primitive values. Raises struct.error, IndexError beyond the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (found,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(found)

    def buffer(self) -> bytes:
        length = max(self.number("i"), 0)  # -1: no bytes
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise IndexError("the buffer is cut off")
        self._at += length
        return found

    def text(self) -> str:
        return self.buffer().decode()

    def skip_acl(self) -> None:
        for _ in range(max(self.number("i"), 0)):
            self.number("i")
            self.buffer()
            self.buffer()


def read_log(data: bytes) -> Iterator[Transaction]:
    """Yield the complete transactions of one log file. Raises TransactionLogError."""
    if not data:
        return  # a server was killed before it wrote the header
    if data[:4] != MAGIC:
        raise TransactionLogError(f"it begins with {data[:4]!r}, not with {MAGIC!r}")
    at = HEADER_BYTES
    while at + 12 <= len(data):
        checksum, length = struct.unpack_from(">qi", data, at)
        body = data[at + 12 : at + 12 + length]
        at += 12 + length + 1
        if length <= 0 or at > len(data) or data[at - 1] != END or zlib.adler32(body) != checksum:
            return
        yield _transaction(body)


def _transaction(body: bytes) -> Transaction:
    reader = _Reader(body)
    try:
        session, _cxid = reader.number("q"), reader.number("i")
        zxid, at_ms, kind = reader.number("q"), reader.number("q"), reader.number("i")
        changes = tuple(_changes(kind, reader))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise TransactionLogError(f"a transaction cannot be read: {error}") from error
    return Transaction(
        zxid=zxid,
        at_ms=at_ms,
        session=session,
        changes=changes,
        closes_session=kind == CLOSE_SESSION,
    )


def _changes(kind: int, reader: _Reader) -> Iterator[Change]:
    """Yield what a transaction of this kind changes. Kinds that change no data yield nothing."""
    if kind in CREATE:
        path, data = reader.text(), reader.buffer()
        reader.skip_acl()
        ephemeral = kind not in WITHOUT_EPHEMERAL and bool(reader.number("b"))
        yield Change(path=path, data=data, ephemeral=ephemeral, created=True)
    elif kind in DELETE:
        yield Change(path=reader.text(), data=None)
    elif kind == SET_DATA:
        yield Change(path=reader.text(), data=reader.buffer(), version=reader.number("i"))
    elif kind == MULTI:
        for _ in range(max(reader.number("i"), 0)):
            part = reader.number("i")
            yield from _changes(part, _Reader(reader.buffer()))


def merged(logs: Iterable[Iterable[Transaction]]) -> list[Transaction]:
    """Return the transactions of all servers' logs, by zxid.

    A server that was far behind got a snapshot, so its log lacks transactions that others have.
    Some may have been discarded later: see `comparison`.
    """
    found = {each.zxid: each for log in logs for each in log}
    return [found[zxid] for zxid in sorted(found)]

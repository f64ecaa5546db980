"""The accepted connections of a node, and their limits: number, idle time, bytes, log lines.

The limits are Kafka's: `max.connections` of a node, `max.connections.per.ip`,
`connections.max.idle.ms` and `queued.max.request.bytes`. `highwater.queued.max.response.bytes` is
the same for responses. A new connection above a limit is closed. The listeners between nodes are
exempt from the node's limit, as in Kafka: clients must not prevent replication.

A peer that misbehaves costs a log line, but the lines are limited: after LOG_BURST lines at once
there are LOG_PER_S per second, and a line says how many were left out.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from nodes.wire.budget import ByteBudget

LOG_BURST = 200
LOG_PER_S = 10.0
SWEEPS_PER_IDLE_TIME = 4

log = logging.getLogger("nodes.wire")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Kafka's properties; idle time in milliseconds."""

    max_connections: int = 2**31 - 1
    max_per_ip: int = 2**31 - 1
    max_idle_ms: int = 600_000
    max_request_bytes: int = 256 << 20
    """Of all requests that are not complete, or have no response yet."""
    max_response_bytes: int = 256 << 20
    """Of all responses that their peers have not read."""


class Connection(Protocol):
    """What the registry needs of a connection."""

    peer_host: str
    last_active_s: float

    @property
    def busy(self) -> bool:
        """Whether the peer waits for a response."""
        ...

    def close(self) -> None:
        """Close it at once."""
        ...


class Connections:
    """See the module. There is one for all listeners of a node."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.request_budget = ByteBudget("requests", limits.max_request_bytes, largest_first=True)
        self.response_budget = ByteBudget(
            "responses", limits.max_response_bytes, largest_first=False
        )
        self._open: dict[Connection, None] = {}
        self._per_ip: dict[str, int] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._lines = LogRateLimit(LOG_BURST, LOG_PER_S)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, *, exempt: bool) -> str:
        """Admit `connection` and return "", or return why not. End it with `forget`."""
        host = connection.peer_host
        if self._per_ip.get(host, 0) >= self.limits.max_per_ip:
            return f"it has {self.limits.max_per_ip} connections (max.connections.per.ip)"
        if not exempt and len(self._open) >= self.limits.max_connections:
            return f"there are {self.limits.max_connections} connections (max.connections)"
        self._open[connection] = None
        self._per_ip[host] = self._per_ip.get(host, 0) + 1
        if self._sweeper is None:
            self._sweep_later()
        return ""

    def forget(self, connection: Connection) -> None:
        """A connection has ended. A connection that was not admitted is ignored."""
        if connection not in self._open:
            return
        del self._open[connection]
        left = self._per_ip[connection.peer_host] - 1
        if left:
            self._per_ip[connection.peer_host] = left
        else:
            del self._per_ip[connection.peer_host]

    def close(self) -> None:
        """Close every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._open):
            connection.close()

    def warn(self, message: str, *args: object) -> None:
        """Log a line about a peer that misbehaves, or count it as left out."""
        self._lines.write(asyncio.get_running_loop().time(), log.warning, message, *args)

    def fail(self, error: BaseException, message: str, *args: object) -> None:
        """The same for a bug of this program, with its traceback."""
        write = partial(log.error, exc_info=error)
        self._lines.write(asyncio.get_running_loop().time(), write, message, *args)

    def _sweep_later(self) -> None:
        interval_s = self.limits.max_idle_ms / 1000 / SWEEPS_PER_IDLE_TIME
        self._sweeper = asyncio.get_running_loop().call_later(interval_s, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle for too long. No timer runs without connections."""
        now_s = asyncio.get_running_loop().time()
        oldest_s = now_s - self.limits.max_idle_ms / 1000
        for connection in list(self._open):
            if connection.last_active_s <= oldest_s and not connection.busy:
                connection.close()
        self._sweeper = None
        if self._open:
            self._sweep_later()


class LogRateLimit:
    """A token bucket for log lines. Pure; times are seconds of any monotonic clock."""

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = float(burst)
        self._per_s = per_s
        self._tokens = float(burst)
        self._at_s: float | None = None
        self._left_out = 0

    def write(self, now_s: float, write: Callable[..., None], message: str, *args: object) -> None:
        """Pass the line to `write` if there is a token, after a line about those left out."""
        if self._at_s is not None:
            earned = (now_s - self._at_s) * self._per_s
            self._tokens = min(self._burst, self._tokens + max(earned, 0.0))
        self._at_s = now_s
        if self._tokens < 1:
            self._left_out += 1
            return
        self._tokens -= 1
        if self._left_out:
            log.warning("%d more lines about bad peers were left out", self._left_out)
            self._left_out = 0
        write(message, *args)

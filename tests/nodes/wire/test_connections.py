"""Limits on connections, idle time and log lines."""

import asyncio
from collections.abc import Callable

import pytest

from nodes.wire.connections import ConnectionLimits, Connections, LogRateLimit


class Fake:
    """A connection of `peer_host`."""

    def __init__(self, peer_host: str = "h", *, busy: bool = False) -> None:
        self.peer_host = peer_host
        self.last_active_s = asyncio.get_running_loop().time()
        self.busy = busy
        self.ended = asyncio.Event()

    def close(self) -> None:
        self.ended.set()


def in_loop(check: Callable[[], None]) -> None:
    """Run `check` inside of an event loop."""

    async def run() -> None:
        check()

    asyncio.run(run())


def test_max_connections_exempts_nodes() -> None:
    """max.connections is for clients: nodes are admitted above it."""

    def check() -> None:
        connections = Connections(ConnectionLimits(max_connections=2))
        first = Fake("a")
        assert connections.admit(first, exempt=False) == ""
        assert connections.admit(Fake("b"), exempt=False) == ""
        assert "max.connections" in connections.admit(Fake("c"), exempt=False)
        assert connections.admit(Fake("d"), exempt=True) == ""
        assert len(connections) == 3
        connections.close()

    in_loop(check)


def test_max_connections_per_ip() -> None:
    """It counts each host by itself, without connections that ended."""

    def check() -> None:
        connections = Connections(ConnectionLimits(max_per_ip=1))
        first, refused = Fake("a"), Fake("a")
        assert connections.admit(first, exempt=False) == ""
        assert "max.connections.per.ip" in connections.admit(refused, exempt=True)
        assert connections.admit(Fake("b"), exempt=False) == ""
        connections.forget(refused)  # never was in
        assert "max.connections.per.ip" in connections.admit(refused, exempt=False)
        connections.forget(first)
        connections.forget(first)
        assert connections.admit(refused, exempt=False) == ""
        connections.close()

    in_loop(check)


def test_idle_connections_are_closed() -> None:
    """But not those that wait for a response, however long that takes."""

    async def run() -> None:
        connections = Connections(ConnectionLimits(max_idle_ms=20))
        idle, waiting = Fake(), Fake(busy=True)
        for each in (idle, waiting):
            assert connections.admit(each, exempt=False) == ""
        async with asyncio.timeout(20):
            await idle.ended.wait()
        assert not waiting.ended.is_set()
        connections.close()
        assert waiting.ended.is_set()

    asyncio.run(run())


def test_log_lines_are_limited_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A burst passes, then so many per second; one line says how many were left out."""
    lines: list[str] = []
    limit = LogRateLimit(burst=2, per_s=0.5)

    def write(message: str, *args: object) -> None:
        lines.append(message % args)

    for number in range(5):
        limit.write(100.0, write, "line %d", number)
    assert lines == ["line 0", "line 1"]
    limit.write(101.0, write, "line %d", 5)
    assert len(lines) == 2
    limit.write(102.1, write, "line %d", 6)
    assert lines[2:] == ["line 6"]
    assert caplog.messages == ["4 more lines about bad peers were left out"]
    limit.write(1000.0, write, "line %d", 7)
    limit.write(1000.0, write, "line %d", 8)
    limit.write(1000.0, write, "line %d", 9)
    assert lines[3:] == ["line 7", "line 8"]

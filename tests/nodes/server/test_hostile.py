"""Peers that send anything but Kafka's protocol: they cost a log line, and nobody else notices."""

import asyncio
import logging
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.support.nodes.cluster import PATIENCE_S, Cluster, running

LISTENERS = ("PLAINTEXT", "CONTROLLER")
API_VERSIONS, METADATA = 18, 3


def frame(*parts: bytes) -> bytes:
    """A frame with a true length."""
    return struct.pack(">i", sum(map(len, parts))) + b"".join(parts)


def head(api_key: int, version: int, client_id: bytes = b"\0\1x", correlation_id: int = 7) -> bytes:
    """The header of a request, version 1."""
    return struct.pack(">hhi", api_key, version, correlation_id) + client_id


NOISE = random.Random(5).randbytes(4096)
A_MILLION = struct.pack(">i", 1_000_000)
REFUSED = {
    "noise": b"\x7f" + NOISE,
    "http": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + NOISE,
    "length beyond the limit": struct.pack(">i", 0x7FFF_FFFF) + b"x",
    "negative length": struct.pack(">i", -1),
    "empty frame": frame(b""),
    "frame shorter than a header": frame(b"\0\3\0"),
    "client id beyond the frame": frame(head(METADATA, 1, struct.pack(">h", 99))),
    "client id that is no text": frame(head(METADATA, 1, b"\0\2\xff\xfe")),
    "no such api": frame(head(999, 0)),
    "negative api": frame(head(-5, 0)),
    "version too new": frame(head(METADATA, 99)),
    "version too old": frame(head(0, 0)),
    "body cut short": frame(head(METADATA, 1), A_MILLION, b"\0\1"),
    "array longer than memory": frame(head(METADATA, 1), struct.pack(">i", 0x7FFF_FFFF)),
    "varint without an end": frame(head(METADATA, 12), b"\xff" * 64),
    "many bad requests at once": frame(head(999, 0)) * 100,
    "noise after a request": frame(head(API_VERSIONS, 0)) + b"\x7f" + NOISE,
}


def port(cluster: Cluster, listener: str) -> int:
    """Where the only node listens."""
    node = cluster.nodes[1]
    assert node is not None
    return next(each.port for each in node.config.listeners if each.listener == listener)


@asynccontextmanager
async def connection(
    cluster: Cluster, listener: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port(cluster, listener))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The answer to a request that every listener serves."""
    writer.write(frame(head(API_VERSIONS, 0)))
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Everything until the node closes the connection, in whatever manner."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionError:
        return b""


def besieged(
    listener: str,
    attack: Callable[[Cluster], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> list[logging.LogRecord]:
    """Run `attack` on a node that others are connected to; what the node logged of it.

    Asserts that those others are still served afterwards, by the same connection, and newcomers by
    a new one.
    """

    async def run() -> None:
        async with running(1) as cluster, connection(cluster, listener) as bystander:
            before = await answered(*bystander)
            caplog.clear()
            await attack(cluster)
            records[:] = [each for each in caplog.records if each.name == "nodes.wire"]
            assert await answered(*bystander) == before
            async with connection(cluster, listener) as newcomer:
                assert await answered(*newcomer) == before
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)

    records: list[logging.LogRecord] = []
    with caplog.at_level(logging.INFO, logger="nodes"):
        asyncio.run(run())
    return records


@pytest.mark.parametrize("listener", LISTENERS)
def test_garbage_closes_its_connection_with_one_log_line(
    listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only that connection, with a line that says why, and no traceback."""

    async def attack(cluster: Cluster) -> None:
        for name, data in REFUSED.items():
            seen = len(caplog.records)
            async with connection(cluster, listener) as (reader, writer):
                writer.write(data)
                await read_to_end(reader)
            lines = [each for each in caplog.records[seen:] if each.name == "nodes.wire"]
            assert len(lines) == 1, (name, [each.getMessage() for each in lines])
            assert lines[0].getMessage().startswith("closing the connection of 127.0.0.1"), name
            assert lines[0].exc_info is None, name

    assert len(besieged(listener, attack, caplog)) == len(REFUSED)


@pytest.mark.parametrize("listener", LISTENERS)
def test_peer_that_disconnects_causes_no_log_line(
    listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a frame, or before it reads the response."""

    async def attack(cluster: Cluster) -> None:
        whole = frame(head(API_VERSIONS, 0))
        for sent in (b"", b"\0", whole[:4], whole[:9], whole, whole * 50):
            async with connection(cluster, listener) as (_, writer):
                writer.write(sent)

    assert besieged(listener, attack, caplog) == []


@pytest.mark.parametrize("listener", LISTENERS)
def test_idle_connections_do_not_delay_others(
    listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    """200 of them, half with an incomplete frame."""

    async def attack(cluster: Cluster) -> None:
        idle = [
            await asyncio.open_connection("127.0.0.1", port(cluster, listener)) for _ in range(200)
        ]
        for _, writer in idle[::2]:
            writer.write(struct.pack(">i", 1 << 20) + b"half a")
        async with connection(cluster, listener) as another:
            assert await answered(*another)
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*(w.wait_closed() for _, w in idle), return_exceptions=True)

    assert besieged(listener, attack, caplog) == []


def test_unknown_api_versions_version_is_answered_in_version_0(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the connection stays open."""

    async def attack(cluster: Cluster) -> None:
        async with connection(cluster, "PLAINTEXT") as (reader, writer):
            writer.write(frame(head(API_VERSIONS, 99), b"whatever that version holds"))
            size, correlation_id, error = struct.unpack(">iih", await reader.readexactly(10))
            assert (correlation_id, error) == (7, 35)  # UNSUPPORTED_VERSION
            body = await reader.readexactly(size - 6)
            (count,) = struct.unpack_from(">i", body)
            rows = struct.iter_unpack(">hhh", body[4 : 4 + 6 * count])
            ranges = {key: (oldest, newest) for key, oldest, newest in rows}
            # Without a version 0 of Produce, older librdkafka sends everything uncompressed.
            assert ranges[0][0] == 0 < ranges[0][1]
            assert await answered(reader, writer)

    assert besieged("PLAINTEXT", attack, caplog) == []


def test_failed_acks_0_produce_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One log line, as in Kafka."""

    async def attack(cluster: Cluster) -> None:
        null, nothing = struct.pack(">h", -1), struct.pack(">i", 0)
        topic = struct.pack(">ih", 1, 2) + b"no" + struct.pack(">iii", 1, 0, 0)
        produce = frame(head(0, 3), null, struct.pack(">h", 0), nothing, topic)
        async with connection(cluster, "PLAINTEXT") as (reader, writer):
            writer.write(produce)
            assert await read_to_end(reader) == b""

    (line,) = besieged("PLAINTEXT", attack, caplog)
    assert "acks=0 produce to no-0: " in line.getMessage()
    assert line.exc_info is None

"""The raw clients against a sink, and against brokers that misbehave."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from crc32c import crc32c

from harness.bench.clients import frames, loops
from harness.bench.clients.loops import ClientError, Window
from nodes.ids import Offset
from nodes.log.batch import Record, decode_records, encode_batch
from nodes.wire.codec import decode_request

NOW_MS = 1_700_000_000_000
MS = 1_000_000


def soon(duration_ms: int = 100) -> Window:
    """A window that begins almost at once."""
    now = time.monotonic_ns()
    return Window(now + 10 * MS, now + duration_ms * MS)


@contextmanager
def serving(work: Callable[[socket.socket, Callable[[], bool]], None]) -> Iterator[tuple[str, int]]:
    """A listener that `work` serves on a thread, until the end of the block."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=work, args=(listener, ended.is_set))
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:
            ended.set()
            thread.join(10)
            assert not thread.is_alive()


def sink(request_bytes: int, answer: bytes) -> Callable[[socket.socket, Callable[[], bool]], None]:
    return lambda listener, ended: loops.sink(listener, request_bytes, answer, ended)


def answering(answer: bytes) -> Callable[[socket.socket, Callable[[], bool]], None]:
    """A broker that answers the first request with `answer` and hangs up."""

    def work(listener: socket.socket, _ended: Callable[[], bool]) -> None:
        listener.settimeout(5)
        peer, _ = listener.accept()
        with peer:
            peer.recv(1 << 20)
            peer.sendall(answer)

    return work


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("connections", [1, 3])
def test_pipelined_counts_what_was_answered(acks: int, connections: int) -> None:
    """Every answer counts for the messages of its request, on all connections."""
    frame = frames.produce("t", acks=acks, messages=3, size=10, now_ms=NOW_MS)
    with serving(sink(len(frame.data), frames.produce_answer("t"))) as address:
        sockets = [loops.connect(address) for _ in range(connections)]
        counted = loops.pipelined(sockets, frame, 5, soon())
        for each in sockets:
            each.close()
    assert counted.messages > 0
    assert counted.messages % frame.messages == 0
    assert counted.seconds > 0


def test_pipelined_keeps_its_window() -> None:
    """No more than the requests allowed are ever unanswered."""
    frame = frames.produce("t", acks=1, messages=1, size=100, now_ms=NOW_MS)
    answer = frames.produce_answer("t")
    seen: list[int] = []

    def work(listener: socket.socket, ended: Callable[[], bool]) -> None:
        listener.settimeout(5)
        peer, _ = listener.accept()
        peer.settimeout(0.1)
        with peer:
            held = 0
            while not ended():
                try:
                    held += len(peer.recv(1 << 20))
                except TimeoutError:
                    continue
                except OSError:
                    return
                time.sleep(0.002)  # whatever else it would send is on its way now
                seen.append(held // len(frame.data))
                held -= len(frame.data) * seen[-1]
                try:
                    peer.sendall(answer * seen[-1])
                except OSError:
                    return

    with serving(work) as address, loops.connect(address) as connection:
        loops.pipelined([connection], frame, 4, soon())
    assert 0 < max(seen) <= 4


@pytest.mark.parametrize("unanswered", [None, b"x" * 50])
def test_latencies_are_of_the_window(unanswered: bytes | None) -> None:
    """What was sent before the window is no part of the result."""
    frame = frames.produce("t", acks=1, messages=1, size=10, now_ms=NOW_MS)
    size = len(frame.data) + len(unanswered or b"")
    with (
        serving(sink(size, frames.produce_answer("t"))) as address,
        loops.connect(address) as connection,
    ):
        window = soon()
        taken = loops.latencies(connection, frame, unanswered, window)
    assert len(taken) > 0
    assert all(each > 0 for each in taken)
    assert sum(taken) < (window.end_ns - window.warm_ns) + 10_000 * MS


def numbered(batches: int, records: int) -> bytes:
    """Batches as they follow one another in a log."""
    return b"".join(
        encode_batch(
            [Record(value=b"v")] * records,
            base_offset=Offset(number * records),
            timestamp_ms=NOW_MS,
        )
        for number in range(batches)
    )


@pytest.mark.parametrize("check", [None, crc32c])
def test_consume_counts_whole_batches(check: Callable[[memoryview], int] | None) -> None:
    """A batch that is cut at the end of a fetch counts when it comes whole."""
    frame = frames.fetch("t", fetch_bytes=1000)
    answer = frames.fetch_answer("t", numbered(2, 3) + numbered(1, 3)[:-1])
    with (
        serving(sink(len(frame.data), answer)) as address,
        loops.connect(address) as connection,
    ):
        counted = loops.consume(connection, frame, soon(), check)
    assert counted.messages > 0
    assert counted.messages % 6 == 0


def test_consume_sees_a_wrong_checksum() -> None:
    """With checks asked for, a flipped bit is no message."""
    records = bytearray(numbered(1, 3))
    records[-1] ^= 1
    frame = frames.fetch("t", fetch_bytes=1000)
    answer = frames.fetch_answer("t", bytes(records))
    with (
        serving(sink(len(frame.data), answer)) as address,
        loops.connect(address) as connection,
        pytest.raises(ClientError, match="checksum"),
    ):
        loops.consume(connection, frame, soon(), crc32c)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(frames.produce_answer("t", 6), "error code 6"), (b"", "went away|closed")],
    ids=["error", "closed"],
)
@pytest.mark.parametrize(
    "loop",
    [
        lambda connection, frame: loops.pipelined([connection], frame, 2, soon()),
        lambda connection, frame: loops.latencies(connection, frame, None, soon()),
    ],
    ids=["pipelined", "latencies"],
)
def test_refusals_end_a_client(
    answer: bytes, why: str, loop: Callable[[socket.socket, loops.Frame], object]
) -> None:
    """An error code and a closed connection are each a sentence."""
    frame = frames.produce("t", acks=1, messages=1, size=10, now_ms=NOW_MS)
    with (
        serving(answering(answer)) as address,
        loops.connect(address) as connection,
        pytest.raises(ClientError, match=why),
    ):
        loop(connection, frame)


def test_nobody_there() -> None:
    """So is a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()[:2]
    with pytest.raises(ClientError, match="cannot connect"):
        loops.connect(address)


def test_silence_ends_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes everything and answers nothing is given up."""
    monkeypatch.setattr(loops, "SILENCE_S", 1.0)
    frame = frames.produce("t", acks=1, messages=1, size=10, now_ms=NOW_MS)
    for loop in (
        lambda c: loops.pipelined([c], frame, 2, soon()),
        lambda c: loops.latencies(c, frame, None, soon()),
    ):
        with (
            serving(sink(1 << 30, b"")) as address,
            loops.connect(address) as connection,
            pytest.raises(ClientError),
        ):
            loop(connection)


def test_write_and_fetch_once() -> None:
    """All sends are answered before `write` returns; a fetch gives the records as they are."""
    frame = frames.produce("t", acks=-1, messages=1, size=10, now_ms=NOW_MS)
    with (
        serving(sink(len(frame.data), frames.produce_answer("t"))) as address,
        loops.connect(address) as connection,
    ):
        loops.write(connection, frame, in_flight=3, requests=[frame.data] * 10)
    fetch = frames.fetch("t", fetch_bytes=1000)
    records = numbered(2, 3)
    with (
        serving(sink(len(fetch.data), frames.fetch_answer("t", records))) as address,
        loops.connect(address) as connection,
    ):
        assert loops.batch_sizes(loops.fetch_once(connection, fetch)) == [3, 3]


def test_acks_0_is_answered_now_and_then() -> None:
    """Its frame is unanswered sends with one acknowledged message behind them, bounded in size."""
    frame = frames.produce("t", acks=0, messages=10, size=1024, now_ms=NOW_MS)
    at, seen = 0, []
    while at < len(frame.data):
        (length,) = struct.unpack_from(">i", frame.data, at)
        seen.append(decode_request(frame.data[at + 4 : at + 4 + length]).entity)
        at += 4 + length
    assert [request.acks for request in seen] == [0] * (len(seen) - 1) + [1]
    assert frame.messages == 10 * (len(seen) - 1) + 1
    assert len(frame.data) <= frames.BARRIER_BYTES + 2 * 1024


def test_fetch_offset_is_where_it_is_said_to_be() -> None:
    """A patched request asks for that offset, and for nothing else that is new."""
    frame = frames.fetch("topic", fetch_bytes=12_345)
    data = bytearray(frame.data)
    struct.pack_into(">q", data, frame.offset_at, 1 << 40)
    request = decode_request(bytes(data[4:])).entity
    part = request.topics[0].partitions[0]
    assert (part.fetch_offset, part.partition_max_bytes, request.max_bytes) == (
        1 << 40, 12_345, 12_345,
    )  # fmt: skip


def test_keyed_requests_draw_from_so_many_keys() -> None:
    """The same ones each time, and all answered like the frame's."""
    shape = {"messages": 10, "size": 20, "now_ms": NOW_MS}
    made = list(frames.keyed("t", sends=30, keys=7, **shape))
    assert made == list(frames.keyed("t", sends=30, keys=7, **shape))
    keys = set()
    for request in made:
        records = decode_request(request[4:]).entity.topic_data[0].partition_data[0].records
        decoded = decode_records(records)
        assert [len(each.value or b"") for each in decoded] == [20] * 10
        keys |= {each.key for each in decoded}
    assert len(keys) == 7

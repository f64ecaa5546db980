"""TCP in a simulated world, seen through asyncio's streams."""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.simulation.world.network.link import NetworkSettings
from harness.simulation.world.world import NS
from nemesis.hosts import Cut, LinkQuality
from tests.support.simulation.worlds import ECHO, Bare, MakeBare, echo_server

CLIENT, SERVER = 0, 1


def serving(make: MakeBare, **options: Any) -> Bare:
    """Host 1 echoes; host 0 is free for a client."""
    world = make(**options)
    world.hosts[SERVER].boot(echo_server)
    world.world.run_for(0.1)
    return world


def address(world: Bare) -> str:
    return world.hosts[SERVER].address


def later(world: Bare, seconds: float, do: Callable[..., Any], *arguments: Any) -> None:
    world.world.after(int(seconds * NS), do, *arguments)


def now() -> float:
    return asyncio.get_running_loop().time()


Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_however_they_are_torn_and_lost(make: MakeBare, seed: int) -> None:
    """Fragments and losses delay bytes; none is lost, doubled or out of order."""
    world = serving(make, seed=seed, network=NetworkSettings(fragmented=0.5, lost=0.05))
    sent = b"".join(number.to_bytes(4, "big") for number in range(50_000))

    async def main() -> bytes:
        reader, writer = await world.connect()

        async def write() -> None:
            for start in range(0, len(sent), 1777):
                writer.write(sent[start : start + 1777])
                await writer.drain()
            writer.write_eof()

        writing = asyncio.ensure_future(write())
        received = await reader.read(-1)
        await writing
        writer.close()
        return received

    assert world.run(CLIENT, main) == sent
    assert not world.network.sockets


def test_order_survives_cuts_that_come_and_go(make: MakeBare) -> None:
    """Segments that were under way when a cut began are not overtaken by those after it."""
    world = serving(make, network=NetworkSettings(jitter_ns=(1_000_000, 9_000_000)))
    cut = Cut(CLIENT, SERVER)
    for turn in range(200):
        later(world, 0.5 + turn * 0.013, world.links.block, cut)
        later(world, 0.504 + turn * 0.013, world.links.unblock, cut)
    sent = b"".join(number.to_bytes(4, "big") for number in range(3000))

    async def main() -> bytes:
        reader, writer = await world.connect()
        for start in range(0, len(sent), 4):
            writer.write(sent[start : start + 4])
            await asyncio.sleep(0.001)
        writer.write_eof()
        return await reader.read(-1)

    assert world.run(CLIENT, main) == sent
    assert world.network.link(CLIENT, SERVER).dropped > 10


def test_a_reader_that_does_not_read_stops_the_writer(make: MakeBare) -> None:
    """The window and both buffers fill; the writer waits, and goes on when they are emptied."""
    world = serving(make)

    async def main() -> tuple[int, int]:
        reader, writer = await world.connect()
        sent = 0
        try:
            async with asyncio.timeout(5):
                while True:
                    writer.write(bytes(1 << 16))
                    sent += 1 << 16
                    await writer.drain()
        except TimeoutError:
            stuck = sent
        received = 0
        while received < sent:
            received += len(await reader.read(1 << 20))
        return stuck, received

    stuck, received = world.run(CLIENT, main)
    assert 1 << 18 < stuck < 1 << 21
    assert received == stuck


def test_a_closed_half_still_carries_the_other_direction(make: MakeBare) -> None:
    """write_eof ends what goes out; what comes back arrives all the same."""
    world = make()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.read(-1)
        await asyncio.sleep(3)
        writer.write(asked[::-1])
        writer.close()

    async def server() -> None:
        await (await asyncio.start_server(answer, "0.0.0.0", ECHO)).serve_forever()

    async def main() -> bytes:
        reader, writer = await world.connect()
        writer.write(b"abc")
        writer.write_eof()
        return await reader.read(-1)

    world.hosts[SERVER].boot(server)
    assert world.run(CLIENT, main) == b"cba"


def test_nobody_listens(make: MakeBare) -> None:
    """A connection to a machine that is up is refused; an unknown address has no route."""
    world = serving(make)

    async def main() -> None:
        with pytest.raises(ConnectionRefusedError, match="nobody listens"):
            await asyncio.open_connection(address(world), ECHO + 1)
        with pytest.raises(OSError, match="no host") as refused:
            await asyncio.open_connection("198.18.9.9", ECHO)
        assert refused.value.errno == errno.EHOSTUNREACH

    world.run(CLIENT, main)


def test_a_port_is_had_once(make: MakeBare) -> None:
    """The second listener of a port is told so; a closed one leaves it."""
    world = make()

    async def main() -> None:
        server = await asyncio.start_server(lambda r, w: None, "0.0.0.0", ECHO)
        with pytest.raises(OSError, match="in use"):
            await asyncio.start_server(lambda r, w: None, "0.0.0.0", ECHO)
        assert server.is_serving()
        server.close()
        assert not server.is_serving()
        await asyncio.start_server(lambda r, w: None, "0.0.0.0", ECHO)

    world.run(CLIENT, main)


@pytest.mark.parametrize("cut", [Cut(CLIENT, SERVER), Cut(SERVER, CLIENT)])
def test_a_partition_hangs_and_heals(make: MakeBare, cut: Cut) -> None:
    """Nothing fails while it lasts, either way; after it what was sent arrives."""
    world = serving(make)

    async def main() -> float:
        reader, writer = await world.connect()
        world.links.block(cut)
        later(world, 10, world.links.unblock, cut)
        began = now()
        writer.write(b"ping")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(4), 9)
        assert (world.links.dropped(cut) or 0) >= 3
        assert await reader.readexactly(4) == b"ping"
        return now() - began

    # Retransmissions come after 0.2, 0.6, 1.4, 3.0, 6.2 and 12.6 seconds.
    assert 12.5 < world.run(CLIENT, main) < 12.8


def test_a_partition_that_stays_ends_in_etimedout(make: MakeBare) -> None:
    """TCP gives up on data after a quarter of an hour, on a connection after two minutes."""
    world = serving(make)

    async def main() -> tuple[float, float]:
        reader, writer = await world.connect()
        world.links.block(Cut(CLIENT, SERVER), Cut(SERVER, CLIENT))
        began = now()
        writer.write(b"ping")
        with pytest.raises(TimeoutError) as failed:
            await reader.readexactly(4)
        assert failed.value.errno == errno.ETIMEDOUT
        gave_up = now() - began
        began = now()
        with pytest.raises(TimeoutError):
            await world.connect()
        return gave_up, now() - began

    gave_up, not_connected = world.run(CLIENT, main)
    assert 900 < gave_up < 1100
    assert 120 < not_connected < 130


def test_lost_acknowledgements_fill_the_window(make: MakeBare) -> None:
    """One way cut: bytes get through, but the sender cannot know, and stops after a window."""
    world = make()
    received: list[bytes] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            received.append(data)

    async def server() -> None:
        await (await asyncio.start_server(swallow, "0.0.0.0", ECHO)).serve_forever()

    async def main() -> int:
        _, writer = await world.connect()
        world.links.block(Cut(SERVER, CLIENT))
        later(world, 20, world.links.unblock, Cut(SERVER, CLIENT))
        writer.write(bytes(1 << 20))
        await asyncio.sleep(15)
        got = sum(map(len, received))
        await writer.drain()
        await asyncio.sleep(1)
        assert sum(map(len, received)) > got
        return got

    world.hosts[SERVER].boot(server)
    world.world.run_for(1)
    assert world.run(CLIENT, main) == 1 << 18


def test_only_the_answers_are_cut(make: MakeBare) -> None:
    """The request passes and is counted; its answer never comes; other ports are not touched."""
    world = serving(make)
    cut = Cut(SERVER, CLIENT, ECHO, answers=True, layer="a")

    async def main() -> None:
        reader, writer = await world.connect()
        world.links.block(cut)
        other, more = await world.connect()  # connections are made
        more.write(b"again")
        writer.write(b"ping")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(4), 5)
        assert world.links.requests_arrived(cut) == 2
        assert (world.links.dropped(cut) or 0) >= 2
        world.links.unblock(cut)
        assert await reader.readexactly(4) == b"ping"
        assert await other.readexactly(5) == b"again"
        assert world.links.requests_arrived(cut) is None
        assert world.links.dropped(cut) is None

    world.run(CLIENT, main)


def test_a_reset_ends_both_sides(make: MakeBare) -> None:
    """Somebody resets the connections of a pair: both programs see ECONNRESET, once is counted."""
    world = serving(make)

    async def main() -> None:
        reader, writer = await world.connect()
        writer.write(b"x")
        await reader.readexactly(1)
        assert world.links.reset([(SERVER, CLIENT)], "layer") == 1
        assert world.links.reset([(SERVER, CLIENT)], "layer") == 1
        with pytest.raises(ConnectionResetError):
            await reader.read(1)

    world.run(CLIENT, main)
    assert world.links.connections_reset("layer") == 1
    assert world.links.connections_reset("other") == 0


@pytest.mark.parametrize(("mode", "least_s", "most_s"), [("process", 0, 0.1), ("power", 1, 4)])
def test_the_peer_of_a_dead_process_hears_of_it_sooner_or_later(
    make: MakeBare, mode: Any, least_s: float, most_s: float
) -> None:
    """A kernel closes what its process had open; a lost one answers only when it is back."""
    world = serving(make)
    server = world.hosts[SERVER]

    async def main() -> float:
        reader, writer = await world.connect()
        idle, _ = await world.connect()
        later(world, 0.0001, server.kill, mode)
        later(world, 1.0, server.boot, echo_server)
        began = now()
        writer.write(b"lost")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(10) == b""
        took = now() - began
        if mode == "power":  # half open: nothing was under way, so nobody ever asks
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(idle.read(1), 500)
        return took

    assert least_s <= world.run(CLIENT, main) < most_s


def test_an_abort_is_a_reset(make: MakeBare) -> None:
    """What the peer had under way is gone, and it is told."""
    world = serving(make)

    async def main() -> None:
        reader, writer = await world.connect()
        writer.write(bytes(100_000))
        writer.transport.abort()
        assert await reader.read(-1) == b""

    world.run(CLIENT, main)
    world.world.run_for(10)
    assert not world.network.sockets


def test_a_bad_link_delays_limits_and_loses(make: MakeBare) -> None:
    """Layers add up, and say what they did; taken away, nothing is left of them."""
    world = serving(make)
    quality = LinkQuality(delay_ms=50, jitter_ms=10, lost=0.1, bytes_per_s=100_000, duplicated=0.2)

    async def main() -> float:
        reader, writer = await world.connect()
        began = now()
        for _ in range(100):
            writer.write(bytes(1000))
            await asyncio.sleep(0.001)
        await reader.readexactly(100_000)
        return now() - began

    world.links.degrade([(CLIENT, SERVER)], quality, "bad")
    assert 1.0 < world.run(CLIENT, main) < 4.0
    seen = world.links.counters((CLIENT, SERVER), "bad")
    assert seen is not None
    assert seen.packets >= 100
    assert seen.delayed >= 100
    assert seen.mean_delay_ms > 40
    assert 2 < seen.lost < 30
    assert 5 < seen.duplicated < 40
    world.links.restore([(CLIENT, SERVER)], "bad")
    assert world.links.counters((CLIENT, SERVER), "bad") is None
    assert world.run(CLIENT, main) < 0.3

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
def test_bytes_arrive_in_order_despite_fragments_and_losses(make: MakeBare, seed: int) -> None:
    """Nothing is lost, doubled or reordered."""
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


def test_order_survives_repeated_cuts(make: MakeBare) -> None:
    """Segments in flight at the beginning of a cut are not overtaken by later ones."""
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


def test_paused_reader_stops_the_writer(make: MakeBare) -> None:
    """The window and both buffers fill; the writer continues when they are emptied."""
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


def test_half_closed_connection_still_receives(make: MakeBare) -> None:
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


def test_connection_without_a_listener_is_refused(make: MakeBare) -> None:
    """An unknown address has no route."""
    world = serving(make)

    async def main() -> None:
        with pytest.raises(ConnectionRefusedError, match="nobody listens"):
            await asyncio.open_connection(address(world), ECHO + 1)
        with pytest.raises(OSError, match="no simulated host") as refused:
            await asyncio.open_connection("198.18.9.9", ECHO)
        assert refused.value.errno == errno.EHOSTUNREACH

    world.run(CLIENT, main)


def test_second_listener_on_a_port_is_refused(make: MakeBare) -> None:
    """A closed listener frees its port."""
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
def test_cut_connection_hangs_and_continues_after_the_heal(make: MakeBare, cut: Cut) -> None:
    """Nothing fails meanwhile; what was sent arrives afterwards."""
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


def test_permanent_cut_ends_in_etimedout(make: MakeBare) -> None:
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


def test_one_way_cut_stops_the_sender_after_a_window(make: MakeBare) -> None:
    """Bytes get through, but their acknowledgements do not."""
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


def test_cut_of_answers_lets_requests_pass_and_counts_them(make: MakeBare) -> None:
    """Other ports are not affected."""
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


def test_reset_ends_both_ends_with_econnreset(make: MakeBare) -> None:
    """It is counted once."""
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
def test_peer_of_a_dead_process_learns_of_its_end(
    make: MakeBare, mode: Any, least_s: float, most_s: float
) -> None:
    """A kernel closes the process's connections; a machine without power answers after its
    restart.
    """
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


def test_abort_sends_a_reset(make: MakeBare) -> None:
    """The peer's bytes in flight are lost, and the peer sees the reset."""
    world = serving(make)

    async def main() -> None:
        reader, writer = await world.connect()
        writer.write(bytes(100_000))
        writer.transport.abort()
        assert await reader.read(-1) == b""

    world.run(CLIENT, main)
    world.world.run_for(10)
    assert not world.network.sockets


def test_layers_of_a_link_add_up_and_count_their_effects(make: MakeBare) -> None:
    """A removed layer has no effect."""
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

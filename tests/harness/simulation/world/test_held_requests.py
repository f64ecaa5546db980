"""A held request in a simulated network: its connection waits, others pass, its end comes later."""

import asyncio
from collections.abc import Callable

import pytest

from nemesis.requests import APIS, RequestFilter
from tests.harness.simulation.world.test_network import CLIENT, SERVER, now, serving
from tests.support.simulation.worlds import ECHO, Bare, MakeBare
from tests.support.targets.requests import END_TXN, add_partitions, end_txn

LINKS = [(CLIENT, SERVER)]
LAYER = "late"
HOLD = RequestFilter(END_TXN, name="tx")


def watch(world: Bare) -> None:
    """Hold the end of a transaction of `tx`; note what begins one."""
    note = RequestFilter(APIS["AddPartitionsToTxn"])
    world.links.watch_requests(LINKS, LAYER, ECHO, HOLD, note)


def test_a_held_request_waits_and_other_connections_pass(make: MakeBare) -> None:
    """What was sent before it has arrived; the watch says which request it is, and how long."""
    world = serving(make)
    watch(world)

    async def main() -> tuple[bytes, bytes]:
        reader, writer = await world.connect()
        other_reader, other_writer = await world.connect()
        writer.write(end_txn("other"))
        assert await reader.readexactly(len(end_txn("other"))) == end_txn("other")
        writer.write(end_txn("tx", 8, "late-client"))
        writer.write(b"more")
        await asyncio.sleep(2)
        other_writer.write(end_txn("tx", 9) + add_partitions("tx", 10))
        both = len(end_txn("tx", 9) + add_partitions("tx", 10))
        passed = await other_reader.readexactly(both)
        seen = world.links.watched_requests(LINKS[0], LAYER)
        assert seen is not None
        assert seen.held is not None
        assert seen.held[:5] == (END_TXN, 4, 8, "late-client", "tx")
        assert 2000 <= seen.held.age_ms < 2100
        assert seen.held_ms is None
        assert [each.correlation_id for each in seen.noted] == [10]
        world.links.let_requests_go(LINKS, LAYER)
        late = await reader.readexactly(len(end_txn("tx", 8, "late-client")) + 4)
        return passed, late

    passed, late = world.run(CLIENT, main)
    assert passed == end_txn("tx", 9) + add_partitions("tx", 10)
    assert late == end_txn("tx", 8, "late-client") + b"more"
    seen = world.links.watched_requests(LINKS[0], LAYER)
    assert seen is not None
    assert seen.held_ms is not None
    assert 2000 <= seen.held_ms < 2100


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of the client that leaves
def test_a_held_request_arrives_though_its_client_has_gone(make: MakeBare) -> None:
    """Closed, aborted or dead: the network delivers what it has, and the end after it."""

    async def close(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def abort(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def leave(writer: asyncio.StreamWriter) -> None:
        """Leave the connection open when the program ends."""

    for end in (close, abort, leave):
        received = _received_after(make, end)
        assert received == end_txn("tx"), end.__name__


def _received_after(make: MakeBare, end: Callable[[asyncio.StreamWriter], object]) -> bytes:
    """What the server received from a client that ended with its request held."""
    world = make()
    received: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                received.append(data)
        except ConnectionError:
            pass

    async def serve() -> None:
        server = await asyncio.start_server(keep, "0.0.0.0", ECHO)
        await server.serve_forever()

    world.hosts[SERVER].boot(serve)
    world.world.run_for(0.1)
    watch(world)

    async def main() -> None:
        _, writer = await world.connect()
        writer.write(end_txn("tx"))
        await asyncio.sleep(0.5)
        await end(writer)  # type: ignore[misc] # a coroutine function

    world.run(CLIENT, main)
    world.hosts[CLIENT].kill()
    world.world.run_for(5)
    assert received == []
    world.links.unwatch_requests(LINKS, LAYER)
    world.world.run_for(5)
    assert world.links.watched_requests(LINKS[0], LAYER) is None
    assert world.network.sockets_on(CLIENT, SERVER) == []
    return b"".join(received)


def test_a_removed_watch_lets_everything_go_and_holds_nothing(make: MakeBare) -> None:
    """Twice removed is no error; a later watch finds requests again."""
    world = serving(make)
    watch(world)

    async def main() -> float:
        reader, writer = await world.connect()
        writer.write(end_txn("tx"))
        await asyncio.sleep(1)
        for _ in range(2):
            world.links.unwatch_requests(LINKS, LAYER)
        await reader.readexactly(len(end_txn("tx")))
        began = now()
        writer.write(end_txn("tx"))
        await reader.readexactly(len(end_txn("tx")))
        took = now() - began
        watch(world)
        writer.write(end_txn("tx"))
        await asyncio.sleep(1)
        seen = world.links.watched_requests(LINKS[0], LAYER)
        assert seen is not None
        assert seen.held is not None
        return took

    assert world.run(CLIENT, main) < 0.1

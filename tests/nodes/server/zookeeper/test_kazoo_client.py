"""The client on kazoo against a real server: operations, watches, failures, sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from nodes.config import ZooKeeperSettings
from nodes.server.zookeeper.client import SessionState
from nodes.server.zookeeper.kazoo_client import KazooZooKeeper
from nodes.zookeeper.operations import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
    ZooKeeperError,
)
from tests.support.nodes.cluster import free_ports
from tests.support.nodes.real_zookeeper import real_zookeeper
from tests.support.require import require

pytestmark = pytest.mark.slow

CONNECT_MS = 20_000.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    require("zookeeper", "java")
    with real_zookeeper(tmp_path_factory.mktemp("zookeeper")) as found:
        yield found


def settings(port: int, chroot: str = "") -> ZooKeeperSettings:
    return ZooKeeperSettings(
        servers=(("127.0.0.1", port),),
        chroot=chroot,
        session_timeout_ms=4000,
        connection_timeout_ms=4000,
        batched=True,
    )


def with_client(
    port: int, chroot: str, main: Callable[[KazooZooKeeper], Awaitable[None]]
) -> list[SessionState]:
    states: list[SessionState] = []

    async def run() -> None:
        client = KazooZooKeeper(settings(port, chroot))
        await client.connect(CONNECT_MS, states.append)
        try:
            await main(client)
        finally:
            client.close()

    asyncio.run(run())
    return states


def test_znodes_are_created_read_changed_and_deleted(port: int) -> None:
    """Below a chroot that did not exist; parents are created, too."""

    async def main(client: KazooZooKeeper) -> None:
        assert client.session_id != 0
        made = await client.create("/a/b", b"1")
        assert (made.version, made.owner) == (0, 0)
        assert await client.get("/a/b") == (b"1", made)
        changed = await client.set("/a/b", b"2", 0)
        assert (changed.version, changed.czxid) == (1, made.czxid)
        own = await client.create("/a/c", ephemeral=True)
        assert own.owner == client.session_id
        assert own.czxid > made.czxid
        for _ in range(2):
            await client.create("/a/n_", b"x", sequence=True)
        assert await client.children("/a") == ["b", "c", "n_0000000002", "n_0000000003"]
        await client.delete("/a/b")
        assert await client.exists("/a/b") is None

    with_client(port, "/chroot/deep", main)


def test_failures_have_their_types(port: int) -> None:
    async def main(client: KazooZooKeeper) -> None:
        await client.create("/f/child")
        expected: list[tuple[type[ZooKeeperError], Awaitable[object]]] = [
            (NoNode, client.get("/none")),
            (NoNode, client.children("/none")),
            (NoNode, client.set("/none", b"")),
            (NodeExists, client.create("/f")),
            (BadVersion, client.set("/f", b"", 7)),
            (BadVersion, client.delete("/f/child", 7)),
            (NotEmpty, client.delete("/f")),
        ]
        for error, operation in expected:
            with pytest.raises(error):
                await operation

    with_client(port, "/failures", main)


def test_several_operations_are_done_together_or_not_at_all(port: int) -> None:
    """The failure names the operation."""

    async def main(client: KazooZooKeeper) -> None:
        epoch = await client.create("/epoch", b"1")
        results = await client.multi(
            [Check("/epoch", 0), Create("/m"), Create("/m/s", b"1"), SetData("/epoch", b"2", 0)]
        )
        assert [each is None for each in results] == [True, True, True, False]
        assert results[3] is not None
        assert results[3].version == epoch.version + 1
        for operations, error, number in (
            ([Check("/epoch", 0), SetData("/m/s", b"9")], BadVersion, 0),
            ([Check("/epoch", 1), SetData("/m/s", b"9"), Create("/m")], NodeExists, 2),
            ([Check("/epoch", 1), Delete("/m/none")], NoNode, 1),
        ):
            with pytest.raises(error) as failed:
                await client.multi(operations)  # type: ignore[arg-type]
            assert failed.value.operation == number
        assert (await client.get("/m/s"))[0] == b"1"
        await client.multi([Check("/epoch", 1), Delete("/m/s"), Delete("/m")])
        assert await client.exists("/m") is None

    with_client(port, "/multi", main)


def test_operations_that_are_begun_together_keep_their_order(port: int) -> None:
    async def main(client: KazooZooKeeper) -> None:
        await client.create("/o", b"")
        writes = [client.set("/o", b"%d" % number, number) for number in range(200)]
        stats = await asyncio.gather(*writes)
        assert [stat.version for stat in stats] == list(range(1, 201))

    with_client(port, "/order", main)


def test_watches_are_called_once_on_the_loop(port: int) -> None:
    async def main(client: KazooZooKeeper) -> None:
        calls: list[str] = []
        woken = asyncio.Event()

        def called(what: str) -> Callable[[], None]:
            def call() -> None:
                assert asyncio.get_running_loop() is loop
                calls.append(what)
                woken.set()

            return call

        async def until(*expected: str) -> None:
            async with asyncio.timeout(20):
                while sorted(calls) != sorted(expected):
                    woken.clear()
                    await woken.wait()

        loop = asyncio.get_running_loop()
        await client.exists("/w/new", called("created"))
        await client.create("/w/new")
        await until("created")
        await client.children("/w", called("children"))
        await client.get("/w/new", called("changed"))
        await client.set("/w/new", b"1")
        await until("created", "changed")
        await client.create("/w/other")
        await until("created", "changed", "children")
        await client.set("/w/new", b"2")
        await client.create("/w/third")
        await client.get("/w/new")
        assert len(calls) == 3

    with_client(port, "/watches", main)


def test_closed_session_takes_its_znodes_with_it(port: int) -> None:
    async def register(client: KazooZooKeeper) -> None:
        await client.create("/ids/1", ephemeral=True)

    async def look(client: KazooZooKeeper) -> None:
        assert await client.children("/ids") == []

    with_client(port, "/sessions", register)
    with_client(port, "/sessions", look)


def test_missing_server_is_an_error_that_names_it() -> None:
    (nobody,) = free_ports(1)

    async def run() -> None:
        client = KazooZooKeeper(settings(nobody))
        with pytest.raises(OSError, match=f"no ZooKeeper at 127.0.0.1:{nobody} within 300 ms"):
            await client.connect(300, lambda state: None)

    asyncio.run(run())

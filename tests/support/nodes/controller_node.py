"""A controller node with a fake quorum: the test decides when commits and elections happen."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from uuid import UUID

from kio.index import load_request_schema

from nodes.controller.controller import Controller
from nodes.controller.settings import ControlSettings
from nodes.ids import Epoch, NodeId, Offset
from nodes.log.errors import MessageTooLarge
from nodes.raft.errors import NotLeader
from nodes.server.controller.apis import controller_apis
from nodes.server.controller.controller import QuorumController
from nodes.server.controller.recovery import UncleanRecoveryManager
from nodes.server.quorum.metadata_publisher import MetadataPublisher
from nodes.wire.client import Channel
from nodes.wire.codec import decode_response, encode_response
from nodes.wire.server import RequestContext
from nodes.wire.versions import fill
from tests.nodes.server.quorum.test_metadata_publisher import Batch

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
ME, OTHER = NodeId(1), NodeId(2)
CONTEXT = RequestContext(listener="CONTROLLER", peer_host="127.0.0.1", client_id=None)


class FakeQuorum:
    """A quorum of one node; the test decides when it commits."""

    def __init__(self) -> None:
        self.node_id = ME
        self.leader_id: NodeId | None = None
        self.last_contact_ms: dict[NodeId, float] = {}
        self.epoch = Epoch(0)
        self.end_offset = Offset(0)
        self.uncommitted: list[Batch] = []
        self.waiting: list[tuple[Offset, asyncio.Future[None]]] = []
        self.high_watermark = Offset(0)
        self.auto_commit = True
        self.too_large = False
        self.listeners: list[Any] = []

    def append(self, records: Sequence[bytes]) -> Offset:
        if self.leader_id != ME:
            raise NotLeader(self.leader_id, self.epoch)
        if self.too_large:
            raise MessageTooLarge("9 MB")
        last = Offset(self.end_offset + len(records) - 1)
        self.end_offset = Offset(last + 1)
        self.uncommitted.append(Batch(last, self.epoch, tuple(records)))
        if self.auto_commit:
            asyncio.get_running_loop().call_soon(self.commit)
        return last

    async def committed(self, offset: Offset, epoch: Epoch) -> None:
        if self.leader_id != ME or epoch != self.epoch:
            raise NotLeader(self.leader_id, self.epoch)
        if offset >= self.high_watermark:
            waiter = asyncio.get_running_loop().create_future()
            self.waiting.append((offset, waiter))
            await waiter

    def commit(self) -> None:
        batches, self.uncommitted = self.uncommitted, []
        self.high_watermark = self.end_offset
        for listener in self.listeners:
            listener.on_commit(batches)
        waiting, self.waiting = self.waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def lead(self) -> None:
        """Win an election: the epoch's first record is a control batch."""
        self.epoch = Epoch(self.epoch + 1)
        self.leader_id = ME
        self.uncommitted.append(Batch(self.end_offset, self.epoch, ()))
        self.end_offset = Offset(self.end_offset + 1)
        self.commit()
        for listener in self.listeners:
            listener.on_active(self.epoch)

    def change_voters(self) -> None:
        """Append and commit a control batch in the leader's epoch."""
        self.uncommitted.append(Batch(self.end_offset, self.epoch, ()))
        self.end_offset = Offset(self.end_offset + 1)
        self.commit()

    def follow(self, leader: NodeId | None) -> None:
        """Lose the leadership and the uncommitted records; `leader` leads now, or no node."""
        self.epoch = Epoch(self.epoch + 1)
        self.leader_id = leader
        self.uncommitted = []
        self.end_offset = self.high_watermark
        for listener in self.listeners:
            listener.on_inactive(self.epoch)
        waiting, self.waiting = self.waiting, []
        for _, waiter in waiting:
            waiter.set_exception(NotLeader(leader, self.epoch))


def _no_channel(host: str, port: int) -> Channel:
    raise AssertionError(f"nobody is to be asked, not {host}:{port}")


class Node:
    """A controller node with a fake quorum; requests are kio entities, encoded and decoded."""

    def __init__(self, session_timeout_ms: float = 9000, max_batch_records: int = 10_000) -> None:
        self.quorum = FakeQuorum()
        self.publisher = MetadataPublisher()
        self.controller = Controller(
            cluster_id=CLUSTER_ID,
            settings=ControlSettings(session_timeout_ms=session_timeout_ms),
            rng=random.Random(1),
        )
        self.quorum_controller = QuorumController(
            self.controller, self.quorum, self.publisher, max_batch_records=max_batch_records
        )
        self.recovery = UncleanRecoveryManager(self.quorum_controller, _no_channel, "PLAINTEXT")
        self.quorum.listeners += [self.publisher, self.quorum_controller]

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        request = fill(load_request_schema(api_key, version), **values)
        handler = controller_apis(self.quorum_controller, self.recovery)[api_key].handler
        response = await asyncio.wait_for(_awaited(handler(request, CONTEXT)), 20)
        return decode_response(encode_response(response, 1)[4:], api_key, version)

    async def register(self, number: int, incarnation: int | None = None) -> Any:
        return await self.ask(
            62,
            4,
            broker_id=number,
            cluster_id=CLUSTER_ID,
            incarnation_id=UUID(int=incarnation or number),
            listeners=[{"name": "PLAINTEXT", "host": "h", "port": 9000 + number}],
        )

    async def beat(self, number: int, epoch: int, **values: Any) -> Any:
        offset = self.publisher.image.offset
        return await self.ask(
            63,
            1,
            broker_id=number,
            broker_epoch=epoch,
            **{"current_metadata_offset": offset, **values},
        )

    async def brokers(self, count: int) -> list[int]:
        """Brokers 1.. in service; their epochs."""
        epochs = []
        for number in range(1, count + 1):
            epochs.append((await self.register(number)).broker_epoch)
            await self.beat(number, epochs[-1])
        return epochs

    async def create(self, version: int = 7, **values: Any) -> Any:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, **values}
        return (await self.ask(19, version, topics=[topic])).topics[0]


async def _awaited(answer: Any) -> Any:
    return await answer


def in_loop(test: Callable[[Node], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Runs a test in a loop of its own, with a node that leads."""

    def run() -> None:
        async def main() -> None:
            node = Node()
            node.quorum.lead()
            await test(node)

        asyncio.run(main())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run

"""The controller's shell: requests in, records to the metadata log, answers after the commit.

Every controller node has one. While its node leads the quorum it asks the pure Controller, appends
what that decides and answers when it is committed; otherwise it answers NOT_CONTROLLER.

Order: an operation is decided and appended without a pause between, so operations are serial, in
the order of the log. Every answer, refusals and empty changes included, waits for the commit of
all that was appended before it, since it may have been decided on that; leadership lost in the
meantime makes it NOT_CONTROLLER (the operation may then have happened or not). Waits end with the
quorum leader's own resignation at the latest: a leader that hears from no majority steps down.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from nodes.control.controller import Controller, ControllerResult
from nodes.control.errors import ControlError
from nodes.control.isr import IsrAnswer, IsrRequest
from nodes.control.records import BrokerEndpoint, MetadataRecord, encode
from nodes.control.topics import NewTopic, TopicAnswer
from nodes.ids import NO_OFFSET, BrokerEpoch, Epoch, NodeId, Offset
from nodes.log.errors import MessageTooLarge
from nodes.raft.errors import NotLeader
from nodes.server.metadata_publisher import Committed, MetadataPublisher
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond

R = TypeVar("R")

TICK_MS: Final = 50
DYNAMIC_TOPIC_CONFIG: Final = 1

log = logging.getLogger("nodes.controller")


class MetadataQuorum(Protocol):
    """What the shell needs of the quorum node."""

    node_id: NodeId

    @property
    def leader_id(self) -> NodeId | None:
        """The quorum's leader as last heard."""
        ...

    @property
    def last_contact_ms(self) -> Mapping[NodeId, float]:
        """When each voter was last heard from, in the loop's milliseconds."""
        ...

    def append(self, records: Sequence[bytes]) -> Offset:
        """Append one batch; its last offset.

        Raises NotLeader, MessageTooLarge: nothing was appended.
        """
        ...

    async def committed(self, offset: Offset, epoch: Epoch) -> None:
        """Wait until `offset` is committed. Raises NotLeader when `epoch`'s leadership is lost."""
        ...


class ControllerShell:
    """A listener of the quorum node, registered after the MetadataPublisher of the same node."""

    def __init__(
        self, controller: Controller, quorum: MetadataQuorum, publisher: MetadataPublisher
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._publisher = publisher
        self._epoch = Epoch(-1)
        self._end = NO_OFFSET
        self._led_before: NodeId | None = None
        self._ticking: asyncio.Task[None] | None = None

    # --- life

    def start(self) -> None:
        """Begin to tick on the running loop."""
        self._ticking = asyncio.get_running_loop().create_task(self._tick_forever())

    async def stop(self) -> None:
        """Stop ticking. Requests that wait for a commit end with the quorum node."""
        if self._ticking is not None:
            self._ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None

    async def _tick_forever(self) -> None:
        while True:
            try:
                self.tick()
            except Exception:
                # A controller that stops fencing makes partitions unavailable for ever.
                log.exception("a tick of the controller failed")
            await asyncio.sleep(TICK_MS / 1000)

    def tick(self) -> None:
        """Let the controller act on the time that has passed."""
        self._observe_leader()
        if not self._controller.active:
            return
        records = self._controller.tick(_now_ms()).records
        if records:
            log.info("on a tick: %s", _summary(records))
            with contextlib.suppress(NotLeader):
                self._append(records)

    # --- the quorum's listener

    def on_commit(self, batches: Sequence[Committed]) -> None:
        """The publisher keeps the image; only the leader is looked at here."""
        self._observe_leader()

    def on_active(self, epoch: Epoch) -> None:
        """This node leads and has applied everything in the log: decide from now on."""
        now_ms = _now_ms()
        contacts = self._quorum.last_contact_ms
        deposed = self._led_before
        self._led_before = None
        silent_since = {node: at for node, at in contacts.items() if node == deposed}
        self._epoch = epoch
        self._end = self._publisher.image.offset
        self._controller.on_active(epoch, self._publisher.image, now_ms, silent_since)
        log.info("active controller of epoch %d from offset %d", epoch, self._end)

    def on_inactive(self, epoch: Epoch) -> None:
        """This node leads no more: what it had not committed may vanish."""
        if self._controller.active:
            log.info("no longer the active controller (epoch %d)", self._epoch)
        self._controller.on_inactive()

    def _observe_leader(self) -> None:
        """Remember who led before us, to count that broker's silence from when it was heard of."""
        leader = self._quorum.leader_id
        if leader is not None and leader != self._quorum.node_id:
            self._led_before = leader

    # --- operations

    def _append(self, records: Sequence[MetadataRecord]) -> None:
        self._end = self._quorum.append([encode(record) for record in records])
        self._controller.appended(records, self._end)

    async def _decide(self, operation: Callable[[], ControllerResult[R]]) -> R:
        """Run one operation to its committed end. Raises ControlError."""
        if not self._controller.active:
            raise ControlError(ErrorCode.not_controller, "this node is not the active controller")
        epoch = self._epoch
        refusal: ControlError | None = None
        result: ControllerResult[R] | None = None
        try:
            try:
                result = operation()
            except ControlError as error:
                refusal = error
            if result is not None and result.records:
                self._append(result.records)
            await self._quorum.committed(self._end, epoch)
        except NotLeader as error:
            raise ControlError(ErrorCode.not_controller, str(error)) from error
        except MessageTooLarge as error:
            raise ControlError(
                ErrorCode.policy_violation, f"too much for one batch of the metadata log: {error}"
            ) from error
        if result is None:
            assert refusal is not None
            log.info("refused: %s", refusal)
            raise refusal
        return result.response

    # --- requests

    def apis(self) -> dict[int, Api]:
        """The requests served here, by api key, for a Dispatcher."""
        return {
            19: Api(2, 7, self.create_topics),
            56: Api(3, 3, self.alter_partition),
            62: Api(4, 4, self.broker_registration),
            63: Api(1, 1, self.broker_heartbeat),
            64: Api(0, 0, self.unregister_broker),
            67: Api(0, 0, self.allocate_producer_ids),
        }

    async def broker_registration(self, request: Any, context: RequestContext) -> Any:
        """BrokerRegistration: the broker epoch."""
        endpoints = tuple(
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        )
        try:
            epoch = await self._decide(
                lambda: self._controller.register_broker(
                    broker_id=NodeId(request.broker_id),
                    cluster_id=request.cluster_id,
                    incarnation_id=request.incarnation_id,
                    endpoints=endpoints,
                    rack=request.rack,
                    log_dirs=request.log_dirs,
                    now_ms=_now_ms(),
                )
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        log.info("broker %d registered with epoch %d", request.broker_id, epoch)
        return respond(request, broker_epoch=epoch)

    async def broker_heartbeat(self, request: Any, context: RequestContext) -> Any:
        """BrokerHeartbeat: the broker's state after it."""
        try:
            answer = await self._decide(
                lambda: self._controller.heartbeat(
                    broker_id=NodeId(request.broker_id),
                    broker_epoch=BrokerEpoch(request.broker_epoch),
                    current_metadata_offset=Offset(request.current_metadata_offset),
                    want_fence=request.want_fence,
                    want_shut_down=request.want_shut_down,
                    now_ms=_now_ms(),
                )
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        return respond(
            request,
            is_caught_up=answer.is_caught_up,
            is_fenced=answer.is_fenced,
            should_shut_down=answer.should_shut_down,
        )

    async def alter_partition(self, request: Any, context: RequestContext) -> Any:
        """AlterPartition: the state of each partition, or its error."""
        changes = [
            IsrRequest(
                topic_id=topic.topic_id,
                partition=data.partition_index,
                leader_epoch=Epoch(data.leader_epoch),
                partition_epoch=data.partition_epoch,
                isr=tuple(
                    (NodeId(member.broker_id), BrokerEpoch(member.broker_epoch))
                    for member in data.new_isr_with_epochs
                ),
                leader_recovery_state=data.leader_recovery_state,
            )
            for topic in request.topics
            for data in topic.partitions
        ]
        broker_id, broker_epoch = NodeId(request.broker_id), BrokerEpoch(request.broker_epoch)
        try:
            answers = await self._decide(
                lambda: self._controller.alter_partition(broker_id, broker_epoch, changes)
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        left = iter(answers)
        topics = [
            {"topic_id": t.topic_id, "partitions": [_isr_row(next(left)) for _ in t.partitions]}
            for t in request.topics
        ]
        return respond(request, topics=topics)

    async def create_topics(self, request: Any, context: RequestContext) -> Any:
        """CreateTopics: each topic's fate. REQUEST_TIMED_OUT when the commit takes too long: the
        topics may then exist or not.
        """
        topics = [_new_topic(topic) for topic in request.topics]
        timeout_s = request.timeout.total_seconds()
        try:
            async with asyncio.timeout(timeout_s if timeout_s > 0 else None):
                answers = await self._decide(
                    lambda: self._controller.create_topics(
                        topics, validate_only=request.validate_only
                    )
                )
        except ControlError as error:
            answers = [TopicAnswer(name=topic.name, error=error) for topic in topics]
        except TimeoutError:
            late = ControlError(ErrorCode.request_timed_out, "not committed in time")
            answers = [TopicAnswer(name=topic.name, error=late) for topic in topics]
        return respond(request, topics=[_topic_row(answer) for answer in answers])

    async def allocate_producer_ids(self, request: Any, context: RequestContext) -> Any:
        """AllocateProducerIds: a block of ids for one broker."""
        broker_id, broker_epoch = NodeId(request.broker_id), BrokerEpoch(request.broker_epoch)
        try:
            block = await self._decide(
                lambda: self._controller.allocate_producer_ids(broker_id, broker_epoch)
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        return respond(request, producer_id_start=block.start, producer_id_len=len(block))

    async def unregister_broker(self, request: Any, context: RequestContext) -> Any:
        """UnregisterBroker."""
        broker_id = NodeId(request.broker_id)
        try:
            await self._decide(lambda: self._controller.unregister_broker(broker_id))
        except ControlError as error:
            return respond(request, error_code=error.code, error_message=error.message)
        return respond(request)


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _summary(records: Sequence[MetadataRecord]) -> str:
    kinds = Counter(type(record).__name__ for record in records)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _isr_row(answer: IsrAnswer) -> dict[str, Any]:
    row: dict[str, Any] = {"partition_index": answer.request.partition}
    if answer.partition is None:
        assert answer.error is not None
        return row | {"error_code": answer.error.code}
    return row | {
        "leader_id": answer.partition.leader,
        "leader_epoch": answer.partition.leader_epoch,
        "isr": answer.partition.isr,
        "leader_recovery_state": answer.partition.leader_recovery_state,
        "partition_epoch": answer.partition.partition_epoch,
    }


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (item.partition_index, tuple(NodeId(node) for node in item.broker_ids))
            for item in topic.assignments
        ),
        configs={config.name: config.value for config in topic.configs},
    )


def _topic_row(answer: TopicAnswer) -> dict[str, Any]:
    if answer.error is not None:
        return {
            "name": answer.name,
            "error_code": answer.error.code,
            "error_message": answer.error.message,
        }
    configs = [
        {"name": name, "value": value, "config_source": DYNAMIC_TOPIC_CONFIG}
        for name, value in (answer.configs or {}).items()
    ]
    return {
        "name": answer.name,
        "topic_id": answer.topic_id,
        "num_partitions": answer.partitions,
        "replication_factor": answer.replication_factor,
        "configs": configs,
    }

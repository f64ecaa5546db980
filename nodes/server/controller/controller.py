"""The controller on a node: appends decisions to the metadata log, and responds after the commit.

Every controller node has one. While its node leads the quorum, it asks the pure Controller for a
decision, appends the records, and responds when they are committed. Otherwise it responds
NOT_CONTROLLER. `brokers` and `administration` handle the requests.

Order: an operation is decided and appended without a pause in between, so operations are serial, in
the order of the log. Every response, refusals and empty changes included, waits for the commit of
everything that was appended before it, because it may be based on that. If the leadership is lost
meanwhile, the response is NOT_CONTROLLER, and the operation may have happened or not. A wait ends
at the latest when the quorum leader resigns: a leader that hears from no majority steps down.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from nodes.controller.controller import Controller
from nodes.controller.elections import CHANGES_AT_ONCE
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.ids import NO_OFFSET, Epoch, NodeId, Offset
from nodes.log.errors import MessageTooLarge
from nodes.metadata.errors import ControlError
from nodes.metadata.records import MetadataRecord, NoOpRecord, encode_all
from nodes.raft.errors import NotLeader
from nodes.server.quorum.delivery import CommittedBatch
from nodes.server.quorum.metadata_publisher import MetadataPublisher
from nodes.wire.connections import LOG_BURST, LOG_PER_S, LogRateLimit

R = TypeVar("R")

TICK_MS: Final = 100
INACTIVE_TICK_MS: Final = 250
"""How often a node that is not the active controller checks which node leads."""
MAX_BATCH_RECORDS: Final = 1_000
"""A change that is not atomic is split into batches of so many records. Kafka does the same with
larger batches; here a node applies a batch in one turn of its event loop.
"""

log = logging.getLogger("nodes.controller")


class MetadataQuorum(Protocol):
    """What the controller needs of the quorum node."""

    node_id: NodeId

    @property
    def leader_id(self) -> NodeId | None:
        """The quorum's leader as this node knows it."""
        ...

    @property
    def last_contact_ms(self) -> Mapping[NodeId, float]:
        """The time of each voter's last message, in the loop's milliseconds."""
        ...

    @property
    def end_offset(self) -> Offset:
        """Where the log ends: the next record goes there."""
        ...

    def append(self, records: Sequence[bytes]) -> Offset:
        """Append one batch; return its last offset.

        Raises NotLeader, MessageTooLarge: nothing was appended.
        """
        ...

    async def committed(self, offset: Offset, epoch: Epoch) -> None:
        """Wait until `offset` is committed. Raises NotLeader if `epoch` is over."""
        ...


class QuorumController:
    """A listener of the quorum node, registered after the MetadataPublisher of the same node."""

    def __init__(
        self,
        controller: Controller,
        quorum: MetadataQuorum,
        publisher: MetadataPublisher,
        *,
        max_batch_records: int = MAX_BATCH_RECORDS,
    ) -> None:
        self._quorum = quorum
        self._publisher = publisher
        self._max_batch_records = max_batch_records
        self.controller = controller
        """Its decisions are functions to hand to `decide`."""
        self.news = asyncio.Event()
        """Set when this node becomes the active controller, and after every commit while it is."""
        self._epoch = Epoch(-1)
        self._end = NO_OFFSET
        self._led_before: NodeId | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._refusals = LogRateLimit(LOG_BURST, LOG_PER_S)

    @property
    def state(self) -> ControllerState:
        """The state on which administrative operations decide."""
        return self.controller.state

    # --- life

    def start(self) -> None:
        """Start to tick on the running loop."""
        self._tick_again(0)

    async def stop(self) -> None:
        """Stop ticking. Requests that wait for a commit end with the quorum node."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    def _tick_again(self, delay_ms: float) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        loop = asyncio.get_running_loop()
        self._ticking = loop.call_later(delay_ms / 1000, self._tick_on)

    def _tick_on(self) -> None:
        self._tick_again(TICK_MS if self.controller.active else INACTIVE_TICK_MS)
        try:
            self.tick()
        except Exception:
            # A controller that stops fencing makes partitions unavailable for ever.
            log.exception("a tick of the controller failed")

    def tick(self) -> None:
        """Let the controller act on the time that has passed."""
        self._observe_leader()
        if not self.controller.active:
            return
        self._follow_log()
        result = self.controller.tick(now_ms())
        if not result.records:
            return
        if any(not isinstance(record, NoOpRecord) for record in result.records):
            log.info("on a tick: %s", _summary(result.records))
        with contextlib.suppress(NotLeader):
            self._append(result)
            if len(result.records) >= CHANGES_AT_ONCE:
                self._tick_again(0)

    # --- the quorum's listener

    def on_snapshot(self, snapshot: object) -> None:
        """Note the leader of now; the publisher keeps the image."""
        self._observe_leader()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Note the leader of now; the publisher keeps the image."""
        self._observe_leader()
        if self.controller.active:
            self.news.set()

    def on_active(self, epoch: Epoch) -> None:
        """This node leads and has applied the whole log: it is the active controller now."""
        now = now_ms()
        contacts = self._quorum.last_contact_ms
        deposed = self._led_before
        self._led_before = None
        silent_since = {node: at for node, at in contacts.items() if node == deposed}
        self._epoch = epoch
        self._end = self._publisher.image.offset
        self.controller.on_active(epoch, self._publisher.image, now, silent_since)
        self.news.set()
        if self._ticking is not None:
            self._tick_again(TICK_MS)
        log.info("active controller of epoch %d from offset %d", epoch, self._end)

    def on_inactive(self, epoch: Epoch) -> None:
        """This node leads no more; its uncommitted records may be lost."""
        if self.controller.active:
            log.info("no longer the active controller (epoch %d)", self._epoch)
        self.controller.on_inactive()

    def _observe_leader(self) -> None:
        """Store the last other leader: its session counts from its last message to this node."""
        leader = self._quorum.leader_id
        if leader is not None and leader != self._quorum.node_id:
            self._led_before = leader

    # --- operations

    def _follow_log(self) -> None:
        """Tell the controller where the log ends: the quorum's own records (a new voter) are there,
        too. The offset of a registration is its broker epoch."""
        last = Offset(self._quorum.end_offset - 1)
        if last > self.controller.state.image.offset:
            self.controller.appended([], last)

    def _append(self, result: ControllerResult[R]) -> None:
        records = result.records
        size = max(1, len(records)) if result.atomic else self._max_batch_records
        for start in range(0, len(records), size):
            batch = records[start : start + size]
            self._end = self._quorum.append(encode_all(batch))
            self.controller.appended(batch, self._end)

    async def decide(self, operation: Callable[[], ControllerResult[R]]) -> R:
        """Run one operation, and return its response after the commit. Raises ControlError."""
        if not self.controller.active:
            raise ControlError(ErrorCode.not_controller, "this node is not the active controller")
        epoch = self._epoch
        refusal: ControlError | None = None
        result: ControllerResult[R] | None = None
        try:
            self._append(
                ControllerResult(records=self.controller.abort_open_transaction(), response=None)
            )
            try:
                self._follow_log()
                result = operation()
            except ControlError as error:
                refusal = error.kept()
            if result is not None:
                self._append(result)
            await self._quorum.committed(self._end, epoch)
        except NotLeader as error:
            raise ControlError(ErrorCode.not_controller, str(error)) from error
        except MessageTooLarge as error:
            raise ControlError(
                ErrorCode.policy_violation, f"too much for one batch of the metadata log: {error}"
            ) from error
        if result is None:
            assert refusal is not None
            # The message quotes what a peer sent: it must not fill the disk.
            self._refusals.write(now_ms() / 1000, log.info, "refused: %.300s", refusal)
            # A new error: its traceback refers to this frame, which must not refer to the error.
            raise ControlError(refusal.code, refusal.message)
        return result.response


def now_ms() -> float:
    """The loop's monotonic time in milliseconds, which the controller uses."""
    return asyncio.get_running_loop().time() * 1000


def _summary(records: Sequence[MetadataRecord]) -> str:
    kinds = Counter(type(record).__name__ for record in records)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())

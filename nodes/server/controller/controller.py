"""The controller's shell: decisions to the metadata log, answers after the commit.

Every controller node has one. While its node leads the quorum it asks the pure Controller, appends
what that decides and answers when it is committed; otherwise it answers NOT_CONTROLLER. Requests
come from `controller_brokers` and `controller_admin`.

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
from typing import Final, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from nodes.controller.controller import Controller
from nodes.controller.situation import ControllerResult
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
LOOK_MS: Final = 250
"""Between two looks at who leads while this node does not."""
MAX_BATCH_RECORDS: Final = 1_000
"""What is not atomic is cut into batches of so many, as in Kafka, though smaller: a node applies a
batch at one go, and its loop must not stand still for long.
"""

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
        """Set when the active controller begins, and with everything that it sees committed."""
        self._epoch = Epoch(-1)
        self._end = NO_OFFSET
        self._led_before: NodeId | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._refusals = LogRateLimit(LOG_BURST, LOG_PER_S)

    # --- life

    def start(self) -> None:
        """Begin to tick on the running loop."""
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
        self._tick_again(TICK_MS if self.controller.active else LOOK_MS)
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
        result = self.controller.tick(now_ms())
        if not result.records:
            return
        if any(not isinstance(record, NoOpRecord) for record in result.records):
            log.info("on a tick: %s", _summary(result.records))
        with contextlib.suppress(NotLeader):
            self._append(result)

    # --- the quorum's listener

    def on_snapshot(self, snapshot: object) -> None:
        """The publisher keeps the image; only the leader is looked at here."""
        self._observe_leader()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """The publisher keeps the image; the leader is looked at here."""
        self._observe_leader()
        if self.controller.active:
            self.news.set()

    def on_active(self, epoch: Epoch) -> None:
        """This node leads and has applied everything in the log: decide from now on."""
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
        """This node leads no more: what it had not committed may vanish."""
        if self.controller.active:
            log.info("no longer the active controller (epoch %d)", self._epoch)
        self.controller.on_inactive()

    def _observe_leader(self) -> None:
        """Remember who led before us, to count that broker's silence from when it was heard of."""
        leader = self._quorum.leader_id
        if leader is not None and leader != self._quorum.node_id:
            self._led_before = leader

    # --- operations

    def _append(self, result: ControllerResult[R]) -> None:
        records = result.records
        size = max(1, len(records)) if result.atomic else self._max_batch_records
        for start in range(0, len(records), size):
            batch = records[start : start + size]
            self._end = self._quorum.append(encode_all(batch))
            self.controller.appended(batch, self._end)

    async def decide(self, operation: Callable[[], ControllerResult[R]]) -> R:
        """Run one operation to its committed end. Raises ControlError."""
        if not self.controller.active:
            raise ControlError(ErrorCode.not_controller, "this node is not the active controller")
        epoch = self._epoch
        refusal: ControlError | None = None
        result: ControllerResult[R] | None = None
        try:
            self._append(ControllerResult(records=self.controller.unended(), response=None))
            try:
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
            # What peers send is quoted, as much as they like: they must not fill the disk.
            self._refusals.write(now_ms() / 1000, log.info, "refused: %.300s", refusal)
            # Made anew: its traceback gets this frame, which must not hold it in turn.
            raise ControlError(refusal.code, refusal.message)
        return result.response


def now_ms() -> float:
    """The loop's monotonic milliseconds: what the controller counts in."""
    return asyncio.get_running_loop().time() * 1000


def _summary(records: Sequence[MetadataRecord]) -> str:
    kinds = Counter(type(record).__name__ for record in records)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())

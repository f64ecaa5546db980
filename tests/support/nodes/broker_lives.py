"""The life of a broker's logs, to be ended at every storage operation (see `crashes`).

The real ReplicaManager and LogDirectory follow a metadata log: topics are made, led, followed, cut,
deleted and made again under the same name; records are flushed and deleted, checkpoints written,
the broker stopped in order and started again. At any moment it is known which records must be
there, and which may. For a long run:

    python -m tests.tools.storage_crashes tests.support.nodes.broker_lives:BrokerLife
"""

import asyncio
import dataclasses
from uuid import UUID

from nodes.config import load_config
from nodes.ids import Epoch, NodeId, Offset, TopicPartition
from nodes.log.batch import read_header
from nodes.log.checkpoints import CleanShutdown
from nodes.log.divergence import EpochEnd
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.storage.disk import Disk
from tests.support.nodes.batches import batch, content
from tests.support.nodes.log_lives import State

HERE, OTHER = NodeId(1), NodeId(2)
CONFIG, _ = load_config(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": "/memory",
        "log.segment.bytes": "1024",
    }
)


def new_topic(name: str, topic_id: UUID) -> tuple[MetadataRecord, ...]:
    """The records of a topic with one partition, which this broker leads."""
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=(HERE, OTHER),
        isr=(HERE, OTHER),
        leader=HERE,
        leader_epoch=Epoch(0),
        partition_epoch=0,
    )
    return TopicRecord(name=name, topic_id=topic_id), partition


def silence_deaths() -> None:
    """Silence errors of tasks that crash first: the next operation crashes too, and is seen."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)


class BrokerLife:
    """One partition for each topic; `states` holds what each topic id's log may be."""

    def __init__(self) -> None:
        self.killed = False
        self.image = ClusterImage()
        self.states: dict[UUID, list[State]] = {}
        self.topics = 0
        self.manager: ReplicaManager | None = None

    # --- the metadata log

    def change(self, *records: MetadataRecord) -> None:
        """The next image, followed by the broker if it runs."""
        offset = Offset(self.image.offset + len(records))
        self.image, delta = self.image.apply(records, offset, Epoch(1))
        if self.manager is not None:
            self.manager.apply_delta(self.image, delta)

    def create(self, name: str) -> None:
        self.topics += 1
        topic_id = UUID(int=self.topics)
        self.states[topic_id] = [State()]
        self.change(*new_topic(name, topic_id))

    def delete(self, name: str) -> None:
        topic_id = self.image.topic_ids[name]
        self.states.pop(topic_id)
        self.change(RemoveTopicRecord(topic_id=topic_id))

    def elect(self, name: str, leader: NodeId) -> None:
        topic_id = self.image.topic_ids[name]
        self.change(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))

    # --- the broker

    async def start(self, disk: Disk) -> None:
        marked = CleanShutdown(disk).take() is not None
        self.manager = manager = ReplicaManager(CONFIG, disk, lambda: 0.0, clean_start=marked)
        await manager.recover()
        manager.image = self.image
        manager.activate()
        assert manager.active  # at once: there are few logs

    def stop(self, disk: Disk) -> None:
        assert self.manager is not None
        # The end is on disk as soon as the logs are closed; before, it may be.
        assert self.manager.close()
        self.flushed(*self.image.topic_ids)
        CleanShutdown(disk).write(5)

    def replica(self, name: str) -> Replica:
        assert self.manager is not None
        found = self.manager.find(TopicPartition(name, 0))
        assert found is not None
        return found

    async def work(self, disk: Disk) -> None:
        """All operations that need an order of their own."""
        silence_deaths()
        await self.start(disk)
        self.create("t")
        self.create("u")
        await self.append("t", 7)
        await self.append("u", 3)
        self.flush("t")
        await self.checkpoint()
        await self.append("t", 5)
        self.flush("t")
        await self.checkpoint()
        self.elect("t", OTHER)
        self.truncate("t", 16)
        self.fetch("t", 6)
        self.flush("t")
        await self.delete_records("t", 9)
        self.elect("t", HERE)
        await self.append("t", 2)
        self.delete("t")
        self.create("t")
        await self.append("t", 2)
        self.flush("t")
        self.sweep()
        self.delete("u")
        self.stop(disk)
        self.create_while_down("u")
        await self.start(disk)
        await self.append("u", 2)
        self.flush("u")
        await self.append("t", 4)
        await self.delete_records("t", 5)
        self.elect("t", OTHER)
        self.begin_anew("t", 3)
        self.fetch("t", 3)
        self.flush("t")
        self.stop(disk)

    def run(self, disk: Disk) -> None:
        """The work, on a loop of its own."""
        asyncio.run(self.work(disk))

    def create_while_down(self, name: str) -> None:
        self.manager = None
        self.create(name)

    # --- one partition

    def state_of(self, name: str) -> State:
        (state,) = self.states[self.image.topic_ids[name]]
        return state

    def may_be(self, name: str, *states: State) -> None:
        self.states[self.image.topic_ids[name]] = list(states)

    async def append(self, name: str, count: int) -> None:
        replica = self.replica(name)
        for number in range(count):
            records, value = number % 3 + 1, b"v" * (40 * number)
            before = self.state_of(name)
            epoch = replica.state.leader_epoch
            stored = batch(records, base_offset=before.end, epoch=epoch, value=value)
            after = dataclasses.replace(before, batches=(*before.batches, stored))
            self.may_be(name, before, after)
            replica.append(batch(records, value=value))
            self.may_be(name, after)
        for _ in range(9):
            await asyncio.sleep(0)

    def fetch(self, name: str, count: int) -> None:
        """As `append`, from a leader elsewhere."""
        replica = self.replica(name)
        for number in range(count):
            before = self.state_of(name)
            epoch = replica.state.leader_epoch
            sent = batch(2, base_offset=before.end, epoch=epoch, value=b"other" * number)
            after = dataclasses.replace(before, batches=(*before.batches, sent))
            self.may_be(name, before, after)
            replica.append_fetched(sent, Offset(0))
            self.may_be(name, after)

    def flush(self, name: str) -> None:
        self.replica(name).log.flush()
        self.flushed(name)

    def flushed(self, *names: str) -> None:
        for name in names:
            state = self.state_of(name)
            self.may_be(name, dataclasses.replace(state, floor=state.end))

    async def checkpoint(self) -> None:
        manager = self.manager
        assert manager is not None
        await asyncio.gather(
            manager.checkpoint_high_watermarks(),
            manager.logs.checkpoint_recovery_points(),
            manager.logs.checkpoint_starts(),
        )

    def truncate(self, name: str, offset: int) -> None:
        replica, manager, before = self.replica(name), self.manager, self.state_of(name)
        assert manager is not None
        kept = tuple(b for b in before.batches if read_header(b).next_offset <= offset)
        after = dataclasses.replace(before, batches=kept)
        after = dataclasses.replace(after, floor=min(before.floor, after.end))
        assert after.end < before.floor, "flushed records are cut"
        self.may_be(name, dataclasses.replace(before, floor=after.floor, cutting=True))
        replica.truncate(EpochEnd(replica.log.last_epoch, Offset(offset)))
        manager.after_truncation()
        self.may_be(name, after)

    def begin_anew(self, name: str, start: int) -> None:
        """Truncate fully to a lower start: records that are fetched then must not be hidden."""
        replica, manager, before = self.replica(name), self.manager, self.state_of(name)
        assert manager is not None
        assert start < replica.log.start_offset
        after = State(first_start=start, last_start=start, floor=start)
        anything = dataclasses.replace(before, floor=0, cutting=True)
        at_stored_start = State(first_start=before.first_start, last_start=before.first_start)
        self.may_be(name, anything, after, at_stored_start, State())
        replica.truncate_fully_and_start_at(Offset(start))
        manager.after_truncation()
        self.may_be(name, after)

    async def delete_records(self, name: str, offset: int) -> None:
        """Delete records; after the response they must not come back."""
        manager, before = self.manager, self.state_of(name)
        assert manager is not None
        self.may_be(name, dataclasses.replace(before, last_start=offset))
        self.replica(name).advance_start(Offset(offset))
        await manager.logs.checkpoint_starts()
        self.may_be(name, dataclasses.replace(before, first_start=offset, last_start=offset))

    def sweep(self) -> None:
        assert self.manager is not None
        while self.manager.logs.sweep(2):
            pass

    # --- the verdict

    def check(self, disk: Disk) -> None:
        """What is left is one of the states, nothing is refused, and it can be gone on with."""
        asyncio.run(self.examine(disk))

    async def examine(self, disk: Disk) -> None:
        silence_deaths()
        await self.start(disk)
        for name in self.image.topic_ids:
            self.judge(disk, name)
        for name in self.image.topic_ids:
            self.elect(name, HERE)
            if not self.refused(name):
                await self.append(name, 8)
                self.flush(name)
        await self.start(disk)  # as after being killed
        for name in self.image.topic_ids:
            self.judge(disk, name)

    def refused(self, name: str) -> bool:
        assert self.manager is not None
        return self.manager.logs.must_refetch(TopicPartition(name, 0))

    def judge(self, disk: Disk, name: str) -> None:
        """Continue with the state that is found."""
        log, states = self.replica(name).log, self.states[self.image.topic_ids[name]]
        if self.refused(name):  # the power was lost before the topic's id was on disk
            assert not self.killed
            assert min(state.floor for state in states) == 0, "flushed records were set aside"
            self.may_be(name, State())
            return
        survived = content(log)
        found = [state for state in states if self.matches(state, log.start_offset, survived)]
        assert found, (
            f"{name} at {log.start_offset}..{log.end_offset} is none of "
            f"{[(s.first_start, s.last_start, s.floor, s.end) for s in states]}"
        )
        state = found[0]
        kept = tuple(b for b in state.batches if read_header(b).next_offset <= log.end_offset)
        kept = kept if survived else ()
        start = log.start_offset
        self.may_be(
            name,
            State(
                batches=kept,
                first_start=min(start, state.first_start),
                last_start=start,
                floor=log.flushed_offset,
            ),
        )

    def matches(self, state: State, start: int, survived: list[bytes]) -> bool:
        wanted = [b for b in state.batches if read_header(b).next_offset > start]
        end = read_header(survived[-1]).next_offset if survived else start
        least = state.end if self.killed and not state.cutting else state.floor
        in_place = state.first_start <= start <= state.last_start
        return in_place and survived == wanted[: len(survived)] and end >= least

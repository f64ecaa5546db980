"""Members of a consumer group that copy the records of topics to another one, with our own client.

Exactly once: a transaction has the copies and the offsets behind the copied records. At least once:
the member commits the offsets after the copies were acknowledged. The copies of a partition are in
one partition, in order. After anything but a commit, the member goes on from the committed offsets,
so it gets the records again.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Protocol

from harness.plans.workloads import CopyWorkload
from harness.recording.history import OperationWriter
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.librdkafka import BATCH_MESSAGES, REQUEST_TIMEOUT_MS
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.group_member import NOBODY
from harness.workloads.clients.own.partition_queue import Limits
from harness.workloads.clients.own.producer import ProducerSettings
from harness.workloads.clients.own.recording import RecordingProducer
from harness.workloads.clients.own.subscribed import Subscribed, Taken
from harness.workloads.clients.own.transactions import Fenced, Refused, TransactionalProducer
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.environment import ClientEnvironment
from harness.workloads.further.own.members import Members
from harness.workloads.further.own.transactions import (
    begin_producer,
    end_transaction,
    patience_of,
    until_answered,
    write_batch,
)
from harness.workloads.further.rules import (
    ABORTS,
    COPIED_AT_A_TIME,
    Place,
    copies_of,
    leaves,
    positions_behind,
)
from harness.workloads.further_config import FurtherConfig
from nodes.ids import TopicPartition

WAIT_S: Final = 0.1
LINGER_S: Final = 0.002


class _Copier(Protocol):
    """Copies records of one member."""

    async def begin(self) -> bool:
        """Get ready; return whether that was possible."""
        ...

    async def copy(self, subscribed: Subscribed, taken: Sequence[Taken]) -> bool:
        """Copy records and commit the offsets behind them; return whether the copier may go on."""
        ...

    async def close(self) -> None:
        """End the producer."""
        ...


async def run_copies(
    config: FurtherConfig,
    wanted: CopyWorkload,
    writer: OperationWriter,
    world: ClientEnvironment,
    stop: asyncio.Event,
    tallies: list[Tally],
) -> None:
    """Run the members of the group; see `run.run_further`."""
    members = Members(
        config=config,
        wanted=wanted,
        histories=FurtherHistories(config, writer, wanted.value_bytes),
        world=world,
        stop=stop,
    )
    async with asyncio.TaskGroup() as group:
        for index in range(wanted.members):
            tally = Tally()
            tallies.append(tally)
            group.create_task(_in_turn(members, wanted, index, tally))


async def _in_turn(members: Members, wanted: CopyWorkload, index: int, tally: Tally) -> None:
    """Be one member after the other until the stop. Each has a producer of its own, which is
    another client."""
    rng = random.Random(members.world.rng.getrandbits(64))
    while not members.stop.is_set():
        copier = _copier(members, wanted, index, tally, rng)
        client = members.histories.next_client()
        if not await copier.begin():
            await copier.close()
            continue
        subscribed = await members.subscribe(client, index, tally, _nothing)
        if subscribed is not None:
            end_s = members.end_s(client, rng)
            try:
                while members.goes_on(subscribed, end_s):
                    await subscribed.step()
                    taken = subscribed.take(COPIED_AT_A_TIME)
                    subscribed.record(taken)
                    if taken and not await copier.copy(subscribed, taken):
                        break
                    await subscribed.progress.wait(WAIT_S)
            finally:
                await subscribed.close(leave=leaves(members.stop, rng) and not subscribed.over)
        await copier.close()


async def _nothing(partitions: Collection[TopicPartition]) -> None:
    """Commit nothing: all offsets are committed already."""


def _copier(
    members: Members, wanted: CopyWorkload, index: int, tally: Tally, rng: random.Random
) -> _Copier:
    client = members.histories.next_client()
    if wanted.processing == "at-least-once":
        return _AtLeastOnce(members, wanted, client, tally)
    return _ExactlyOnce(members, wanted, client, index, tally, rng)


class _ExactlyOnce:
    """Copies in transactions."""

    def __init__(
        self,
        members: Members,
        wanted: CopyWorkload,
        client: int,
        index: int,
        tally: Tally,
        rng: random.Random,
    ) -> None:
        config, output = members.config, wanted.output
        self._members = members
        self._wanted = wanted
        self._rng = rng
        self._partitions = config.partitions[output]
        self._patience = patience_of(members.stop, config.drain_ms / 1000)
        transactional_id = f"{config.name}-{index}"
        self._sends: TransactionSends = members.histories.transactions(
            client, output, transactional_id, tally, wanted.group
        )
        self._producer = TransactionalProducer(
            members.connect(output, client),
            transactional_id,
            wanted.transaction_timeout_ms / 1000,
            second=None,
        )

    async def begin(self) -> bool:
        """See `_Copier`."""
        self._sends.open()
        return await begin_producer(self._producer, self._sends, self._patience)

    async def copy(self, subscribed: Subscribed, taken: Sequence[Taken]) -> bool:
        """See `_Copier`."""
        producer, sends, patience = self._producer, self._sends, self._patience
        sends.begin()
        try:
            await self._write(taken)
            await self._send_offsets(subscribed, taken)
        except (Fenced, Unavailable) as error:
            sends.left_open(error=str(error))
            return False
        except Refused as error:
            sends.note(str(error))
            ended = await end_transaction(producer, sends, patience, commit=False)
            return ended and await subscribed.go_back()
        commit = self._rng.random() >= ABORTS
        ended = await end_transaction(producer, sends, patience, commit=commit)
        return ended and (commit or await subscribed.go_back())

    async def _write(self, taken: Sequence[Taken]) -> None:
        by_partition: dict[int, list[tuple[int, bytes]]] = {}
        for partition, value in copies_of(taken, self._sends, self._partitions):
            made = self._sends.send(partition, copies=value)
            by_partition.setdefault(partition, []).append(made)
        for partition, records in by_partition.items():
            now_ms = self._members.world.wall_clock_ms()
            place = Place(self._sends.topic, partition, len(records))
            await write_batch(self._producer, self._sends, self._patience, place, records, now_ms)

    async def _send_offsets(self, subscribed: Subscribed, taken: Sequence[Taken]) -> None:
        wanted, member = self._wanted, subscribed.member
        offsets = positions_behind(taken)
        self._sends.offsets(wanted.group, member.generation, offsets)
        send = partial(
            self._producer.commit_offsets,
            member.coordinator,
            wanted.group,
            offsets,
            **(member.identity if wanted.group_metadata else NOBODY),
        )
        await until_answered(self._patience, send)

    async def close(self) -> None:
        """See `_Copier`."""
        self._sends.left_open()
        self._sends.close()
        await self._producer.cluster.close()


class _AtLeastOnce:
    """Copies with an idempotent producer, and commits afterwards."""

    def __init__(self, members: Members, wanted: CopyWorkload, client: int, tally: Tally) -> None:
        config = members.config
        self._partitions = config.partitions[wanted.output]
        self._drain_s = config.drain_ms / 1000
        self._timeout_s = wanted.transaction_timeout_ms / 1000
        self._sends = members.histories.sends(client, wanted.output, tally, wanted.group)
        settings = ProducerSettings(
            acks=-1,
            idempotence=True,
            limits=Limits(messages=BATCH_MESSAGES, linger_s=LINGER_S, timeout_s=self._timeout_s),
            replication_s=min(REQUEST_TIMEOUT_MS / 1000, self._timeout_s),
        )
        self._producer = RecordingProducer(
            members.connect(wanted.output, client),
            settings,
            self._sends,
            members.world.wall_clock_ms,
        )

    async def begin(self) -> bool:
        """See `_Copier`."""
        return True

    async def copy(self, subscribed: Subscribed, taken: Sequence[Taken]) -> bool:
        """See `_Copier`."""
        sends, producer = self._sends, self._producer
        failed = sends.tally.failed + sends.tally.info
        for partition, value in copies_of(taken, sends, self._partitions):
            producer.send(partition, copies=value)
        while sends.pending:
            await producer.progress.wait(self._timeout_s)
        if sends.tally.failed + sends.tally.info > failed:
            return producer.fatal is None and await subscribed.go_back()
        offsets = positions_behind(taken)
        results = await subscribed.commit(offsets)
        if subscribed.over or all(result is Outcome.OK for result in results.values()):
            return not subscribed.over
        return await subscribed.go_back()

    async def close(self) -> None:
        """See `_Copier`."""
        await self._producer.close(self._drain_s)

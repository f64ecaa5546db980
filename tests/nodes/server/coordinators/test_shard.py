"""A shard's life: loading, answers that wait for replication, the end of the leadership."""

import asyncio
import gc
from dataclasses import replace
from typing import Any

import pytest
import uvloop
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.composition import Groups
from nodes.coordinators.groups.offset_requests import OffsetFetch, TopicFetch
from nodes.coordinators.machine import Effects, Now, Position, Token
from nodes.coordinators.records import CoordinatorRecord
from nodes.log.batch import Record, encode_batch
from nodes.log.config import LogConfig
from nodes.server.coordinators import loading
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access, Shard, State
from tests.support.nodes.coordinator_shard import (
    COMMIT_TIMEOUT_MS,
    FOLLOWER,
    LEADER,
    LedPartition,
    commit,
    fetch,
    fetched,
    run,
)
from tests.support.nodes.group_offsets import CHECK_MS, RETENTION_MS, commit_of


async def active(shard: Shard[Groups]) -> Shard[Groups]:
    await asyncio.wait([shard.loading])
    assert shard.state is State.ACTIVE
    return shard


def refused_with(done: Any) -> ErrorCode:
    """The error of a future, or of a call."""
    with pytest.raises(CoordinatorError) as refused:
        (done if callable(done) else done.result)()
    return refused.value.code


def test_answers_wait_for_the_high_watermark() -> None:
    """Also those of reads, if what they tell is not replicated."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        written, read = commit(shard, 7), fetch(shard)
        assert not written.done()
        assert not read.done()
        partition.replicate()
        assert written.result()["topics"][0]["partitions"][0]["error_code"] is ErrorCode.none
        assert fetched(read) == 7
        assert fetched(fetch(shard)) == 7

    run(test())


def test_a_new_shard_knows_what_the_last_one_wrote() -> None:
    """It answers when the high watermark has caught up with its log."""

    async def test() -> None:
        partition = LedPartition()
        commit(await active(partition.shard()), 7)
        partition.lead(2)
        shard = partition.shard()
        assert refused_with(lambda: fetch(shard)) is ErrorCode.coordinator_load_in_progress
        await active(shard)
        read = fetch(shard)
        assert not read.done()
        partition.replicate()
        assert fetched(read) == 7

    run(test())


@pytest.mark.parametrize("leader", [LEADER, FOLLOWER])
def test_the_end_of_the_epoch_ends_the_shard(leader: Any) -> None:
    """Nobody is told that a commit succeeded by what a later leader replicates (KAFKA-20634)."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        written = commit(shard, 7)
        partition.lead(2, leader=leader)
        partition.replicate()
        assert refused_with(written) is ErrorCode.not_coordinator
        assert refused_with(lambda: commit(shard, 8)) is ErrorCode.not_coordinator
        assert shard.state is State.CLOSED
        await asyncio.sleep(0)
        assert not partition.replica.watchers

    run(test())


def test_a_leadership_that_ends_during_loading_never_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KAFKA-16030."""
    monkeypatch.setattr(loading, "SLICE_BYTES", 1)

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        for offset in range(10):
            commit(shard, offset)
        partition.lead(2)
        loading_shard = partition.shard()
        for _ in range(3):
            await asyncio.sleep(0)
        assert loading_shard.state is State.LOADING
        partition.lead(3, leader=FOLLOWER)
        for _ in range(30):
            await asyncio.sleep(0)
        assert loading_shard.state is State.CLOSED
        assert refused_with(lambda: fetch(loading_shard)) is ErrorCode.not_coordinator

    run(test())


def test_a_removed_replica_ends_the_shard() -> None:
    """Whoever waits is told so."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        written = commit(shard, 7)
        partition.replica.retire()
        assert refused_with(written) is ErrorCode.not_coordinator

    run(test())


def test_too_few_replicas_refuse_writes_and_stop_time() -> None:
    """Nothing is appended, reads are served; then the machine begins anew, as it missed a tick."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        commit(shard, 7)
        partition.replicate()
        partition.lead(1, isr=(LEADER,))
        assert refused_with(lambda: commit(shard, 8)) is ErrorCode.coordinator_not_available
        assert fetched(fetch(shard)) == 7
        await asyncio.sleep((RETENTION_MS + CHECK_MS) / 1000)
        assert (partition.replica.log.end_offset, partition.made) == (1, 1)
        partition.lead(1)
        assert partition.made == 2
        await active(shard)
        assert fetched(fetch(shard)) == 7  # the wall clock of this test stands still
        commit(shard, 8)
        assert partition.replica.log.end_offset == 2

    run(test())


def test_a_short_lack_of_replicas_leaves_the_machine() -> None:
    """It missed nothing; a refused commit is nothing that it would remember."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        partition.lead(1, isr=(LEADER,))
        assert refused_with(lambda: commit(shard, 8)) is ErrorCode.coordinator_not_available
        partition.lead(1)
        assert partition.made == 1
        partition.lead(1, isr=(LEADER,))
        assert refused_with(lambda: shard.perform(lambda m, t, now: Effects())) is (
            ErrorCode.coordinator_not_available
        )
        partition.lead(1)
        assert partition.made == 2

    run(test())


def test_a_commit_that_is_not_replicated_in_time_is_refused() -> None:
    """It may be committed later; the answers behind it keep their own time."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        first = commit(shard, 7)
        await asyncio.sleep(COMMIT_TIMEOUT_MS / 2000)
        second = commit(shard, 8)
        await asyncio.sleep(COMMIT_TIMEOUT_MS / 2000)
        await asyncio.sleep(0)
        assert refused_with(first) is ErrorCode.coordinator_not_available
        assert not second.done()
        partition.replicate()
        assert second.done()
        assert fetched(fetch(shard)) == 8

    run(test())


def test_a_commit_that_is_too_large_changes_nothing() -> None:
    """The machine stays, because the operation changes nothing but by its records."""

    async def test() -> None:
        partition = LedPartition(LogConfig(max_message_bytes=500))
        shard = await active(partition.shard())
        refused = refused_with(lambda: commit(shard, 7, metadata="m" * 600))
        assert refused is ErrorCode.record_list_too_large
        assert partition.made == 1
        assert fetched(fetch(shard)) == -1

    run(test())


def test_a_failed_append_loads_the_machine_anew() -> None:
    """It may remember what is not in the log; who waits for it is refused."""

    async def test() -> None:
        partition = LedPartition(LogConfig(max_message_bytes=500))
        shard = await active(partition.shard())
        commit(shard, 7)
        partition.replicate()
        pending = shard.perform(lambda m, t, now: Effects())
        too_large = Effects((CoordinatorRecord(b"\0\1" + b"k" * 600, None),))
        refused = refused_with(lambda: shard.perform(lambda m, t, now: too_large))
        assert refused is ErrorCode.record_list_too_large
        assert refused_with(pending) is ErrorCode.not_coordinator
        assert refused_with(lambda: fetch(shard)) is ErrorCode.coordinator_load_in_progress
        assert fetched(fetch(await active(shard))) == 7

    run(test())


def test_separable_records_become_as_many_batches_as_they_need() -> None:
    """One batch would be too large; a record that alone is too large is refused."""

    async def test() -> None:
        partition = LedPartition(LogConfig(max_message_bytes=300))
        shard = await active(partition.shard())
        request = commit_of("g", {("t", each): each for each in range(20)})

        def commit_all(machine: Groups, token: Token, now: Now) -> Effects:
            return replace(machine.commit_offsets(request, token, now), separable=True)

        committed = shard.perform(commit_all, Access.WRITE)
        assert not committed.done()
        partition.replicate()
        assert committed.done()
        assert partition.replica.log.end_offset == 20
        whole = OffsetFetch("g", (TopicFetch("t", tuple(range(20))),))
        read = shard.perform(lambda m, t, now: m.fetch_offsets(whole, t, now), Access.READ)
        topics = read.result()["topics"]
        assert [each["committed_offset"] for each in topics[0]["partitions"]] == [*range(20)]
        large = Effects((CoordinatorRecord(b"\0\1" + b"k" * 600, None),), separable=True)
        refused = refused_with(lambda: shard.perform(lambda m, t, now: large))
        assert refused is ErrorCode.record_list_too_large

    run(test())


def test_damaged_records_are_not_taken_for_none() -> None:
    """The shard never serves; another epoch may try again."""

    async def test() -> None:
        partition = LedPartition()
        damaged = Record(key=b"\0\1\0", value=b"")
        partition.replica.append(encode_batch([damaged], timestamp_ms=0))
        shard = partition.shard()
        await asyncio.wait([shard.loading])
        assert shard.state is State.FAILED
        assert refused_with(lambda: fetch(shard)) is ErrorCode.not_coordinator

    run(test())


class Waiting(Groups):
    """Notes who stopped to wait, and has a deadline of its own."""

    gone: tuple[Token, ...] = ()
    due_ms: float | None = None
    ticks = 0

    def abandoned(self, token: Token) -> None:
        self.gone += (token,)

    def deadline_ms(self) -> float | None:
        return self.due_ms

    def tick(self, now: Now) -> Effects:
        self.ticks, self.due_ms = self.ticks + 1, None
        return Effects()


def test_the_machine_hears_of_lost_connections_and_of_its_deadlines() -> None:
    """An operation may set a deadline, and leave its token without an answer."""

    async def test() -> None:
        partition = LedPartition()
        machines: list[Waiting] = []

        def make() -> Waiting:
            machines.append(Waiting(partition.settings))
            return machines[-1]

        def join(machine: Waiting, token: Token, now: Now) -> Effects:
            machine.due_ms = now.ms + 100
            return Effects()

        shard = Shard(partition.replica, make, lambda: 0, commit_timeout_ms=1000)
        await asyncio.wait([shard.loading])
        machine = machines[-1]
        pending = shard.perform(join, Access.CHANGE)
        await asyncio.sleep(0.2)
        assert machine.ticks == 1
        pending.cancel()
        await asyncio.sleep(0)
        assert machine.gone == (Token(1),)

    run(test())


def test_an_operation_that_fails_leaves_the_machine_of_the_log() -> None:
    """A bug must not make live state differ from the log."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        commit(shard, 7)
        partition.replicate()

        def broken(machine: Groups, token: Token, now: Now) -> Effects:
            machine.replay(CoordinatorRecord(b"\0\1\0\1g\0\1t\0\0\0\0", None), Position(0, 0, None))
            raise KeyError("a bug")

        with pytest.raises(KeyError):
            shard.perform(broken)
        assert fetched(fetch(await active(shard))) == 7

    run(test())


def test_what_happens_during_loading_is_done_afterwards() -> None:
    """A topic that is deleted meanwhile still loses its offsets."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        commit(shard, 7)
        partition.lead(2)
        shard = partition.shard()
        shard.tell(lambda machine: machine.topics_deleted(["t"]))
        await active(shard)
        await asyncio.sleep(0.01)
        partition.replicate()
        assert fetched(fetch(shard)) == -1

    run(test())


def test_what_happens_during_loading_waits_for_a_machine_that_loads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first step failed."""
    loads: list[Groups] = []
    loaded = Groups.loaded

    def fails_once(machine: Groups, now: Now) -> Effects:
        loads.append(machine)
        if len(loads) == 1:
            raise KeyError("a bug")
        return loaded(machine, now)

    async def test() -> None:
        partition = LedPartition()
        commit(await active(partition.shard()), 7)
        partition.lead(2)
        monkeypatch.setattr(Groups, "loaded", fails_once)
        shard = partition.shard()
        shard.tell(lambda machine: machine.topics_deleted(["t"]))
        await asyncio.wait([shard.loading])
        await active(shard)
        await asyncio.sleep(0.01)
        partition.replicate()
        assert len(loads) == 2
        assert fetched(fetch(shard)) == -1

    run(test())


def test_event_that_nobody_waits_for_is_not_refused_when_the_leadership_ends() -> None:
    """No exception is left that nobody asks for (seed 104037)."""

    async def test() -> None:
        left: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: left.append(context["message"]))
        partition = LedPartition()
        shard = await active(partition.shard())
        written = commit(shard, 7)  # is not replicated, and is first in line
        shard.tell(lambda machine: machine.topics_deleted(["t"]))
        shard.close()
        assert written.exception() is not None
        await asyncio.sleep(0)
        gc.collect()
        assert left == []

    run(test())


def test_the_event_loop_of_real_nodes_serves_it() -> None:
    """uvloop's handles of calls that are due know no time (unlike asyncio's)."""

    async def test() -> None:
        partition = LedPartition()
        shard = await active(partition.shard())
        vars(shard.machine)["deadline_ms"] = lambda: 1.0
        for offset in (7, 8):
            commit(shard, offset)
        partition.replicate()
        assert fetched(fetch(shard)) == 8
        shard.close()

    uvloop.run(test())

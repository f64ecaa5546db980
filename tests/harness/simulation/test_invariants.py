"""Invariants that are broken by hand are found. What mutants break stands in `test_schedules`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from harness.simulation.invariants import InvariantBroken, Invariants
from harness.simulation.invariants.convergence import NotConverged, converge, open_matters
from harness.simulation.invariants.images import Images
from harness.simulation.invariants.ledger import Batch, Ledger, Sequences
from harness.simulation.invariants.watching import watch
from harness.simulation.world.guard import guard
from harness.systems.node_roles import Layout
from harness.zoo.schedules.stage import Schedule, Stage, answers, disk
from nemesis.hosts import Cut
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, NodeId, Offset
from nodes.log.batch import BatchHeader, Record, encode_batch, read_header
from nodes.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from nodes.metadata.records import RECOVERING
from nodes.raft.election_state import ElectionState
from nodes.replication.partition import Role
from tests.tools.simulation_storm import Storm

# -- by the ledger alone


def header(base: int, epoch: int, value: bytes = b"", **producer: Any) -> BatchHeader:
    """A batch of one record."""
    batch = encode_batch(
        [Record(value=value)],
        base_offset=Offset(base),
        leader_epoch=Epoch(epoch),
        timestamp_ms=1,
        **producer,
    )
    return read_header(batch)


def appended(ledger: Ledger, node: int, *headers: BatchHeader) -> list[Any]:
    """A node's whole log."""
    batches: list[Any] = []
    sequences = Sequences()
    for each in headers:
        batches.append(ledger.met(node, each, batches[-1] if batches else None, sequences))
        if batches[-1].sent is not None:
            sequences.note(batches[-1].sent)
    return batches


def test_equal_logs_are_one() -> None:
    """What every replica appends is known once, and may be committed by whoever leads."""
    ledger = Ledger("t-0")
    here = appended(ledger, 1, header(0, 0), header(1, 0), header(2, 1))
    there = appended(ledger, 2, header(0, 0), header(1, 0))
    assert here[:2] == there
    ledger.commit(here[1], 0, 1)
    ledger.commit(here[2], 1, 2)
    assert ledger.top() is here[2]
    assert ledger.top(1) is here[1]
    assert ledger.top(0) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([header(0, 0, b"a")], [header(0, 0, b"b")]),
        ([header(0, 0), header(1, 2)], [header(0, 1), header(1, 2)]),
    ],
)
def test_logs_match(one: list[BatchHeader], other: list[BatchHeader]) -> None:
    """Other bytes at one epoch and offset; the same bytes behind another predecessor."""
    ledger = Ledger("t-0")
    appended(ledger, 1, *one)
    with pytest.raises(InvariantBroken, match="log-matching"):
        appended(ledger, 2, *other)


def test_what_is_committed_stays() -> None:
    """Nothing else is committed at its offset, and nobody who runs cuts it."""
    ledger = Ledger("t-0")
    (first,) = appended(ledger, 1, header(0, 0, b"a"))
    (other,) = appended(ledger, 2, header(0, 1, b"b"))
    ledger.commit(first, 0, 1)
    with pytest.raises(InvariantBroken, match="committed-stays"):
        ledger.commit(other, 1, 2)
    with pytest.raises(InvariantBroken, match="committed-stays"):
        ledger.removed(1, [first])
    ledger.removed(2, [other])
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        ledger.told(2, 1, other, 1)
    ledger.told(3, 1, first, 1)


def test_what_may_be_lost_is_given_up() -> None:
    """After a reset another record may be committed; leaders of before count no more."""
    ledger = Ledger("t-0")
    zero, one = appended(ledger, 1, header(0, 0), header(1, 0))
    ledger.commit(one, 0, 1)
    assert ledger.reset(zero, 2) == 1
    assert ledger.top() is zero
    _, other = appended(ledger, 2, header(0, 0), header(1, 2))
    ledger.commit(other, 2, 2)
    ledger.commit(one, 0, 1)  # by a leader that does not know
    assert ledger.top() is other


def test_who_has_not_heard_of_an_unclean_election_commits_for_itself_alone() -> None:
    """Even where it gave up nothing that was known to be committed by then."""
    ledger = Ledger("t-0")
    zero, one = appended(ledger, 1, header(0, 0), header(1, 0))
    _, other = appended(ledger, 2, header(0, 0), header(1, 2))
    ledger.commit(zero, 0, 1)
    ledger.disregard_before(2)
    ledger.commit(other, 2, 2)
    ledger.commit(one, 0, 1)
    assert ledger.top() is other


def test_what_was_given_up_is_committed_again_by_who_has_it() -> None:
    """After one unclean election another may bring it back, with its high watermark."""
    ledger = Ledger("t-0")
    zero, one = appended(ledger, 1, header(0, 0), header(1, 0))
    ledger.commit(one, 0, 1)
    ledger.reset(zero, 3)
    ledger.regain(zero, 5, 1)
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        ledger.told(2, 2, one, Epoch(5))
    ledger.regain(one, 5, 1)
    ledger.told(2, 2, one, Epoch(5))
    assert ledger.top() is one


def test_who_committed_for_itself_alone_is_believed_if_it_leads_once_more() -> None:
    """By another unclean election, with its log and its high watermark."""
    ledger = Ledger("t-0")
    zero, one = appended(ledger, 1, header(0, 0), header(1, 0))
    ledger.commit(zero, 0, 1)
    ledger.disregard_before(2)
    ledger.commit(one, 0, 1)
    ledger.reset(zero, 4)
    ledger.regain(one, 4, 1)
    ledger.told(2, 2, one, Epoch(4))


def test_an_epoch_has_one_leader() -> None:
    """Whoever says who it is."""
    ledger = Ledger("t-0")
    ledger.led(1, 1, 1)
    ledger.led(1, 1, 3)
    with pytest.raises(InvariantBroken, match="one-leader"):
        ledger.led(1, 2, 2)


@pytest.mark.parametrize(
    ("epoch", "sequence", "wrong"), [(0, 1, False), (0, 2, True), (0, 0, True), (1, 0, False)]
)
def test_sequences_follow_each_other(epoch: int, sequence: int, *, wrong: bool) -> None:
    """The next one, a gap, a repetition, a new epoch."""
    ledger = Ledger("t-0")
    first = header(0, 0, producer_id=7, producer_epoch=0, base_sequence=0)
    second = header(1, 0, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    if wrong:
        with pytest.raises(InvariantBroken, match="sequences"):
            appended(ledger, 1, first, second)
    else:
        appended(ledger, 1, first, second)


# -- by images alone


def image(offset: int, *, leader: int = 1, epoch: int = 0, fenced: bool = False) -> ClusterImage:
    """One topic on two brokers, the second perhaps fenced."""
    topic_id = UUID(int=5)
    brokers = {
        NodeId(node): BrokerImage(
            node_id=NodeId(node),
            epoch=BrokerEpoch(node),
            incarnation_id=None,
            endpoints=(),
            fenced=fenced and node == 2,
        )
        for node in (1, 2)
    }
    nodes = (NodeId(1), NodeId(2))
    partition = PartitionImage(
        replicas=nodes,
        isr=nodes,
        leader=NodeId(leader),
        leader_epoch=Epoch(epoch),
        partition_epoch=epoch,
    )
    topic = TopicImage(name="t", topic_id=topic_id, partitions={0: partition})
    return ClusterImage(
        offset=Offset(offset),
        brokers=brokers,
        topics={topic_id: topic},
        topic_ids={"t": topic_id},
    )


def test_images_of_one_offset_are_equal() -> None:
    """Another node's at the same offset; and an older one, of a node that lags behind."""
    images = Images()
    images.seen(1, image(5))
    images.seen(1, image(6, epoch=1))
    images.seen(2, image(5))
    with pytest.raises(InvariantBroken, match="equal-images"):
        images.seen(2, image(6, epoch=2))


def test_epochs_rise_and_have_one_leader() -> None:
    """From image to image."""
    images = Images()
    images.seen(1, image(5, epoch=3))
    with pytest.raises(InvariantBroken, match="epochs-rise"):
        images.seen(1, image(6, epoch=2))
    with pytest.raises(InvariantBroken, match="one-leader"):
        images.seen(1, image(7, epoch=3, leader=2))


def test_the_fenced_are_in_no_isr() -> None:
    """Whether the ISR or the broker changed."""
    images = Images()
    images.seen(1, image(5))
    with pytest.raises(InvariantBroken, match="no-fenced-member"):
        images.seen(1, image(6, fenced=True))


@pytest.mark.parametrize("allowed", [True, False])
def test_an_unclean_leader_may_be_elected_and_fenced_between_two_images(*, allowed: bool) -> None:
    """What it lacked is no lie of the one who has it eligible then, where anybody may lead."""
    images = Images()
    images.seen(1, image(5))
    found = images.partition("t", UUID(int=5), 0)
    _, last = appended(found.ledger, 1, header(0, 0), header(1, 0))
    found.ledger.commit(last, 0, 1)
    found.copy(2)
    after = image(9)
    topic = after.topics[UUID(int=5)]
    fenced_again = replace(
        topic.partitions[0],
        isr=(),
        elr=(NodeId(2),),
        leader=NO_NODE,
        leader_epoch=Epoch(2),
        partition_epoch=2,
        leader_recovery_state=RECOVERING,
    )
    after = replace(after, topics={topic.topic_id: replace(topic, partitions={0: fenced_again})})
    if allowed:
        images.unclean_topics["t"] = None
        images.seen(1, after)
        assert found.may_have_lost
    else:
        with pytest.raises(InvariantBroken, match="isr-has-all-committed"):
            images.seen(1, after)


# -- watching


def test_assignments_are_noted() -> None:
    """To this object, not to others of its class; what it is and does stays the same."""

    class Thing:
        value = 0

        def double(self) -> int:
            self.value *= 2
            return self.value

    thing, other = Thing(), Thing()
    notes: list[int] = []
    watch(thing, lambda: notes.append(thing.value))
    thing.value = 3
    other.value = 4
    assert thing.double() == 6
    assert notes == [3, 6]
    assert isinstance(thing, Thing)
    watch(thing, lambda: notes.append(-1))
    thing.value = 1
    assert notes == [3, 6, -1]


# -- in running clusters, by hand


async def _flushed_is_a_lie(stage: Stage) -> None:
    stage.replica(3).log._flusher.flushed = stage.replica(3).log.end_offset


async def _high_watermark_beyond_the_log(stage: Stage) -> None:
    stage.replica(3).state.high_watermark = Offset(99)


async def _high_watermark_goes_back(stage: Stage) -> None:
    stage.replica(2).state.high_watermark = Offset(1)


async def _follower_knows_too_much(stage: Stage) -> None:
    stage.cut(answers(2, 4))
    await stage.send(acks=1)
    await stage.until("node 3 has it", lambda: stage.copy(3).end == stage.copy(2).end)
    stage.replica(3).state.high_watermark = stage.replica(3).log.end_offset


async def _commits_too_early(stage: Stage) -> None:
    stage.cut(answers(2, 4))
    await stage.send(acks=1)
    stage.replica(2).state.high_watermark = stage.replica(2).log.end_offset


async def _commits_alone(stage: Stage) -> None:
    stage.cut(answers(2, 4))
    await stage.send(acks=1)
    state = stage.replica(2).state
    together, state.min_isr, state.isr = state.isr, 2, frozenset({NodeId(2)})
    state.high_watermark = stage.replica(2).log.end_offset
    state.isr = together


async def _two_leaders(stage: Stage) -> None:
    stage.replica(3).state.leader = NodeId(3)
    stage.replica(3).state.role = Role.LEADER


async def _restart_loses(stage: Stage) -> None:
    stage.cluster.kill(3)
    disk(stage.host(3)).content.crash()
    stage.cluster.start(3)


async def _follower_cuts(stage: Stage) -> None:
    stage.replica(3).log.truncate_to(Offset(1))


async def _vote_goes_back(stage: Stage) -> None:
    member = stage.eye(1).member
    assert member is not None
    member._voting.persisted[1] = ElectionState(epoch=Epoch(9))
    member.quorum._state = replace(member.quorum.state, epoch=Epoch(9))


async def _quorum_goes_back(stage: Stage) -> None:
    member = stage.eye(2).member
    assert member is not None
    member.quorum.high_watermark = Offset(1)


async def _quorum_leader_lacks(stage: Stage) -> None:
    ledger = stage.invariants.voting.ledger
    top = ledger.top()
    assert top is not None
    ledger.commit(Batch(top.end, top.end + 9, top.epoch, 0, top), top.epoch, 1)
    stage.cluster.kill(1)
    stage.cluster.start(1)
    await stage.until("it leads again", lambda: stage.quorum_leader() == 1)


async def _offsets_leave_a_gap(stage: Stage) -> None:
    stage.replica(2).log._segments.active.next_offset = Offset(7)


BY_HAND: dict[str, tuple[Callable[[Stage], Awaitable[None]], str]] = {
    "flushed": (_flushed_is_a_lie, "flushed-is-on-disk"),
    "beyond the log": (_high_watermark_beyond_the_log, "high-watermark-in-log"),
    "leader's high watermark": (_high_watermark_goes_back, "high-watermark-rises"),
    "follower's high watermark": (_follower_knows_too_much, "follower-high-watermark"),
    "commit": (_commits_too_early, "isr-has-all-committed"),
    "commit alone": (_commits_alone, "commits-with-enough"),
    "leaders": (_two_leaders, "one-leader"),
    "restart": (_restart_loses, "a-restart-loses-nothing"),
    "cut": (_follower_cuts, "committed-stays"),
    "vote": (_vote_goes_back, "votes-stay"),
    "quorum's leader": (_quorum_leader_lacks, "leader-has-all-committed"),
    "offsets": (_offsets_leave_a_gap, "dense-offsets"),
    "quorum's high watermark": (_quorum_goes_back, "high-watermark-rises"),
}


@pytest.mark.parametrize("what", BY_HAND)
def test_what_is_broken_by_hand_is_found(what: str) -> None:
    """At the event that broke it, or at the next that touches it."""
    tamper, name = BY_HAND[what]

    async def play(stage: Stage) -> None:
        await stage.make([2, 3, 4])
        await stage.send(count=3)
        await stage.everywhere()
        await tamper(stage)
        for _ in range(3):
            stage.client.leaders["t", 0] = 2
            await stage.client.send("t", 0, 1)

    with pytest.raises(InvariantBroken, match=f"^{name}: "):
        Stage(Schedule(play=play, overrides={"replica.lag.time.max.ms": 60_000}), 1).run()


# -- what is no violation


def _digest(*, watched: bool) -> str:
    storm = Storm(3)
    if not watched:
        storm.cluster.on_node = lambda node, made: None
    with guard(storm.world):
        storm.cluster.start()
        storm.cluster.run_client(lambda: storm._main(60))
        storm.world.run_for(6)
        storm.cluster.close()
    assert bool(storm.invariants.images.partitions) is watched
    return storm.world.trace.digest()


def test_being_watched_changes_nothing() -> None:
    """The same trace to the last event, with and without."""
    assert _digest(watched=True) == _digest(watched=False)


def test_what_is_open_is_said() -> None:
    """A replica that is cut off keeps a cluster from converging, until it is not any more."""
    said: list[str] = []

    async def play(stage: Stage) -> None:
        await stage.make([2, 3, 4])
        stage.cut(answers(2, 4))
        stage.send_soon()
        await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
        said.append(open_matters(stage.invariants))
        with pytest.raises(NotConverged, match="1 s were not enough: t-0: its ISR is"):
            await converge(stage.invariants, within_s=1)
        stage.cluster.kill(3)
        said.append(open_matters(stage.invariants))
        await stage.settle(60)
        said.append(open_matters(stage.invariants))

    Stage(Schedule(play=play, overrides={"replica.lag.time.max.ms": 500}), 1).run()
    assert said == ["t-0: its ISR is [2, 3] of [2, 3, 4]", "node 3 does not run", ""]


async def _elects_an_outsider(stage: Stage) -> None:
    await stage.make([2, 3, 4], unclean_leader_election_enable="true")
    stage.cut(answers(2, 4), Cut(4, 1))
    sending = stage.send_soon()
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await sending
    await stage.send(count=3)
    stage.client.acked.clear()
    stage.heal()
    stage.cluster.kill(2)
    stage.cluster.kill(3)
    await stage.until("node 4 leads", lambda: stage.partition.leader == 4)
    await stage.until("and knows it", lambda: stage.replica(4).state.leader == 4)


def test_an_unclean_election_may_lose() -> None:
    """Where the topic allows it: then what was committed is given up, and said to be."""
    schedule = Schedule(play=_elects_an_outsider, overrides={"replica.lag.time.max.ms": 500})
    stage = Stage(schedule, 1)
    stage.run()
    assert any("given up" in text for text in stage.invariants.excused)


def test_invariants_need_no_separate_controllers() -> None:
    """Brokers that are controllers as well are watched as both."""

    async def play(stage: Stage) -> None:
        await stage.make([1, 2, 3])
        await stage.send(count=3)

    stage = Stage(Schedule(play=play, layout=lambda: Layout.combined([1, 2, 3])), 1)
    stage.run()
    assert isinstance(stage.invariants, Invariants)
    assert stage.invariants.voting.ledger.top() is not None

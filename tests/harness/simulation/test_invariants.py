"""Invariants that are broken by hand are found. What mutants break stands in `test_schedules`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import pytest

from harness.simulation.invariants import InvariantBroken, Invariants
from harness.simulation.invariants.attribute_watch import watch
from harness.simulation.invariants.convergence import NotConverged, converge, unconverged
from harness.simulation.invariants.images import UNCLEAN, Images
from harness.simulation.invariants.partition_history import Batch
from harness.simulation.world.guard import guard
from harness.systems.node_roles import Layout
from harness.zoo.schedules.stage import MessageSchedule, Stage, disk, fetch_answers
from nemesis.hosts import Cut
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, PartitionImage, TopicImage
from nodes.metadata.records import RECOVERING
from nodes.raft.election_state import ElectionState
from nodes.replication.partition import Role
from tests.support.simulation.appended import appended, header
from tests.tools.simulation_storm import Storm

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


def test_different_images_at_one_offset_break_equal_images() -> None:
    """One image is another node's, one is older, of a node that lags behind."""
    images = Images()
    images.seen(1, image(5))
    images.seen(1, image(6, epoch=1))
    images.seen(2, image(5))
    with pytest.raises(InvariantBroken, match="equal-images"):
        images.seen(2, image(6, epoch=2))


def test_falling_epoch_or_second_leader_in_images_is_found() -> None:
    """Two successive images are compared."""
    images = Images()
    images.seen(1, image(5, epoch=3))
    with pytest.raises(InvariantBroken, match="epochs-rise"):
        images.seen(1, image(6, epoch=2))
    with pytest.raises(InvariantBroken, match="one-leader"):
        images.seen(1, image(7, epoch=3, leader=2))


def test_fenced_broker_in_the_isr_breaks_no_fenced_member() -> None:
    """Either the ISR or the broker changed."""
    images = Images()
    images.seen(1, image(5))
    with pytest.raises(InvariantBroken, match="no-fenced-member"):
        images.seen(1, image(6, fenced=True))


@pytest.mark.parametrize("allowed", [True, False])
def test_unclean_leader_fenced_between_two_images_may_lack_records(*, allowed: bool) -> None:
    """It may be eligible without committed records only if the topic permits unclean elections."""
    images = Images()
    images.seen(1, image(5))
    found = images.partition("t", UUID(int=5), 0)
    _, last = appended(found.history, 1, header(0, 0), header(1, 0))
    found.history.commit(last, 0, 1)
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
        images.static = {UNCLEAN: "true"}
        images.seen(1, after)
        assert found.may_have_lost
    else:
        with pytest.raises(InvariantBroken, match="isr-has-all-committed"):
            images.seen(1, after)


# -- watching


def test_watch_calls_back_after_each_assignment() -> None:
    """Other objects of the class are not watched, and the object behaves as before."""

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
    stage.cut(fetch_answers(2, 4))
    await stage.send(acks=1)
    await stage.until("node 3 has it", lambda: stage.copy(3).end == stage.copy(2).end)
    stage.replica(3).state.high_watermark = stage.replica(3).log.end_offset


async def _commits_too_early(stage: Stage) -> None:
    stage.cut(fetch_answers(2, 4))
    await stage.send(acks=1)
    stage.replica(2).state.high_watermark = stage.replica(2).log.end_offset


async def _commits_alone(stage: Stage) -> None:
    stage.cut(fetch_answers(2, 4))
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
    member = stage.checker(1).member
    assert member is not None
    member._quorum_record.persisted[1] = ElectionState(epoch=Epoch(9))
    member.quorum._state = replace(member.quorum.state, epoch=Epoch(9))


async def _quorum_goes_back(stage: Stage) -> None:
    member = stage.checker(2).member
    assert member is not None
    member.quorum.high_watermark = Offset(1)


async def _quorum_leader_lacks(stage: Stage) -> None:
    history = stage.invariants.quorum_record.history
    top = history.last_committed()
    assert top is not None
    history.commit(Batch(top.end, top.end + 9, top.epoch, 0, top), top.epoch, 1)
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
def test_state_broken_by_hand_breaks_its_invariant(what: str) -> None:
    """At the event that broke it, or at the next event that touches it."""
    tamper, name = BY_HAND[what]

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        await stage.send(count=3)
        await stage.await_replication()
        await tamper(stage)
        for _ in range(3):
            stage.client.leaders["t", 0] = 2
            await stage.client.send("t", 0, 1)

    with pytest.raises(InvariantBroken, match=f"^{name}: "):
        Stage(MessageSchedule(play=play, overrides={"replica.lag.time.max.ms": 60_000}), 1).run()


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


def test_trace_is_equal_with_and_without_invariants() -> None:
    """The traces are equal to the last event."""
    assert _digest(watched=True) == _digest(watched=False)


def test_not_converged_names_the_first_open_problem() -> None:
    """A replica that is cut off prevents convergence until the cut ends."""
    said: list[str] = []

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        stage.cut(fetch_answers(2, 4))
        stage.send_soon()
        await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
        said.append(unconverged(stage.invariants))
        with pytest.raises(NotConverged, match="not converged within 1 s: t-0: its ISR is"):
            await converge(stage.invariants, within_s=1)
        stage.cluster.kill(3)
        said.append(unconverged(stage.invariants))
        await stage.settle(60)
        said.append(unconverged(stage.invariants))

    Stage(MessageSchedule(play=play, overrides={"replica.lag.time.max.ms": 500}), 1).run()
    assert said == ["t-0: its ISR is [2, 3] of [2, 3, 4]", "node 3 is not running", ""]


async def _elects_an_outsider(stage: Stage) -> None:
    await stage.make_topic([2, 3, 4], unclean_leader_election_enable="true")
    stage.cut(fetch_answers(2, 4), Cut(4, 1))
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


def test_permitted_unclean_election_reports_its_losses() -> None:
    """The committed records are given up and reported."""
    schedule = MessageSchedule(play=_elects_an_outsider, overrides={"replica.lag.time.max.ms": 500})
    stage = Stage(schedule, 1)
    stage.run()
    assert any("given up" in text for text in stage.invariants.excused)


def test_combined_nodes_are_checked_as_broker_and_controller() -> None:
    """Brokers that are controllers as well are watched as both."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([1, 2, 3])
        await stage.send(count=3)

    stage = Stage(MessageSchedule(play=play, layout=lambda: Layout.combined([1, 2, 3])), 1)
    stage.run()
    assert isinstance(stage.invariants, Invariants)
    assert stage.invariants.quorum_record.history.last_committed() is not None

"""Reading causes out of what a cluster and a nemesis recorded."""

from checkers.causes.cause import Cause, CauseKind
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.history.recorded_faults import (
    FIRST_ZOOKEEPER,
    Fault,
    LostState,
    read_fault,
    touched_nodes,
    touching,
)
from checkers.history.settings import FOREVER_NS
from nemesis import hosts
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import ALL, ONE, S, Story, healthy


def learnt(story: Story, topic: str) -> list[Cause]:
    """The topic's causes."""
    engine = DuckDbEngine()
    try:
        causes = Frames(engine, story.sources(), story.plan).causes.causes
    finally:
        engine.close()
    return [cause for cause in causes if cause.topic == topic]


def causes_of(story: Story, topic: str) -> list[tuple[str, int | None, int | None]]:
    """(kind, epoch, deposed) of the topic's causes."""
    return [(c.kind.value, c.epoch, c.deposed) for c in learnt(story, topic)]


def test_targets_are_nodes_or_cuts() -> None:
    """Aimed nodes and cut-off nodes are told apart; nonsense touches nobody."""
    both = '{"nodes": [2], "cuts": [[1, 2, 9092], [2, 3, 0]]}'
    assert touched_nodes(both) == (frozenset({2}), frozenset({1, 2, 3}))
    assert touched_nodes(both.replace("cuts", "drops")) == touched_nodes(both)
    assert touched_nodes("[1, 3]") == (frozenset({1, 3}), frozenset())
    assert touched_nodes("nonsense") == (frozenset(), frozenset())
    assert touched_nodes(None) == (frozenset(), frozenset())
    assert touched_nodes('{"nodes": true}') == (frozenset(), frozenset())


def test_aimed_faults_come_before_those_that_merely_cut_off() -> None:
    """A node beside a partition is to blame only when nothing was aimed at it."""
    faults = [
        Fault(fault_id=n, label="", aimed=frozenset({n}), cut=frozenset({1, 2}), started_ns=0,
              healed_ns=1)
        for n in (1, 2)
    ]  # fmt: skip
    assert [f.fault_id for f in touching(faults, 1)] == [1]
    assert [f.fault_id for f in touching(faults[:1], 2)] == [1]
    assert touching(faults, 3) == []


def test_fault_without_effect_is_no_cause() -> None:
    """And one that was never healed lasts forever."""
    row = dict(healthy().faults[0])
    assert read_fault(row | {"took_effect": False}) is None
    healed = read_fault(row | {"healed_ns": None})
    assert healed is not None
    assert healed.healed_ns == FOREVER_NS


def test_every_kind_of_power_loss_loses_unflushed_state() -> None:
    """A file system's, or a whole machine's: what was not fsynced may be gone."""
    row = dict(healthy().faults[0])
    for name in ("power-loss", "machine-power-loss"):
        found = read_fault(row | {"fault": name})
        assert found is not None
        assert found.loses is LostState.UNFLUSHED


def test_causes_of_the_healthy_run() -> None:
    """One election, and the kill that touched the leader."""
    assert causes_of(healthy(), ONE) == [("election", 1, 1), ("fault", None, None)]


def test_causes_stand_in_the_order_of_their_faults() -> None:
    """Whatever order a cluster of engines gives the rows in: a cause's number is its place."""
    story = healthy()
    story.faults.append(story.faults[0] | {"fault_id": 2, "label": "kill again"})
    told = learnt(story, ONE)
    story.faults.reverse()
    assert learnt(story, ONE) == told
    assert len(told) == 3


def test_fault_of_zookeeper_is_named_when_none_affected_the_old_leader() -> None:
    """While the ensemble's leader is paused, a broker's session may end although it is well."""
    story = healthy()
    [fault] = story.faults[:1]
    beside = '{"nodes": [102]}'
    story.faults = [fault | {"targets": beside, "label": "pause node 102"}]
    [election] = [c for c in learnt(story, ONE) if c.kind is CauseKind.ELECTION]
    assert "No fault affected node 1." in election.text
    assert "Faults that affected ZooKeeper: fault 0 (pause node 102" in election.text
    story.faults = [fault, fault | {"fault_id": 2, "targets": beside}]
    [election] = [c for c in learnt(story, ONE) if c.kind is CauseKind.ELECTION]
    assert "ZooKeeper" not in election.text


def test_zookeeper_nodes_have_the_numbers_that_faults_use() -> None:
    """The checkers do not know the nemesis."""
    assert FIRST_ZOOKEEPER == hosts.FIRST_ZOOKEEPER


def test_leadership_without_a_leader_in_between() -> None:
    """An epoch without a leader deposes, but the next leader is the one that cuts the log."""
    story = healthy()
    story.cluster = [r for r in story.cluster if not (r["kind"] == "leader" and r["topic"] == ONE)]
    story.leader(ONE, 0, 1, 0, [1, 2, 3])
    story.leader(ONE, 10, -1, 1, [2])
    story.leader(ONE, 12, 2, 2, [2])
    assert causes_of(story, ONE)[0] == ("election", 2, 1)


def test_cause_of_unread_epochs_has_no_offset() -> None:
    """Who led when is known all the same."""
    story = healthy()
    story.cluster = [r for r in story.cluster if (r["kind"], r["topic"]) != ("epoch", ONE)]
    story.rows("final-read-end", ONE)[0].update(type="info", error="NOT_LEADER_OR_FOLLOWER")
    engine = DuckDbEngine()
    try:
        causes = Frames(engine, story.sources(), story.plan).causes
    finally:
        engine.close()
    (election,) = [c for c in causes.causes if c.topic == ONE and c.kind is CauseKind.ELECTION]
    assert (election.deposed, election.leader, election.start_offset) == (1, 2, None)
    assert "The offset where epoch 1 starts was not read." in election.text
    assert (ONE, 0) in causes.led - causes.recorded


def test_partition_without_recorded_leaders_has_no_fault_causes() -> None:
    """There is nothing to be said of its leader."""
    story = healthy()
    story.cluster = [r for r in story.cluster if (r["kind"], r["topic"]) != ("leader", ONE)]
    assert causes_of(story, ONE) == []


def test_leader_that_returns_is_no_cause() -> None:
    """The same node in a later epoch kept its log."""
    story = healthy()
    for row in story.cluster:
        if row["kind"] == "leader" and row["topic"] == ONE:
            row["leader"] = 1
    assert [kind for kind, _, _ in causes_of(story, ONE)] == [CauseKind.FAULT]


def test_late_polls_do_not_move_an_election() -> None:
    """The earliest row of an epoch tells when its leader was elected."""
    story = healthy()
    story.leader(ONE, 30, 2, 1, [1, 2, 3])
    engine = DuckDbEngine()
    try:
        causes = Frames(engine, story.sources(), story.plan).causes.causes
    finally:
        engine.close()
    (election,) = [c for c in causes if c.topic == ONE and c.kind is CauseKind.ELECTION]
    assert election.elected_ns == 10 * S


def next_leaders(story: Story) -> set[int | None]:
    """Who led next after the losses of state of the topic, as far as that counts."""
    return {cause.lost.leader for cause in learnt(story, ALL) if cause.lost is not None}


def test_next_leader_after_a_loss_counts_only_where_the_record_is_whole() -> None:
    """No epoch may be missing before it, and the controller must have said who was in sync."""
    story = ALL_GOLDEN["leader_that_kept_its_records_leads_again_without_one"].story()
    assert next_leaders(story) == {1}
    for row in story.cluster:
        row.pop("partition_epoch", None)
    assert next_leaders(story) == {None}
    story = ALL_GOLDEN["leader_that_kept_its_records_leads_again_without_one"].story()
    for row in story.cluster:
        if row["kind"] == "leader" and row["leader_epoch"] == 1:
            row["leader_epoch"] = 2
    assert next_leaders(story) == {None}

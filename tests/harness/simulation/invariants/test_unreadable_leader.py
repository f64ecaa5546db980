"""What a leader with an unreadable log committed is known when the next leader has it."""

from functools import partial

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.images import Images
from harness.simulation.invariants.partition_history import NEVER
from harness.simulation.invariants.replicas import ReplicaChecker
from harness.zoo.schedules.stage import (
    PATIENT,
    TOPIC,
    MessageSchedule,
    Stage,
    disk,
    fetch_answers,
)

CRC_AT = 19
"""The position of a byte of the CRC in a batch. A bit there changes no record."""


def _in_sync(stage: Stage, node: int) -> bool:
    running = node in stage.invariants.node_checkers
    return running and TOPIC in stage.checker(node).replica_checkers and node in stage.partition.isr


async def _damage_a_sealed_segment(stage: Stage, node: int) -> None:
    """Below the recovery point, which a stop in order raises: the node trusts the segment."""
    stage.host(node).terminate()
    await stage.until("the node stops", lambda: not stage.host(node).running)
    stage.cluster.start(node)
    await stage.until("the node is back", lambda: _in_sync(stage, node))
    stage.cluster.kill(node)
    disk(stage.host(node)).content.corrupt(f"{TOPIC}/00000000000000000000.log", CRC_AT)
    stage.invariants.damaged(node)
    stage.cluster.start(node)
    await stage.until("the node is back again", lambda: _in_sync(stage, node))
    assert stage.copy(node).unreadable
    assert not stage.replica(node).log.offline


async def _next_leader(stage: Stage, *, judged: int = NEVER) -> None:
    """Of its followers, node 3 knows its last commit when it dies, and node 4 does not yet."""
    await stage.make_topic([2, 3, 4], segment_bytes="1000")
    await stage.send(count=40)
    await stage.await_replication()
    await _damage_a_sealed_segment(stage, 2)
    partition = stage.checker(2).replica_checkers[TOPIC].partition
    partition.judged_epoch = max(partition.judged_epoch, judged)
    await stage.elect_preferred()
    await stage.send()
    end = stage.replica(2).log.end_offset
    watermarks = (stage.replica(3).state, stage.replica(4).state)
    await stage.until("all know", lambda: all(s.high_watermark == end for s in watermarks))
    sending = stage.send_soon()
    await stage.until("node 4 has it", lambda: stage.copy(4).end == end + 1)
    stage.cut(fetch_answers(2, 4))
    await stage.until("node 3 knows", lambda: watermarks[0].high_watermark == end + 1)
    assert await sending
    assert watermarks[1].high_watermark == end
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.partition.leader == 3)
    stage.heal()
    await stage.until("node 4 knows", lambda: watermarks[1].high_watermark == end + 1)
    assert partition.history.reset_epoch == NEVER


def test_followers_learn_of_commits_that_nobody_could_know() -> None:
    """The next leader begins with its high watermark there."""
    Stage(MessageSchedule(play=_next_leader, overrides=PATIENT, settles_s=0), 2).run()


@pytest.mark.parametrize("judged", [NEVER, 99])
def test_a_leader_with_an_unreadable_log_may_have_everything(
    monkeypatch: pytest.MonkeyPatch, judged: int
) -> None:
    """Nothing is given up then, or if a later leader is judged already."""
    monkeypatch.setattr(ReplicaChecker, "_may_lack", lambda *_: True)
    if judged != NEVER:
        monkeypatch.setattr(ReplicaChecker, "_last_shown", lambda _: None)
    play = partial(_next_leader, judged=judged)
    Stage(MessageSchedule(play=play, overrides=PATIENT, settles_s=0), 2).run()


async def _lacks_committed_records(stage: Stage, *, permitted: bool) -> None:
    """Node 4 is elected although it lacks records, and the others truncate them."""
    unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    await stage.make_topic([2, 3, 4], segment_bytes="1000", **unclean)
    await stage.send(count=10)
    await stage.await_replication()
    await _damage_a_sealed_segment(stage, 4)
    shown = stage.replica(4).log.end_offset
    stage.cut(fetch_answers(2, 4))
    await stage.try_to_send(-1)
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await stage.send()
    stage.cluster.kill(3)
    await stage.until("node 3 is out", lambda: 3 not in stage.partition.isr)
    stage.cluster.kill(2)
    await stage.until("node 4 leads", lambda: stage.replica(4).state.leader == 4)
    kept = stage.checker(4).replica_checkers[TOPIC].partition.history.last_committed()
    assert kept is not None
    assert (kept.end == shown) is permitted
    stage.heal()
    for node in (2, 3):
        stage.cluster.start(node)
    await stage.until("all are in sync", lambda: len(stage.partition.isr) == 3)
    await stage.send(count=2)
    state, end = stage.replica(2).state, stage.replica(4).log.end_offset
    await stage.until("node 2 knows", lambda: state.high_watermark == end)
    stage.cluster.kill(4)
    await stage.until("another one leads", lambda: stage.partition.leader in (2, 3))
    await stage.send()


def _elect_without_records(*, permitted: bool) -> None:
    play = partial(_lacks_committed_records, permitted=permitted)
    impatient = {"replica.lag.time.max.ms": 1_500}
    Stage(MessageSchedule(play=play, overrides=impatient, settles_s=0), 2).run()


def test_a_leader_with_an_unreadable_log_may_lack_records_after_an_unclean_election() -> None:
    """What its log does not show by its leader epochs is given up."""
    _elect_without_records(permitted=True)


def test_an_election_that_nothing_permits_gives_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the topic did not permit unclean elections: the records have to stay."""
    monkeypatch.setattr(Images, "may_be_unclean", lambda images, topic, image: False)
    with pytest.raises(InvariantBroken, match="committed-stays"):
        _elect_without_records(permitted=False)

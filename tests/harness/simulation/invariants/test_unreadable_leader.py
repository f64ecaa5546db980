"""What a leader with an unreadable log committed is known when the next leader has it."""

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


async def _next_leader(stage: Stage) -> None:
    """Of its followers, node 3 knows its last commit when it dies, and node 4 does not yet."""
    await stage.make_topic([2, 3, 4], segment_bytes="1000")
    await stage.send(count=40)
    await stage.await_replication()
    await _damage_a_sealed_segment(stage, 2)
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


def test_followers_learn_of_commits_that_nobody_could_know() -> None:
    """The next leader begins with its high watermark there."""
    Stage(MessageSchedule(play=_next_leader, overrides=PATIENT, settles_s=0), 2).run()

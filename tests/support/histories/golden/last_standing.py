"""Golden histories of who stands last: whom the others leave alone in sync while nobody knows what
it lost, and who joins by what it had; and the near misses. See `state_losses`.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.state_losses import LOST, led, taken, wiped
from tests.support.histories.story import ALL, S, Story


def _left_alone(s: Story) -> None:
    """Min ISR 1: node 1 loses power, node 2 leaves node 1 alone in sync, which leads again."""
    wiped(s)
    s.set_topic(ALL, min_insync_replicas=1)
    led(s, ALL, (0, 1, 0, (1, 2)), (9.8, 1, 0, (1,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))
    taken(s, 1)


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def others_leave_who_had_lost_power(s: Story) -> None:
    """While it is down nobody knows; KIP-966 tolerates one loss less than min ISR."""
    _left_alone(s)


@golden("INVALID", {LOST: (F, 1)})
def others_leave_who_had_lost_power_with_a_higher_minimum(s: Story) -> None:
    """Near miss: with min ISR 2 node 2 was eligible still, and should have led."""
    _left_alone(s)
    s.set_topic(ALL, min_insync_replicas=2)


@golden("INVALID", {LOST: (F, 1)})
def others_leave_who_is_back_without_its_records(s: Story) -> None:
    """Near miss: it was back before the other left, and should not have been in sync any more."""
    _left_alone(s)
    s.faults[-1]["healed_ns"] = round(9.7 * S)


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def others_leave_who_is_back_and_cannot_register(s: Story) -> None:
    """Its machine ran before the other left, but the controllers were told after that."""
    others_leave_who_is_back_without_its_records(s)
    for log_offset, kind in enumerate(("fenced", "unfenced")):
        s.cluster.append({"at_ns": round(9.9 * S), "kind": kind, "node": 1, "topic": None,
                          "log_offset": log_offset, "source": "metadata-log"})  # fmt: skip


def _two_lose_power_and_the_third_goes(s: Story, registered_s: float) -> None:
    """Min ISR 1: nodes 1 and 2 lose power, node 2 is back and left out, node 3 starts anew and is
    left out as well, and node 1 leads again, which registers at the given time.
    """
    wiped(s)
    s.set_topic(ALL, min_insync_replicas=1)
    led(
        s, ALL, (0, 1, 0, (1, 2, 3)), (9.8, 1, 0, (1, 3)), (9.9, 1, 0, (1,)),
        (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)),
    )  # fmt: skip
    taken(s, 1, 2)
    for log_offset, (at_s, node) in enumerate(((9.8, 2), (registered_s, 1))):
        s.cluster.append({"at_ns": round(at_s * S), "kind": "fenced", "node": node, "topic": None,
                          "log_offset": log_offset, "source": "metadata-log"})  # fmt: skip


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def third_leaves_one_of_two_that_lost_power(s: Story) -> None:
    """That the other has told what it lacks says nothing of this one."""
    _two_lose_power_and_the_third_goes(s, 9.95)
    s.faults[-1]["healed_ns"] = round(9.7 * S)


@golden("INVALID", {LOST: (F, 1)})
def third_leaves_who_has_told_that_it_lost_power(s: Story) -> None:
    """Near miss: node 1 had registered, and should not have been in sync any more."""
    _two_lose_power_and_the_third_goes(s, 9.85)
    s.faults[-1]["healed_ns"] = round(9.7 * S)


def _the_other_tells_in_that_millisecond(s: Story, left_at: int) -> None:
    """Node 3 leaves node 1 alone, and node 1 registers at 1 of the metadata log."""
    _two_lose_power_and_the_third_goes(s, 9.9)
    s.faults[-1]["healed_ns"] = round(9.7 * S)
    for row in s.cluster:
        if row["kind"] == "leader" and row["topic"] == ALL and row["at_ns"] == round(9.9 * S):
            row["log_offset"] = left_at


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def third_leaves_right_before_the_other_tells(s: Story) -> None:
    """Times of the metadata log are whole milliseconds: its order says which came first."""
    _the_other_tells_in_that_millisecond(s, 0)


@golden("INVALID", {LOST: (F, 1)})
def third_leaves_right_after_the_other_has_told(s: Story) -> None:
    """Near miss: node 1 had registered, and should not have been in sync any more."""
    _the_other_tells_in_that_millisecond(s, 2)


def _joins_and_loses_power(s: Story, *fencing: tuple[float, str]) -> None:
    """Nodes 2 and 3 lose power at 9.6 s; node 3 was out of sync, is in sync at 9.7 s, and leads."""
    wiped(s)
    led(
        s, ALL, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 2)), (9.7, 1, 0, (1, 2, 3)),
        (10, 3, 1, (3,)), (16, 3, 1, (3, 1, 2)),
    )  # fmt: skip
    taken(s, 2, 3)
    for log_offset, (at_s, kind) in enumerate(fencing):
        s.cluster.append({"at_ns": round(at_s * S), "kind": kind, "node": 3, "topic": None,
                          "log_offset": log_offset, "source": "metadata-log"})  # fmt: skip


@golden("VALID", {LOST: (P, 1)}, cause="in sync, kept all records")
def replica_joins_by_what_it_had_before_it_lost_power(s: Story) -> None:
    """It had caught up when its power went, and nobody knew of that when it was let in."""
    _joins_and_loses_power(s, (9.8, "fenced"), (9.9, "unfenced"))


@golden("INVALID", {LOST: (F, 1)})
def replica_joins_after_it_has_told_that_it_lost_power(s: Story) -> None:
    """Near miss: it had registered, so it was let in for what it had fetched since."""
    _joins_and_loses_power(s, (9.62, "fenced"), (9.65, "unfenced"))


def _heard_of_before_its_date(
    s: Story, *decisions: tuple[float, int, int, tuple[int, ...]]
) -> None:
    """Min ISR 1: node 1 loses power and leads again in epoch 1, which a node tells at 10 s. The
    recorder reads the decisions later."""
    wiped(s)
    s.set_topic(ALL, min_insync_replicas=1)
    led(s, ALL, (0, 1, 0, (1, 2)), *decisions, (16, 1, 1, (1, 2, 3)))
    s.leader(ALL, 10, 1, 1, [1])
    s.cluster[-1].update(source="polled", partition_epoch=None)
    taken(s, 1)


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def leader_that_lost_power_is_heard_of_before_its_date(s: Story) -> None:
    """What the log has before it was decided before anybody could name it."""
    _heard_of_before_its_date(s, (10.2, 1, 0, (1,)), (10.2, 1, 1, (1,)))


@golden("INVALID", {LOST: (F, 1)})
def others_leave_after_the_leader_that_lost_power_was_decided(s: Story) -> None:
    """Near miss: the log has that node 2 left only after it has the leader."""
    _heard_of_before_its_date(s, (10.2, 1, 1, (1, 2)), (10.3, 1, 1, (1,)))

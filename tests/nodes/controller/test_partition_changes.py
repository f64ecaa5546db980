"""One partition's changes: the rules of ISR, eligible leaders, elections, one example for each."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from nodes.controller.partition_changes import (
    UNCHANGED,
    DesiredState,
    Election,
    LogEnd,
    Rules,
    change,
)
from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.metadata.image import PartitionImage, PartitionKey
from nodes.metadata.records import RECOVERED, RECOVERING
from tests.support.nodes.controller_cluster import node, nodes

KEY = PartitionKey(UUID(int=1), "t", 0)


def partition(**values: Any) -> PartitionImage:
    """Three replicas, all in sync, led by the first, where not said otherwise."""
    base: dict[str, Any] = {
        "replicas": nodes(1, 2, 3),
        "isr": nodes(1, 2, 3),
        "leader": node(1),
        "leader_epoch": Epoch(5),
        "partition_epoch": 7,
        "directories": (None,) * len(values.get("replicas", (1, 2, 3))),
    }
    return PartitionImage(**(base | values))


@dataclass(frozen=True)
class Case:
    """What is, what is wanted, who lives, and what is to come of it (all else as it was)."""

    before: PartitionImage
    target: DesiredState
    live: tuple[NodeId, ...]
    after: dict[str, Any]
    min_isr: int = 2
    election: Election = Election.CLEAN
    eligible_leaders: bool = True
    logs: dict[NodeId, LogEnd] = field(default_factory=dict)


def recovering(leader: int, *, last_known: tuple[int, ...]) -> dict[str, Any]:
    """What an election by the logs changes."""
    return {
        "leader": node(leader),
        "isr": nodes(leader),
        "last_known_elr": nodes(*last_known),
        "leader_recovery_state": RECOVERING,
    }


def logs(*ends: tuple[int, int, int]) -> dict[NodeId, LogEnd]:
    """Who ends in which epoch at which offset."""
    return {node(n): LogEnd(Epoch(epoch), Offset(end)) for n, epoch, end in ends}


LEADERLESS = {"leader": NO_NODE, "isr": ()}

CASES = {
    "a follower leaves, enough remain": Case(
        partition(), DesiredState(isr=nodes(1, 2)), nodes(1, 2, 3), {"isr": nodes(1, 2)}
    ),
    "below the minimum, who leaves is eligible": Case(
        partition(isr=nodes(1, 2)),
        DesiredState(isr=nodes(1)),
        nodes(1, 2, 3),
        {"isr": nodes(1), "elr": nodes(2)},
    ),
    "who left at the minimum before is not": Case(
        partition(isr=nodes(1)), DesiredState(isr=nodes(1)), nodes(1, 2, 3), {}
    ),
    "the last member becomes eligible": Case(
        partition(isr=nodes(1), elr=nodes(2)),
        DesiredState(isr=()),
        nodes(3),
        {**LEADERLESS, "elr": nodes(1, 2)},
    ),
    "an eligible replica is elected, cleanly, the others stay eligible": Case(
        partition(isr=nodes(1), elr=nodes(2, 3)),
        DesiredState(isr=()),
        nodes(3),
        {"leader": node(3), "isr": nodes(3), "elr": nodes(1, 2)},
    ),
    "an in-sync replica goes before an eligible one": Case(
        partition(isr=nodes(1, 3), elr=nodes(2), leader=node(1)),
        DesiredState(isr=nodes(3)),
        nodes(2, 3),
        {"leader": node(3), "isr": nodes(3), "elr": nodes(1, 2)},
        min_isr=3,
    ),
    "a minimum of one is reached by the election itself": Case(
        partition(elr=nodes(1, 2), last_known_elr=nodes(1), **LEADERLESS),
        UNCHANGED,
        nodes(2),
        {"leader": node(2), "isr": nodes(2), "elr": (), "last_known_elr": ()},
        min_isr=1,
    ),
    "the ISR reaches the minimum: nobody else is eligible": Case(
        partition(isr=nodes(1), elr=nodes(2)),
        DesiredState(isr=nodes(1, 3)),
        nodes(1, 2, 3),
        {"isr": nodes(1, 3), "elr": ()},
    ),
    "fewer replicas than the minimum lower it": Case(
        partition(replicas=nodes(1, 2), isr=nodes(1), elr=nodes(2)),
        DesiredState(isr=nodes(1, 2)),
        nodes(1, 2),
        {"isr": nodes(1, 2), "elr": ()},
        min_isr=3,
    ),
    "an unclean restart is neither in sync nor eligible, but last known": Case(
        partition(isr=nodes(1), elr=nodes(2, 3)),
        DesiredState(isr=(), lost=nodes(1)),
        (),
        {**LEADERLESS, "elr": nodes(2, 3), "last_known_elr": nodes(1)},
    ),
    "so is one of an eligible replica": Case(
        partition(isr=nodes(1), elr=nodes(2, 3)),
        DesiredState(lost=nodes(3)),
        nodes(1, 2),
        {"elr": nodes(2), "last_known_elr": nodes(3)},
    ),
    "enough in sync have what it had": Case(
        partition(),
        DesiredState(isr=nodes(2, 3), lost=nodes(1)),
        nodes(2, 3),
        {"leader": node(2), "isr": nodes(2, 3)},
    ),
    "the last of them joins those that were last known before": Case(
        partition(isr=nodes(2), leader=node(2), last_known_elr=nodes(1)),
        DesiredState(isr=(), lost=nodes(2)),
        nodes(1),
        {**LEADERLESS, "last_known_elr": nodes(1, 2)},
    ),
    "who is in sync again is last known no more, the others are": Case(
        partition(isr=nodes(2), leader=node(2), last_known_elr=nodes(1, 3)),
        DesiredState(isr=nodes(2, 3)),
        nodes(1, 2, 3),
        {"isr": nodes(2, 3), "last_known_elr": nodes(1)},
        min_isr=3,
    ),
    "nobody is once the ISR has its minimum": Case(
        partition(isr=nodes(2), leader=node(2), last_known_elr=nodes(1, 3)),
        DesiredState(isr=nodes(2, 3)),
        nodes(1, 2, 3),
        {"isr": nodes(2, 3), "last_known_elr": ()},
    ),
    "a reassignment takes who goes out of the last known": Case(
        partition(isr=nodes(2), leader=node(2), last_known_elr=nodes(1, 3)),
        DesiredState(replicas=nodes(2, 3)),
        nodes(2, 3),
        {
            "replicas": nodes(2, 3),
            "last_known_elr": nodes(3),
            "directories": (None, None),
            "leader_epoch": Epoch(6),
        },
    ),
    "without an eligible one the last known one leads, recovering": Case(
        partition(last_known_elr=nodes(2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        {
            "leader": node(2),
            "isr": nodes(2),
            "last_known_elr": (),
            "leader_recovery_state": RECOVERING,
        },
    ),
    "of several the one whose last record has the highest epoch, however long the other": Case(
        partition(last_known_elr=nodes(1, 2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        recovering(2, last_known=(1,)),
        logs=logs((1, 4, 900), (2, 5, 7), (3, 6, 9)),
    ),
    "of one epoch the longest": Case(
        partition(last_known_elr=nodes(1, 3), **LEADERLESS),
        UNCHANGED,
        nodes(1, 3),
        recovering(3, last_known=(1,)),
        logs=logs((1, 5, 80), (3, 5, 81)),
    ),
    "of equals the first in assignment order, and an empty log wins nothing": Case(
        partition(last_known_elr=nodes(1, 2, 3), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        recovering(2, last_known=(1, 3)),
        logs=logs((1, -1, 0), (3, 5, 80), (2, 5, 80)),
    ),
    "one that retention emptied, if the others end earlier (seed 99566)": Case(
        partition(last_known_elr=nodes(1, 2, 3), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        recovering(2, last_known=(1, 3)),
        logs=logs((1, 5, 79), (2, -1, 80), (3, 5, 80)),
    ),
    "of emptied ones the longest": Case(
        partition(last_known_elr=nodes(1, 2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2),
        recovering(2, last_known=(1,)),
        logs=logs((1, -1, 79), (2, -1, 80)),
    ),
    "one that has records above those that retention removed elsewhere": Case(
        partition(last_known_elr=nodes(1, 2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2),
        recovering(1, last_known=(2,)),
        logs=logs((1, 5, 81), (2, -1, 80)),
    ),
    "nobody while one of them has not told": Case(
        partition(last_known_elr=nodes(1, 2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        {},
        logs=logs((1, 5, 80)),
    ),
    "nor while one of them is not live": Case(
        partition(last_known_elr=nodes(1, 2), **LEADERLESS),
        UNCHANGED,
        nodes(2, 3),
        {},
        logs=logs((1, 5, 80), (2, 5, 90)),
    ),
    "a last known leader that is not live does not": Case(
        partition(last_known_elr=nodes(2), **LEADERLESS), UNCHANGED, nodes(1, 3), {}
    ),
    "nor while somebody is eligible": Case(
        partition(elr=nodes(3), last_known_elr=nodes(2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2),
        {},
        logs=logs((2, 5, 80)),
    ),
    "an unclean election takes the only live replica, and remembers the eligible": Case(
        partition(elr=nodes(3), **LEADERLESS),
        UNCHANGED,
        nodes(1),
        {
            "leader": node(1),
            "isr": nodes(1),
            "elr": (),
            "last_known_elr": nodes(3),
            "leader_recovery_state": RECOVERING,
        },
        election=Election.UNCLEAN,
    ),
    "of several live ones the longest that has told": Case(
        partition(last_known_elr=nodes(1, 3), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        {
            "leader": node(2),
            "isr": nodes(2),
            "leader_recovery_state": RECOVERING,
        },
        election=Election.UNCLEAN,
        logs=logs((1, 4, 80), (2, 5, 70)),
    ),
    "none of them when none has": Case(
        partition(last_known_elr=nodes(1, 3), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        {},
        election=Election.UNCLEAN,
    ),
    "but an eligible one before": Case(
        partition(elr=nodes(3), last_known_elr=nodes(2), **LEADERLESS),
        UNCHANGED,
        nodes(1, 2, 3),
        {"leader": node(3), "isr": nodes(3), "elr": (), "last_known_elr": nodes(2)},
        election=Election.UNCLEAN,
        logs=logs((1, 9, 999)),
    ),
    "a live leader stays": Case(
        partition(leader=node(2)), DesiredState(isr=nodes(2, 1)), nodes(1, 2), {"isr": nodes(2, 1)}
    ),
    "unless the preferred one is asked for": Case(
        partition(leader=node(2)),
        UNCHANGED,
        nodes(1, 2, 3),
        {"leader": node(1)},
        election=Election.PREFERRED,
    ),
    "which must be in sync": Case(
        partition(leader=node(2), isr=nodes(2, 3)),
        UNCHANGED,
        nodes(1, 2, 3),
        {},
        election=Election.PREFERRED,
    ),
    "a recovery ends": Case(
        partition(isr=nodes(1), leader_recovery_state=RECOVERING),
        DesiredState(leader_recovery_state=RECOVERED),
        nodes(1),
        {"leader_recovery_state": RECOVERED},
    ),
    "a reassignment goes on until every replica that stays is in sync": Case(
        partition(
            replicas=nodes(4, 2, 1),
            isr=nodes(1, 2),
            adding_replicas=nodes(4),
            removing_replicas=nodes(1),
        ),
        DesiredState(isr=nodes(1)),
        nodes(1, 2, 4),
        {"isr": nodes(1), "elr": nodes(2)},
    ),
    "then the others go, and the leadership with them": Case(
        partition(
            replicas=nodes(4, 2, 1),
            isr=nodes(1, 2),
            adding_replicas=nodes(4),
            removing_replicas=nodes(1),
        ),
        DesiredState(isr=nodes(1, 2, 4)),
        nodes(1, 2, 4),
        {
            "replicas": nodes(4, 2),
            "isr": nodes(2, 4),
            "leader": node(4),
            "adding_replicas": (),
            "removing_replicas": (),
            "directories": (None, None),
        },
    ),
    "who is no replica is not eligible": Case(
        partition(isr=nodes(1), elr=nodes(3)),
        DesiredState(replicas=nodes(1, 2)),
        nodes(1, 2, 3),
        {"replicas": nodes(1, 2), "elr": (), "directories": (None, None), "leader_epoch": Epoch(6)},
    ),
    "without eligible leaders, who leaves below the minimum is none": Case(
        partition(isr=nodes(1, 2)),
        DesiredState(isr=nodes(1)),
        nodes(1, 2, 3),
        {"isr": nodes(1)},
        eligible_leaders=False,
    ),
    "without eligible leaders the last member stays in the ISR, whatever it lost": Case(
        partition(isr=nodes(1)),
        DesiredState(isr=(), lost=nodes(1)),
        nodes(2, 3),
        {"leader": NO_NODE},
        eligible_leaders=False,
    ),
    "and leads again, even so": Case(
        partition(isr=nodes(1), leader=NO_NODE),
        UNCHANGED,
        nodes(1, 2, 3),
        {"leader": node(1)},
        eligible_leaders=False,
    ),
    "of members that went together, those that are not back yet are not in sync": Case(
        partition(isr=nodes(1, 2), leader=NO_NODE),
        UNCHANGED,
        nodes(2, 3),
        {"leader": node(2), "isr": nodes(2)},
        eligible_leaders=False,
    ),
    "and an unclean election replaces it": Case(
        partition(isr=nodes(1)),
        DesiredState(isr=()),
        nodes(2, 3),
        {"leader": node(3), "isr": nodes(3), "leader_recovery_state": RECOVERING},
        election=Election.UNCLEAN,
        eligible_leaders=False,
        logs=logs((2, 3, 50), (3, 5, 7)),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_rule_gives_the_expected_partition_state(case: Case) -> None:
    """The record brings the partition exactly there; no record where nothing changes."""
    rules = Rules(
        case.live.__contains__, case.min_isr, case.election, case.eligible_leaders, case.logs
    )
    record = change(KEY, case.before, rules, case.target)
    if not case.after:
        assert record is None
        return
    assert record is not None
    expected = replace(case.before, partition_epoch=8, **case.after)
    if expected.leader != case.before.leader:
        expected = replace(expected, leader_epoch=Epoch(6))
    assert case.before.changed(record) == expected


def test_directories_follow_their_replicas() -> None:
    """Each replica keeps its directory, wherever it comes in the list; a new one has none yet."""
    before = partition(directories=(UUID(int=11), UUID(int=12), UUID(int=13)))
    record = change(
        KEY,
        before,
        Rules(lambda _: True, 1),
        DesiredState(replicas=nodes(3, 4, 1, 2), adding=nodes(4), removing=nodes(2)),
    )
    assert record is not None
    assert before.changed(record).directories == (
        UUID(int=13),
        None,
        UUID(int=11),
        UUID(int=12),
    )

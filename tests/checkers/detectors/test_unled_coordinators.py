"""When only replicas with damaged logs may lead a partition."""

from dataclasses import replace
from typing import Any

from checkers.detectors.unled_coordinators import UnledCoordinators
from checkers.history.recorded_faults import Fault, LostState

FLIP = Fault(
    fault_id=1, label="disk.bit-flip", aimed=frozenset({2}), cut=frozenset(), started_ns=9,
    healed_ns=20, effective_ns=10, loses=LostState.DISK, damaged={2: frozenset({("s", 0)})},
)  # fmt: skip


def row(at_ns: int, leader: int | None, epoch: int, isr: list[int], **more: Any) -> dict[str, Any]:
    """A partition's leader from a moment on."""
    made = {"partition": 0, "leader": leader, "leader_epoch": epoch, "isr": isr}
    return made | {"partition_epoch": epoch, "elr": None, "at_ns": at_ns} | more


FIRST = row(0, 1, 0, [1, 2])


def test_a_leader_with_a_damaged_log_does_not_lead() -> None:
    """From the damage on, and until another one leads."""
    unled = UnledCoordinators("s", [FIRST, row(5, 2, 1, [2]), row(30, 1, 2, [1])], [FLIP])
    assert [unled.any_at(at) for at in (4, 9, 10, 29, 30)] == [False, False, True, True, False]


def test_without_a_leader_whoever_is_in_sync_or_eligible_may_lead() -> None:
    """If one of them has a whole log, somebody leads soon."""
    for isr, elr, missing in (
        ([2], None, True),
        ([], [2], True),
        ([], [1, 2], False),
        ([], [], True),
    ):
        unled = UnledCoordinators("s", [FIRST, row(5, -1, 1, isr, elr=elr)], [FLIP])
        assert unled.any_at(10) is missing


def test_other_partitions_topics_and_nodes_do_not_count() -> None:
    """Only a damaged log of the very partition keeps its replica from leading."""
    led = [FIRST, row(5, 2, 1, [2])]
    others = [
        replace(FLIP, damaged={2: frozenset({("s", 1)})}),
        replace(FLIP, aimed=frozenset({1}), damaged={1: frozenset({("s", 0)})}),
    ]
    assert not any(UnledCoordinators("s", led, [other]).any_at(10) for other in others)
    assert not UnledCoordinators("other", led, [FLIP]).any_at(10)
    assert UnledCoordinators("s", led, [replace(FLIP, damaged={})]).any_at(10)

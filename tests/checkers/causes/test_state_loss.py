"""Who lost what together, and how much it takes."""

from dataclasses import replace
from typing import Any

import pytest

from checkers.causes.lookup import IntervalIndex
from checkers.causes.state_loss import (
    AllCopiesLost,
    IsrHistory,
    Moment,
    ReplicaLoss,
    StateLoss,
    replica_losses,
    state_losses_at,
)
from checkers.history.recorded_faults import Fault, LostState
from checkers.history.settings import Settings

POWER, DISK = LostState.UNFLUSHED, LostState.DISK


def fault(
    loses: LostState | None, *nodes: int, from_ns: int = 0, at_ns: int = 1, healed_ns: int = 7
) -> Fault:
    """A fault that took something from nodes between two moments, which were back at another."""
    return Fault(
        fault_id=from_ns, label="f", aimed=frozenset(nodes), cut=frozenset(), started_ns=from_ns,
        healed_ns=healed_ns, effective_ns=at_ns, loses=loses,
    )  # fmt: skip


def together(losses: dict[int, LostState], in_sync: set[int], eligible: set[int]) -> StateLoss:
    """Nodes that lost what they had at once."""
    return StateLoss(
        losses=tuple(
            ReplicaLoss(
                node=node,
                from_ns=0,
                at_ns=1,
                registered=Moment(7, None),
                back_ns=9,
                fault=fault(loses, node),
            )
            for node, loses in losses.items()
        ),
        in_sync=frozenset(in_sync),
        eligible=frozenset(eligible),
    )


def then_led_by(leader: int, lost: StateLoss) -> StateLoss:
    """The same, and who led next is known."""
    return replace(lost, leader=leader)


def settings(min_isr: int = 2, *, flush: bool = False, elr: bool = True) -> Settings:
    """Of an acks=all topic."""
    return Settings(
        acks=-1, min_insync_replicas=min_isr, flush_before_ack=flush, eligible_leader_replicas=elr
    )


THREE = together({1: POWER, 2: POWER}, {1, 2, 3}, set())
"""Two of three in-sync replicas lost power."""


@pytest.mark.parametrize(
    ("lost", "promised", "why"),
    [
        (together({1: POWER, 2: POWER}, {1, 2, 3}, set()), settings(), AllCopiesLost.POWER),
        (together({1: POWER}, {1, 2, 3}, set()), settings(), None),
        (together({1: POWER, 2: POWER}, {1, 2}, set()), settings(3), None),
        (together({1: POWER, 2: POWER}, {1, 2}, set()), settings(flush=True), None),
        (together({1: POWER, 2: POWER}, {1, 2}, set()), settings(flush=True, elr=False), None),
        (together({1: POWER}, {1}, {2}), settings(), None),
        (together({1: POWER}, {1}, {2}), settings(elr=False), AllCopiesLost.LAST_STANDING),
        (together({1: POWER}, {1, 2}, set()), settings(elr=False), None),
        (together({1: POWER}, {1}, set()), settings(1), AllCopiesLost.LAST_STANDING),
        (together({1: POWER}, {1, 2}, set()), settings(1), None),
        (together({1: DISK, 2: DISK}, {1, 2, 3}, set()), settings(), None),
        (together({1: DISK, 2: DISK}, {1, 2}, set()), settings(flush=True), AllCopiesLost.DISKS),
        (together({1: DISK, 2: POWER}, {1, 2}, set()), settings(), AllCopiesLost.DISKS),
        (together({1: DISK, 2: POWER}, {1, 2}, set()), settings(flush=True), None),
        (together({1: DISK}, {1}, {2}), settings(), None),
        (then_led_by(3, THREE), settings(), None),
        (then_led_by(1, THREE), settings(), AllCopiesLost.POWER),
        (then_led_by(4, THREE), settings(), AllCopiesLost.POWER),
        (then_led_by(3, together({1: POWER, 2: POWER}, {1}, {2, 3})), settings(), None),
        (
            then_led_by(3, together({1: POWER, 2: POWER}, {1}, {2, 3})),
            settings(elr=False),
            AllCopiesLost.POWER,
        ),
    ],
)
def test_acks_all_protects_unless_all_copies_may_be_lost(
    lost: StateLoss, promised: Settings, why: AllCopiesLost | None
) -> None:
    """How much it takes until an acknowledged record may be gone, by what was promised."""
    assert lost.all_copies_lost(promised) is why


def rows(*isrs: tuple[int, list[int]], exact: bool = True) -> list[dict[str, Any]]:
    """In-sync replicas from moments on."""
    return [
        {"at_ns": at, "isr": isr, "partition_epoch": n if exact else None}
        for n, (at, isr) in enumerate(isrs)
    ]


MINUTE = 60_000_000_000


def test_only_in_sync_or_eligible_replicas_lose_records() -> None:
    """In sync or eligible; and nothing is taken by a fault that takes nothing."""
    isr_history = IsrHistory(
        rows((0, [1, 2, 3, 4]), (MINUTE, [1, 2]), (2 * MINUTE, [1])), min_isr=2
    )
    at = {"from_ns": 3 * MINUTE, "at_ns": 3 * MINUTE + 1}
    [one, two] = replica_losses(isr_history, [fault(POWER, 1, 2, 3, **at), fault(None, 1, **at)])
    assert (one.node, two.node) == (1, 2)
    [lost] = state_losses_at(isr_history, [one, two], 4 * MINUTE)
    assert (sorted(lost.in_sync), sorted(lost.eligible)) == ([1], [2])


def test_replica_in_sync_again_lacks_nothing() -> None:
    """Back is who was out of sync, and then in it; who never left is not known to be back."""
    isr_history = IsrHistory(rows((0, [1, 2]), (10, [2]), (20, [1, 2])), min_isr=1)
    losses = replica_losses(isr_history, [fault(POWER, 1, 2, from_ns=5, at_ns=6)])
    assert [loss.back_ns for loss in losses] == [20, 1 << 62]
    assert [len(lost.losses) for lost in state_losses_at(isr_history, losses, 15)] == [2]
    [later] = state_losses_at(isr_history, losses, 30)
    assert [loss.node for loss in later.losses] == [2]


def test_replica_that_the_others_left_is_the_last_one() -> None:
    """While a node is down nobody knows what it lacks; when it is back everybody does."""
    isr_history = IsrHistory(rows((0, [1, 2]), (10, [2]), (20, []), (30, [2])), min_isr=1)
    for healed_ns, beside in ((9, [[1, 2]]), (15, [[1, 2], [2]]), (99, [[1, 2], [2]])):
        lost_power = fault(POWER, 2, from_ns=5, at_ns=6, healed_ns=healed_ns)
        found = state_losses_at(isr_history, replica_losses(isr_history, [lost_power]), 30)
        assert [sorted(each.in_sync) for each in found] == beside


def test_return_of_a_node_is_known_from_its_registration() -> None:
    """Its machine may run long before: cut off, or while nobody is the active controller."""
    isr_history = IsrHistory(rows((0, [1, 2]), (10, [2]), (30, [2])), min_isr=1)
    lost_power = fault(POWER, 2, from_ns=5, at_ns=6, healed_ns=9)
    for registered_ns, beside in ((8, [[1, 2]]), (10, [[1, 2]]), (12, [[1, 2], [2]])):
        fencing = [
            {"kind": "fenced", "node": 1, "at_ns": 20},
            {"kind": "fenced", "node": 2, "at_ns": 7},
            {"kind": "fenced", "node": 2, "at_ns": registered_ns},
            {"kind": "unfenced", "node": 2, "at_ns": registered_ns},
            {"kind": "fenced", "node": 2, "at_ns": 25},
        ]
        found = state_losses_at(isr_history, replica_losses(isr_history, [lost_power], fencing), 30)
        assert [sorted(each.in_sync) for each in found] == beside


def test_unregistered_node_of_two_may_be_the_last_one() -> None:
    """The other has registered, and said so; whoever comes back for another reason is left out."""
    isr_history = IsrHistory(rows((0, [1, 2, 3]), (10, [1, 3]), (12, [1])), min_isr=1)
    lost_power = fault(POWER, 1, 2, from_ns=5, at_ns=6, healed_ns=7)
    for registered_ns, beside in ((20, [[1, 2, 3], [1, 3], [1]]), (11, [[1, 2, 3], [1, 3]])):
        fencing = [
            {"kind": "fenced", "node": 2, "at_ns": 10},
            {"kind": "fenced", "node": 1, "at_ns": registered_ns},
        ]
        losses = replica_losses(isr_history, [lost_power], fencing)
        found = list(state_losses_at(isr_history, losses, 30))
        assert [sorted(each.in_sync) for each in found] == beside
        alone = any(
            each.all_copies_lost(settings(1, elr=False)) is AllCopiesLost.LAST_STANDING
            for each in found
        )
        assert alone == (registered_ns == 20)


def test_losses_one_after_the_other() -> None:
    """What was written between them can only have been lost to the later ones."""
    isr_history = IsrHistory(rows((0, [1, 2])), min_isr=2)
    faults = [fault(POWER, 1, from_ns=5, at_ns=6), fault(POWER, 2, from_ns=8, at_ns=9)]
    both, second = state_losses_at(isr_history, replica_losses(isr_history, faults), 20)
    assert (both.first_ns, second.first_ns) == (6, 9)
    assert [loss.node for loss in second.losses] == [2]
    assert "Node 1 lost power by" in both.describe()
    assert "Node 1, in sync, kept all records" in second.describe()


def test_the_controllers_own_rows_come_before_what_was_polled() -> None:
    """A polled row may be late; it counts where there is nothing better."""
    polled = rows((0, [1, 2]), exact=False)
    assert [s.in_sync for s in IsrHistory(polled, 1).between(0, 9)] == [{1, 2}]
    both = [*polled, *rows((0, [1]))]
    assert [s.in_sync for s in IsrHistory(both, 1).between(0, 9)] == [{1}]


def test_what_is_decided_before_a_leader_counts_however_late_it_is_dated() -> None:
    """A node names the leader at 8; the recorder reads at 12 who left the ISR before that."""
    isr_history = IsrHistory(rows((0, [1, 2]), (12, [1]), (20, [1, 2])), min_isr=1)
    losses = replica_losses(isr_history, [fault(POWER, 1, from_ns=5, at_ns=6, healed_ns=99)])
    for until_ns, beside in ((None, [[1, 2]]), (8, [[1, 2]]), (12, [[1, 2], [1]])):
        found = state_losses_at(isr_history, losses, 8, until_ns)
        assert [sorted(each.in_sync) for each in found] == beside


def test_a_loss_that_may_be_later_does_not_hide_those_before_it() -> None:
    """By a clock that is behind it may have come before the leader; it may also have come after."""
    isr_history = IsrHistory(rows((0, [1]), (20, []), (30, [1]), (40, [1, 2])), min_isr=1)
    first, second = (fault(POWER, 1, from_ns=at, at_ns=at) for at in (10, 45))
    losses = replica_losses(isr_history, [first], [{"kind": "fenced", "node": 1, "at_ns": 20}])
    late = replica_losses(isr_history, [second])
    late = [replace(each, early_ns=20) for each in late]
    found = [*state_losses_at(isr_history, [*losses, *late], 30)]
    alone = [each for each in found if each.all_copies_lost(settings(1))]
    assert [[loss.at_ns for loss in each.losses] for each in alone] == [[10]]
    assert {len(each.losses) for each in found} == {1, 2}


def test_decisions_of_a_clock_that_is_behind_are_dated_early() -> None:
    """What left the in-sync replicas after the loss, by its date before it; it is back later."""
    second = 1_000_000_000
    isr_history = IsrHistory(rows((0, [1, 2]), (9 * second, [2]), (20 * second, [1, 2])), min_isr=1)
    lost_power = fault(POWER, 1, from_ns=9_400_000_000, at_ns=9_500_000_000)
    behind = IntervalIndex([(0, 9_450_000_000, 600_000_000)])
    [loss] = replica_losses(isr_history, [lost_power], clock_lags=behind)
    assert (loss.dated_from_ns, loss.back_ns) == (8_800_000_000, 20 * second)
    assert (loss.node, loss.early_ns) == (1, 600_000_000)
    assert [*state_losses_at(isr_history, [loss], 9 * second)]
    assert not [*state_losses_at(isr_history, [loss], 8 * second)]
    over = IntervalIndex([(0, 9_350_000_000, 600_000_000)])
    assert not replica_losses(isr_history, [lost_power], clock_lags=over)

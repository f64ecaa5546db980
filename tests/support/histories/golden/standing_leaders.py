"""Golden histories of leaders that kept their records while others lost power, and the near misses.
See `state_losses`.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.state_losses import LOST, led, taken, wiped
from tests.support.histories.story import ALL, S, Story


@golden("INVALID", {LOST: (F, 1)}, cause="in sync, kept all records")
def leader_that_kept_its_records_leads_again_without_one(s: Story) -> None:
    """Both followers lost power; what node 1 leads without, it had itself."""
    wiped(s)
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (9.9, 1, 0, (1,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))
    taken(s, 2, 3)


@golden("INVALID", {LOST: (F, 1)}, cause="in sync, kept all records")
def follower_that_kept_its_records_leads_without_one(s: Story) -> None:
    """Two of five lost power, the leader was killed, and node 2 was in sync."""
    wiped(s)
    led(s, ALL, (0, 1, 0, (1, 2, 3, 4, 5)), (10, 2, 1, (2, 3)), (16, 2, 1, (2, 3, 1)))
    taken(s, 1, fault="kill")
    taken(s, 4, 5)


@golden("INVALID", {LOST: (F, 1)})
def eligible_replica_that_kept_its_records_leads_without_one(s: Story) -> None:
    """Node 1 had left an ISR that was then too small, and so it had all that was committed."""
    _eligible_leads(s)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def eligible_replica_leads_where_none_are_remembered(s: Story) -> None:
    """Near miss: without eligible leader replicas nobody promises what node 1 has."""
    _eligible_leads(s)
    s.plan["broker"] = {"eligible.leader.replicas.version": 0}


def _eligible_leads(s: Story) -> None:
    """Node 2 leads, and is left alone in sync; it loses power, as does node 3."""
    wiped(s)
    led(s, ALL, (0, 2, 0, (1, 2, 3)), (9.45, 2, 0, (2,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))
    s.cluster = [r for r in s.cluster if r["kind"] != "view" or r["topic"] != ALL]
    taken(s, 2, 3)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def follower_that_lost_power_leads_next(s: Story) -> None:
    """Near miss: node 3, in sync for all that the controllers knew, is one of those that did."""
    wiped(s)
    led(s, ALL, (0, 1, 0, (1, 2, 3, 4, 5)), (10, 3, 1, (3, 2)), (16, 3, 1, (3, 2, 1)))
    taken(s, 1, fault="kill")
    taken(s, 3, 4)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def leader_that_kept_its_records_followed_one_that_did_not(s: Story) -> None:
    """Near miss: node 2 led without the record for a moment, and node 1 cut its own log to that."""
    wiped(s)
    led(
        s, ALL, (0, 1, 0, (1, 2, 3)), (9.8, 2, 1, (1, 2, 3)), (10, 1, 2, (1,)),
        (16, 1, 2, (1, 2, 3)),
    )  # fmt: skip
    [_, second] = [r for r in s.cluster if (r["kind"], r["topic"]) == ("epoch", ALL)]
    s.cluster.append(second | {"leader_epoch": 2})
    s.file_by_epochs(ALL)
    s.cluster = [r for r in s.cluster if r["kind"] != "view" or r["topic"] != ALL]
    taken(s, 2, 3)
    s.faults[-1]["healed_ns"] = round(9.7 * S)

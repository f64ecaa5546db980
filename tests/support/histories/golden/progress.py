"""Who never got on again, and for what reason."""

import json

from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.golden.client_epochs import OWN
from tests.support.histories.golden.state_losses import LOST, taken, wiped
from tests.support.histories.story import ALL, ONE, PRODUCER, S, Story, v, value

OTHER = 99
HEAD = "refused at the head of the line"


def _never_answered(s: Story, *, from_s: float) -> None:
    s.row("start", OTHER, 0)
    for number in (1, 2):
        s.send(ONE, 0, None, from_s + number, client=OTHER, value=value(OTHER, number),
               type="info", complete_ns=None)  # fmt: skip
    s.row("end", OTHER, 61)


@golden(
    "UNKNOWN",
    {("stuck", "producer"): (U, 1)},
    because="set a limit with the expectation unavailable_ms",
)
def producer_never_recovers(s: Story) -> None:
    """Others write to the partition; this one gets no answer from 21 s on."""
    _never_answered(s, from_s=20)


@golden("UNKNOWN", {("stuck", "producer"): (U, 1)}, expectation="failed")
def producer_never_recovers_as_soon_as_expected(s: Story) -> None:
    """The same where the user expects that it takes 7 s at most."""
    s.plan["expect"] = ["unavailable_ms <= 7000"]
    _never_answered(s, from_s=20)


@golden("VALID")
def producer_aborts_all_its_transactions(s: Story) -> None:
    """Near miss: both sends were acknowledged, and their transactions aborted as it wanted."""
    s.row("start", OTHER, 0)
    for number in (1, 2):
        s.send(ONE, 0, 90 + number, 20 + number, client=OTHER, value=value(OTHER, number),
               type="fail", txn=number)  # fmt: skip
    s.row("end", OTHER, 61)


@golden("VALID")
def producer_had_no_time_to_recover(s: Story) -> None:
    """Near miss: its first send was nine seconds before its end."""
    _never_answered(s, from_s=51)


@golden("VALID")
def producer_is_stuck_while_a_fault_is_in_force(s: Story) -> None:
    """Near miss: the fault was not healed."""
    s.faults[0]["healed_ns"] = None
    _never_answered(s, from_s=20)


@golden("VALID")
def producer_had_no_time_to_recover_from_what_nobody_saw(s: Story) -> None:
    """Near miss: a second fault was healed at 55 s, before anybody had seen what it did."""
    unseen = s.faults[0] | {"fault_id": 1, "took_effect": False, "effective_ns": None}
    s.faults.append(unseen | {"started_ns": 54 * S, "healed_ns": 55 * S, "effect": "not yet"})
    _never_answered(s, from_s=20)


def _waits(s: Story, topic: str, *, from_s: float, to_s: float | None) -> None:
    """A producer gets no answer from 21 s on, and meanwhile the partition takes no writes."""
    acks = -1 if topic == ALL else 1
    s.row("start", OTHER, 0)
    for number in (1, 2):
        s.send(topic, 0, None, 20 + number, client=OTHER, value=value(OTHER, number), acks=acks,
               type="info", complete_ns=None)  # fmt: skip
    s.row("end", OTHER, 61)
    led, isr = (2, [2]) if topic == ALL else (-1, [2])
    s.leader(topic, from_s, led, 2, isr)
    if to_s is not None:
        s.leader(topic, to_s, 2, 3, [2, 3, 1])


@golden("VALID")
def producer_waited_for_in_sync_replicas(s: Story) -> None:
    """Near miss: its partition had fewer than min.insync.replicas until 52 s."""
    _waits(s, ALL, from_s=20, to_s=52)


@golden("VALID")
def producer_waited_for_a_leader(s: Story) -> None:
    """Near miss: its partition had none until 52 s."""
    _waits(s, ONE, from_s=20, to_s=52)


@golden("UNKNOWN", {("stuck", "producer"): (U, 1)})
def producer_waited_long_after_replicas_were_in_sync(s: Story) -> None:
    """They were at 45 s, and it ended at 61 s."""
    _waits(s, ALL, from_s=20, to_s=45)


@golden("UNKNOWN", {("stuck", "producer"): (U, 1)})
def producer_was_stuck_before_replicas_left(s: Story) -> None:
    """For half a minute the partition could take its writes."""
    _waits(s, ALL, from_s=51, to_s=58)


@golden("UNKNOWN", {("stuck", "producer"): (U, 1)})
def producer_waited_for_replicas_that_never_came_back(s: Story) -> None:
    """Who waits for a partition that never recovers is stuck."""
    _waits(s, ALL, from_s=20, to_s=None)


@golden("UNKNOWN", {("stuck", "producer"): (U, 1)})
def producer_needed_no_in_sync_replicas(s: Story) -> None:
    """For acks=1 the leader is enough."""
    _waits(s, ONE, from_s=20, to_s=52)
    s.cluster[-2]["leader"] = 2


def _polls_once(s: Story, *, until_s: float) -> None:
    s.row("start", OTHER, 0)
    s.poll(ALL, 6, {offset: v(ALL, offset + 1) for offset in range(5)}, client=OTHER)
    s.row("end", OTHER, until_s)


@golden("UNKNOWN", {("stuck", "consumer"): (U, 1)})
def consumer_never_recovers(s: Story) -> None:
    """Offset 5 lay before it when the fault was healed, and when it ended."""
    _polls_once(s, until_s=61)


@golden("VALID")
def consumer_had_no_time_to_recover(s: Story) -> None:
    """Near miss: it ended ten seconds and no more after the heal, less a moment."""
    _polls_once(s, until_s=23.9)


def _member(s: Story, *callbacks: tuple[str, float]) -> None:
    """A member of a group gets the first five records of the partition, and lives on."""
    where = {"topic": ALL, "partition": 0, "group": "g", "generation": 1}
    s.row("start", OTHER, 0)
    s.row("assigned", OTHER, 1, offset=0, **where)
    s.poll(ALL, 6, {offset: v(ALL, offset + 1) for offset in range(5)}, client=OTHER, group="g")
    for f, at_s in callbacks:
        s.row(f, OTHER, at_s, offset=5 if f == "assigned" else None, **where)
    s.row("end", OTHER, 61)


@golden("VALID")
def member_gave_its_partition_up(s: Story) -> None:
    """Near miss: another member has to get what comes next."""
    _member(s, ("revoked", 7))


@golden("VALID")
def member_was_given_its_partition_back_in_the_end(s: Story) -> None:
    """Near miss: it had it for seconds only."""
    _member(s, ("lost", 7), ("assigned", 55))


@golden("UNKNOWN", {("stuck", "consumer"): (U, 1)})
def member_gave_its_partition_up_too_late(s: Story) -> None:
    """It owned the partition for long enough after the heal at 14 s."""
    _member(s, ("revoked", 26))


@golden("UNKNOWN", {("stuck", "consumer"): (U, 1)})
def member_was_given_its_partition_back(s: Story) -> None:
    """It had it for half a minute, and got nothing."""
    _member(s, ("revoked", 7), ("assigned", 30))


@golden("UNKNOWN", {("stuck", "election"): (U, 1)}, because="failed check: the cluster settled")
def election_never_ends(s: Story) -> None:
    """From 20 s on nobody leads."""
    s.leader(ALL, 20, -1, 2, [2, 3, 1])


def _moved(s: Story, *, from_s: float, to_s: float | None = None) -> None:
    """Node 4 is to take a replica over, and lags."""
    s.leader(ALL, from_s, 2, 1, [2, 3, 1])
    s.cluster[-1]["replicas"] = [1, 2, 3, 4]
    for rows in (s.replicas, s.replica_ends):
        rows += [row | {"node": 4} for row in rows if (row["node"], row["topic"]) == (3, ALL)]
    if to_s is not None:
        s.leader(ALL, to_s, 2, 1, [2, 3, 4])
        s.cluster[-1]["replicas"] = [2, 3, 4]


@golden(
    "UNKNOWN",
    {("stuck", "reassignment"): (U, 1)},
    because="how long one may take",
    expectation="passed",
)
def reassignment_never_ends(s: Story) -> None:
    """From 20 s on, whatever the plan says of writing."""
    s.plan["expect"] = ["unavailable_ms <= 7000"]
    _moved(s, from_s=20)


@golden("VALID")
def reassignment_ends(s: Story) -> None:
    """Near miss: at 40 s it was over."""
    _moved(s, from_s=20, to_s=40)


@golden("VALID")
def reassignment_goes_on(s: Story) -> None:
    """Near miss: it began nine seconds before the partition was read for the last time."""
    _moved(s, from_s=51)


@golden("INVALID", {("refused-head", None): (F, 1)})
def broker_refuses_the_next_in_line(s: Story) -> None:
    """Though it should know the last."""
    s.new_epoch(PRODUCER[ALL], 22, 23, HEAD, partition=0)


@golden("VALID")
def broker_refuses_what_was_sent_ahead(s: Story) -> None:
    """Near miss: the client had skipped a batch itself."""
    s.new_epoch(PRODUCER[ALL], 22, 23, OWN, partition=0)


@golden("VALID")
def broker_refuses_after_the_client_gave_up(s: Story) -> None:
    """Near miss: the client's own time-out took sequences away."""
    s.new_epoch(PRODUCER[ALL], 22, 23, "timed-out: 7 message(s) timed out on all [0]", HEAD,
                partition=0)  # fmt: skip


@golden("VALID", {("refused-head", "bereft"): (P, 1), LOST: (P, 1)})
def broker_refuses_since_its_records_are_gone(s: Story) -> None:
    """So many lost power that records went, and what was known of producers."""
    wiped(s)
    taken(s, 1, 2)
    s.new_epoch(PRODUCER[ALL], 10.5, 11, HEAD, partition=0, value=v(ALL, 11))


@golden("VALID", {("refused-head", "bereft"): (P, 1), LOST: (P, 1)})
def broker_refuses_who_wrote_when_it_may_not_have_led_yet(s: Story) -> None:
    """The last write before was sent less than two seconds after the election was recorded."""
    wiped(s)
    taken(s, 1, 2)
    s.new_epoch(PRODUCER[ALL], 11.7, 11.9, HEAD, partition=0, value=v(ALL, 12))


@golden("INVALID", {("refused-head", None): (F, 1), LOST: (P, 1)})
def broker_refuses_long_after_its_records_went(s: Story) -> None:
    """Near miss: it has acknowledged ten writes of the producer since, and has them still."""
    wiped(s)
    taken(s, 1, 2)
    s.new_epoch(PRODUCER[ALL], 40, 41, HEAD, partition=0)


@golden("INVALID", {("refused-head", None): (F, 1), ("duplicate", None): (F, 1), LOST: (P, 1)})
def client_wrote_twice_long_after_a_partition_lost_records(s: Story) -> None:
    """Near miss: the refusal is the broker's fault, and so is the value that was sent again."""
    broker_refuses_long_after_its_records_went(s)
    s.send(ALL, 98, 20, 39, complete_ns=42 * S)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 21, v(ALL, 98))


@golden("VALID", {("refused-head", "bereft"): (P, 1), LOST: (P, 1)})
def broker_refuses_before_anybody_saw_that_it_leads(s: Story) -> None:
    """The record has an election when somebody looked, the client met the leader before."""
    wiped(s)
    taken(s, 1, 2)
    s.new_epoch(PRODUCER[ALL], 9, 9.5, HEAD, partition=0)


@golden("INVALID", {("refused-head", None): (F, 1), LOST: (P, 1)})
def broker_refuses_long_before_its_records_go(s: Story) -> None:
    """Near miss: it had them still."""
    wiped(s)
    taken(s, 1, 2)
    s.new_epoch(PRODUCER[ALL], 7, 7.5, HEAD, partition=0)


def _kill(s: Story, nodes: list[int], from_s: float, to_s: float) -> None:
    s.plan["expect"] = ["unavailable_ms <= 5000"]
    targets = json.dumps({"nodes": nodes})
    began_ns = round(from_s * S)
    s.faults[0].update(
        targets=targets, started_ns=began_ns, effective_ns=began_ns, healed_ns=round(to_s * S)
    )


@golden("VALID", expectation="passed")
def nobody_could_write_while_most_were_dead(s: Story) -> None:
    """From 5.0 s to 11.5 s there was no acknowledgement; two of three were dead until 11 s."""
    _kill(s, [1, 2], 5.5, 11)


@golden("VALID", expectation="failed")
def nobody_could_write_though_most_lived_again(s: Story) -> None:
    """Near miss: they were dead for a second only."""
    _kill(s, [1, 2], 5.1, 6.1)


@golden("VALID", expectation="passed")
def nobody_could_write_while_all_were_apart(s: Story) -> None:
    """No in-sync replica heard another."""
    s.plan["expect"] = ["unavailable_ms <= 5000"]
    cuts = [[a, b, 0] for a in (1, 2, 3) for b in (1, 2, 3) if a != b]
    s.faults[0].update(fault="partition.halves", targets=json.dumps({"cuts": cuts}),
                       started_ns=round(5.5 * S), healed_ns=11 * S)  # fmt: skip


@golden("VALID", expectation="failed")
def nobody_could_write_though_two_heard_each_other(s: Story) -> None:
    """Near miss: only node 1 was cut off."""
    s.plan["expect"] = ["unavailable_ms <= 5000"]
    cuts = [[1, 2, 0], [2, 1, 0], [1, 3, 0], [3, 1, 0]]
    s.faults[0].update(fault="partition.isolate-one",
                       targets=json.dumps({"nodes": [1], "cuts": cuts}),
                       started_ns=round(5.5 * S), healed_ns=11 * S)  # fmt: skip

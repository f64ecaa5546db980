"""How acks=0 sends are lost without an election.

- A *fault* affected the leader's process, or the network to it: the send was lost on its way. A
  fault that cuts nodes off from each other lets clients pass. A fault that only delays is named
  only where no other cause is found.
- A *refusal*: the node was not leader any more when it got the send, and led again later with all
  its records; or the node stopped leading another partition of the topic. The client learns of it
  only because the connection is closed, and other requests on that connection are lost too, even
  for partitions that the node still leads.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from checkers.causes.cause import SLACK_NS, Cause, CauseKind, SettingsOf
from checkers.causes.leadership_terms import (
    Partition,
    PartitionLeadership,
    first_of_each_epoch,
    has_leader,
)
from checkers.causes.lookup import IntervalIndex
from checkers.causes.state_loss import VIEW_SLACK_NS
from checkers.history.recorded_faults import Fault, seconds
from checkers.history.settings import FOREVER_NS


def refusals(
    records: Mapping[Partition, PartitionLeadership],
    elections: Sequence[Cause],
    settings: SettingsOf,
) -> Iterable[Cause]:
    """Yield the refusals in acks=0 topics. There is one for each election of another partition and
    each leader of this partition that refused sends to the other one: it was not leader there any
    more, or did not know yet that it was."""
    by_topic: dict[str, list[Cause]] = {}
    for election in elections:
        by_topic.setdefault(election.topic, []).append(election)
    for partition, record in sorted(records.items()):
        topic, number = partition
        if settings(topic).acks != 0:
            continue
        yield from _returns(partition, record)
        terms = _leadership_terms(record)
        for election in by_topic.get(topic, ()):
            if election.partition != number and election.elected_ns is not None:
                span_ns = election.elected_ns, election.near_until_ns
                leading = {leader for _, _, leader in terms.overlapping(*span_ns)}
                for node in (election.deposed, election.leader):
                    if node in leading:
                        yield _refusal(partition, election, node)


def _returns(partition: Partition, record: PartitionLeadership) -> Iterable[Cause]:
    """Yield one cause for each leader that stopped leading and then led again in another epoch."""
    rows = [row for row in first_of_each_epoch(record.leaders) if has_leader(row)]
    for before, row in pairwise(rows):
        node, epoch, at_ns = row["leader"], row["leader_epoch"], row["at_ns"]
        if before["leader"] == node:
            ended_ns = min(at_ns, record.led_ns(before["leader_epoch"] + 1) or at_ns)
            yield Cause(
                kind=CauseKind.REFUSAL,
                topic=partition[0],
                partition=partition[1],
                text=f"Node {node} stopped leading {partition[0]}-{partition[1]} at "
                f"{seconds(ended_ns)} (epoch {before['leader_epoch']}) and led again from "
                f"{seconds(at_ns)} on (epoch {epoch}). No node accepted the sends in between.",
                from_ns=ended_ns - VIEW_SLACK_NS,
                near_until_ns=(record.knew_at_ns(node, epoch) or at_ns) + SLACK_NS,
                leader=node,
                elected_ns=at_ns,
                refused=(partition, epoch),
            )


def _refusal(partition: Partition, election: Cause, node: int) -> Cause:
    assert election.elected_ns is not None
    assert election.epoch is not None
    other = f"{election.topic}-{election.partition}"
    when = f"from {seconds(election.elected_ns)} on (epoch {election.epoch})"
    leads = (
        f"did not lead {other} any more"
        if node == election.deposed
        else f"may not have known yet that it led {other}"
    )
    return Cause(
        kind=CauseKind.REFUSAL,
        topic=partition[0],
        partition=partition[1],
        text=f"Node {node}, leader of {partition[0]}-{partition[1]}, {leads} {when}. It closed "
        f"every connection that sent records for {other}.",
        from_ns=election.elected_ns - VIEW_SLACK_NS,
        near_until_ns=max(election.felt_until_ns, election.near_until_ns),
        elected_ns=election.elected_ns,
        leader=node,
        faults=election.faults,
        refused=((election.topic, election.partition), election.epoch),
    )


def _leadership_terms(record: PartitionLeadership) -> IntervalIndex[tuple[int, int, int]]:
    """Return (since, until, leader) of each leader epoch that had a leader."""
    rows = [row for row in first_of_each_epoch(record.leaders) if has_leader(row)]
    ends = [*(row["at_ns"] for row in rows[1:]), FOREVER_NS]
    return IntervalIndex(
        (row["at_ns"], end_ns, (row["at_ns"], end_ns, row["leader"]))
        for row, end_ns in zip(rows, ends, strict=False)
    )  # without rows, `ends` is longer


def _spans_of(node: int, found: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(since_ns, until_ns) for since_ns, until_ns, each in found if each == node]


def _beliefs(record: PartitionLeadership) -> IntervalIndex[tuple[int, int, int]]:
    """Return (since, until, node): after its term, while a leader did not know its successor."""
    rows = [row for row in first_of_each_epoch(record.leaders) if has_leader(row)]
    found = [
        (row["at_ns"], knew_ns, before["leader"])
        for before, row in pairwise(rows)
        if (knew_ns := record.knew_at_ns(before["leader"], row["leader_epoch"])) is not None
        and knew_ns > row["at_ns"]
    ]
    return IntervalIndex((*each[:2], each) for each in found)


def leader_faults(
    partition: Partition, record: PartitionLeadership, faults: Sequence[Fault]
) -> Iterable[Cause]:
    """Yield one cause for each fault and each leader that the fault affected during its term, or
    after it while the leader did not know of its successor: clients still sent to it."""
    terms, beliefs = _leadership_terms(record), _beliefs(record)
    leaders = {row["leader"] for row in record.leaders if has_leader(row)}
    for leader in sorted(leaders):
        for fault, since_ns in _in_succession(f for f in faults if f.may_lose_sends_to(leader)):
            led = terms.overlapping(since_ns, fault.healed_ns)
            believed = beliefs.overlapping(fault.started_ns, fault.started_ns)
            mine = _spans_of(leader, led) or _spans_of(leader, believed)
            if mine:
                yield Cause(
                    kind=CauseKind.FAULT,
                    topic=partition[0],
                    partition=partition[1],
                    text=f"Node {leader}, leader of {partition[0]}-{partition[1]}, was affected by "
                    f"{fault.describe()}.",
                    from_ns=max(since_ns, mine[0][0]) - VIEW_SLACK_NS,
                    near_until_ns=min(fault.healed_ns + _noticed_ns(fault), mine[-1][1] + SLACK_NS),
                    only_delays=fault.only_delays,
                    faults=frozenset({fault.fault_id}),
                )


def _noticed_ns(fault: Fault) -> int:
    """Return how long after a fault's end clients may not know that their connections broke. A
    running kernel reports it at once; a repaired link or machine only when data is sent again."""
    return VIEW_SLACK_NS if fault.of_process else SLACK_NS


def _in_succession(faults: Iterable[Fault]) -> Iterable[tuple[Fault, int]]:
    """Yield each fault with the time since which sends may have waited for it: overlapping earlier
    faults may have delayed the sends that this fault lost."""
    since_ns = until_ns = -1
    for fault in sorted(faults, key=lambda each: (each.started_ns, each.fault_id)):
        if fault.started_ns > until_ns:
            since_ns = fault.started_ns
        yield fault, since_ns
        if fault.proven and fault.ends_processes:
            since_ns = fault.started_ns
        elif fault.holds_up:
            until_ns = max(until_ns, fault.healed_ns)

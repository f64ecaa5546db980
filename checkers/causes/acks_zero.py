"""What takes a send that asked for no acknowledgement, when no election took it.

- A *fault* befell its leader's process, or the way there: it was lost on its way. What cuts
  nodes off from each other lets clients pass, and what only delays is named where nothing else is.
- A *refusal*: the node that it was sent to led no more, and later leads again with all that it had;
  or it led no more another partition of the topic. Nobody is told but by the end of the
  connection, and what else was on it, for partitions that the node leads still, is lost with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from checkers.causes.cause import SLACK_NS, Cause, CauseKind, SettingsOf
from checkers.causes.leadership_terms import Partition, Record, first_of_each_epoch, has_leader
from checkers.causes.lookup import Spans
from checkers.causes.state_loss import VIEW_SLACK_NS
from checkers.history.recorded_faults import Fault, seconds
from checkers.history.settings import FOREVER_NS


def refusals(
    records: Mapping[Partition, Record], elections: Sequence[Cause], settings: SettingsOf
) -> Iterable[Cause]:
    """One cause per election of another partition of an acks=0 topic, and node that led no more
    there, or did not know yet that it did, and leads the partition."""
    by_topic: dict[str, list[Cause]] = {}
    for election in elections:
        by_topic.setdefault(election.topic, []).append(election)
    for partition, record in sorted(records.items()):
        topic, number = partition
        if settings(topic).acks != 0:
            continue
        yield from _returns(partition, record)
        reigns = _reigns(record)
        for election in by_topic.get(topic, ()):
            if election.partition != number and election.elected_ns is not None:
                span_ns = election.elected_ns, election.near_until_ns
                leading = {leader for _, _, leader in reigns.meeting(*span_ns)}
                for node in (election.deposed, election.leader):
                    if node in leading:
                        yield _refusal(partition, election, node)


def _returns(partition: Partition, record: Record) -> Iterable[Cause]:
    """One cause per leader that led no more for a while, or in another epoch, and then again."""
    rows = [row for row in first_of_each_epoch(record.leaders) if has_leader(row)]
    for before, row in pairwise(rows):
        node, epoch, at_ns = row["leader"], row["leader_epoch"], row["at_ns"]
        if before["leader"] == node:
            ended_ns = min(at_ns, record.led_ns(before["leader_epoch"] + 1) or at_ns)
            yield Cause(
                kind=CauseKind.REFUSAL,
                topic=partition[0],
                partition=partition[1],
                text=f"node {node}, leader of {partition[0]}-{partition[1]} in epoch "
                f"{before['leader_epoch']}, led no more from {seconds(ended_ns)} on, and leads "
                f"again from {seconds(at_ns)} on in epoch {epoch}; nobody took what was sent "
                "meanwhile",
                from_ns=ended_ns - VIEW_SLACK_NS,
                near_until_ns=(record.knew_at_ns(node, epoch) or at_ns) + SLACK_NS,
                leader=node,
                elected_ns=at_ns,
                refused=(partition, epoch),
            )


def _refusal(partition: Partition, election: Cause, node: int) -> Cause:
    assert election.elected_ns is not None
    assert election.epoch is not None
    leads = "led no more" if node == election.deposed else "may not have known yet that it led"
    return Cause(
        kind=CauseKind.REFUSAL,
        topic=partition[0],
        partition=partition[1],
        text=f"node {node}, leader of {partition[0]}-{partition[1]}, {leads} "
        f"{election.topic}-{election.partition} from {seconds(election.elected_ns)} on, in epoch "
        f"{election.epoch}; it closed the connections on which it was sent records for that",
        from_ns=election.elected_ns - VIEW_SLACK_NS,
        near_until_ns=max(election.felt_until_ns, election.near_until_ns),
        elected_ns=election.elected_ns,
        leader=node,
        faults=election.faults,
        refused=((election.topic, election.partition), election.epoch),
    )


def _reigns(record: Record) -> Spans[tuple[int, int, int]]:
    """(since, until, leader) of each leader epoch that had one."""
    rows = [row for row in first_of_each_epoch(record.leaders) if has_leader(row)]
    ends = [*(row["at_ns"] for row in rows[1:]), FOREVER_NS]
    return Spans(
        (row["at_ns"], end_ns, (row["at_ns"], end_ns, row["leader"]))
        for row, end_ns in zip(rows, ends, strict=False)
    )  # of nothing there is no end


def leader_troubles(
    partition: Partition, record: Record, faults: Sequence[Fault]
) -> Iterable[Cause]:
    """One cause per fault and leader that it befell while it led the partition."""
    reigns = _reigns(record)
    leaders = {row["leader"] for row in record.leaders if has_leader(row)}
    for leader in sorted(leaders):
        for fault, since_ns in _in_succession(f for f in faults if f.is_in_the_way_to(leader)):
            led = [*reigns.meeting(since_ns, fault.healed_ns)]
            mine = [(begin_ns, end_ns) for begin_ns, end_ns, node in led if node == leader]
            if mine:
                yield Cause(
                    kind=CauseKind.FAULT,
                    topic=partition[0],
                    partition=partition[1],
                    text=f"{fault.describe()} touched node {leader}, leader of "
                    f"{partition[0]}-{partition[1]}",
                    from_ns=max(since_ns, mine[0][0]) - VIEW_SLACK_NS,
                    near_until_ns=min(fault.healed_ns + _noticed_ns(fault), mine[-1][1] + SLACK_NS),
                    only_delays=fault.only_delays,
                    faults=frozenset({fault.fault_id}),
                )


def _noticed_ns(fault: Fault) -> int:
    """How long after a fault's end clients may not know that their connections broke: a kernel that
    lives says so at once, a link or a machine that comes back when something is sent again."""
    return VIEW_SLACK_NS if fault.of_process else SLACK_NS


def _in_succession(faults: Iterable[Fault]) -> Iterable[tuple[Fault, int]]:
    """Each fault, and since when others, without a pause between them, held up what it took."""
    since_ns = until_ns = -1
    for fault in sorted(faults, key=lambda each: (each.started_ns, each.fault_id)):
        if fault.started_ns > until_ns:
            since_ns = fault.started_ns
        yield fault, since_ns
        if fault.proven and fault.ends_processes:
            since_ns = fault.started_ns
        elif fault.holds_up:
            until_ns = max(until_ns, fault.healed_ns)

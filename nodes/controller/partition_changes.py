"""How one partition changes: ISR, eligible leaders, leader and assignment, all in one record. Pure.

Every change of a partition goes through `change`. It makes the change that the caller wants, and
all its consequences. The rules are KRaft's (its PartitionChangeBuilder) with eligible leader
replicas (KIP-966):

- A member that leaves the ISR while fewer than min.insync.replicas remain becomes an eligible
  leader replica (ELR). It has every committed record, because the high watermark does not advance
  below the minimum. The ISR may then be empty. The ELR is empty if the ISR has its minimum. A
  replica that restarted uncleanly is neither in sync nor eligible any more: its disk may have lost
  acknowledged records.
- The leader stays if it is in the ISR and live. Otherwise the first live ISR member in assignment
  order becomes the leader. If the ISR is empty, the first live eligible replica becomes the leader
  and the only ISR member.
- A replica that restarted uncleanly while the ISR was below its minimum is kept as last known ELR
  until the ISR has its minimum again: a partition never forgets which replicas may have its
  committed records.
- If no replica is in sync or eligible, and all of the last known ELR are live, the one with the
  longest log becomes the leader: first by the leader epoch of the last record, then by the log end
  offset. If one of them has every committed record, the longest log has them (as in Raft, because
  logs are truncated by epoch). A log that retention has emptied may not know its last epoch; it
  still shows how many records were committed. If the topic allows an unclean election, the longest
  log of all live replicas may lead at once. In both cases the leader is the only ISR member, and
  RECOVERING. `nodes.controller.recovery` queries the logs.
- A reassignment (KIP-455) is complete when all replicas that stay are in the ISR; the same record
  removes the others.

If the feature eligible.leader.replicas.version is 0, no replica is eligible, and the last member
always stays in the ISR: only this member may lead again, with the records that its disk has kept.

The leader epoch rises with a new leader, and when replicas are removed (they must notice). An ISR
change alone raises only the partition epoch (KAFKA-15021).

This is KIP-966's strategy Balanced, and Aggressive with unclean.leader.election.enable. Kafka 4.x
has only the first part of the KIP: it keeps only the last leader, and elects it even if it lost
records. As in the KIP, a partition whose last known member never returns waits until an unclean
election is requested. A replica that lost its disk returns with an empty log and is not elected.

Stricter than KRaft's builder: only replicas of the partition are eligible, and an election from the
ELR that brings the ISR to its minimum ends the ELR.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.metadata.image import PartitionImage, PartitionKey
from nodes.metadata.records import (
    NO_LEADER_CHANGE,
    RECOVERING,
    RECOVERY_STATE_UNCHANGED,
    PartitionChangeRecord,
)

T = TypeVar("T")

Nodes = tuple[NodeId, ...]
IsLive = Callable[[NodeId], bool]


class Election(enum.Enum):
    """How far an election may go."""

    PREFERRED = enum.auto()
    """As CLEAN, but the preferred replica has priority over the present leader."""
    CLEAN = enum.auto()
    UNCLEAN = enum.auto()
    """As CLEAN, but without a candidate any live replica may lead."""


class LogEnd(NamedTuple):
    """The end of a replica's log; a longer log compares as greater."""

    last_epoch: Epoch
    """The leader epoch of the last record; -1 if the log is empty and does not know it."""
    end_offset: Offset


Directories = Mapping[NodeId, UUID | None]
NO_DIRECTORIES: Final[Directories] = {}
Logs = Mapping[NodeId, LogEnd]
NO_LOGS: Final[Logs] = {}


class Rules(NamedTuple):
    """The conditions for a change of a partition."""

    live: IsLive
    """Whether a broker may lead: registered, unfenced, not shutting down."""
    min_isr: int
    """The topic's min.insync.replicas; at most the number of replicas counts."""
    election: Election = Election.CLEAN
    eligible_leaders: bool = True
    """Whether eligible leader replicas are enabled in the cluster."""
    logs: Logs = NO_LOGS
    """The known log ends of the replicas of a leaderless partition."""

    def enough(self, isr: Nodes, replicas: Nodes) -> bool:
        """Whether an ISR has the minimum."""
        return len(isr) >= min(self.min_isr, len(replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """The wanted state of a partition; None leaves a field unchanged."""

    isr: Nodes | None = None
    replicas: Nodes | None = None
    adding: Nodes | None = None
    removing: Nodes | None = None
    leader_recovery_state: int = RECOVERY_STATE_UNCHANGED
    directories: Directories = field(default_factory=lambda: NO_DIRECTORIES)
    """The log directories of some nodes (KIP-858); those of others stay as they are."""
    lost: Nodes = ()
    """Replicas that may lack committed records: neither in sync nor eligible."""
    renewed: bool = False
    """Whether the partition epoch rises although nothing else changes: earlier requests are then
    stale."""


UNCHANGED: Final = DesiredState()
RENEWED: Final = DesiredState(renewed=True)


class _Elected(NamedTuple):
    leader: NodeId
    isr: Nodes
    elr: Nodes
    unclean: bool = False


def change(
    key: PartitionKey, partition: PartitionImage, rules: Rules, target: DesiredState = UNCHANGED
) -> PartitionChangeRecord | None:
    """The record that makes the change to `target` and its consequences; None for no change."""
    replicas = partition.replicas if target.replicas is None else target.replicas
    adding = partition.adding_replicas if target.adding is None else target.adding
    removing = partition.removing_replicas if target.removing is None else target.removing
    isr = partition.isr if target.isr is None else target.isr
    isr = tuple(n for n in isr if n in replicas and n not in target.lost)
    if (adding or removing) and _complete(replicas, removing, isr):
        replicas = tuple(node for node in replicas if node not in removing)
        isr = tuple(node for node in isr if node not in removing)
        adding = removing = ()
    elr = _eligible(partition, isr, replicas, target.lost, rules)
    known = _last_known(partition, isr, elr, replicas, rules)
    leader, isr, elr, unclean = _elect(partition.leader, replicas, isr, elr, known, rules)
    if not isr and not rules.eligible_leaders:
        isr = tuple(node for node in partition.isr if node in replicas)
    shrunk = any(node not in replicas for node in partition.replicas)
    recovery = RECOVERING if unclean else target.leader_recovery_state
    record = PartitionChangeRecord(
        topic_id=key.topic_id,
        partition_id=key.partition,
        isr=_unless_same(isr, partition.isr),
        leader=leader if shrunk or leader != partition.leader else NO_LEADER_CHANGE,
        replicas=_unless_same(replicas, partition.replicas),
        removing_replicas=_unless_same(removing, partition.removing_replicas),
        adding_replicas=_unless_same(adding, partition.adding_replicas),
        leader_recovery_state=(
            RECOVERY_STATE_UNCHANGED if recovery == partition.leader_recovery_state else recovery
        ),
        eligible_leader_replicas=_unless_same(elr, partition.elr),
        last_known_elr=_unless_same(
            _last_known(partition, isr, elr, replicas, rules), partition.last_known_elr
        ),
        directories=_directories(partition, replicas, target.directories),
    )
    return None if _is_nothing(record) and not target.renewed else record


def _is_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.leader == NO_LEADER_CHANGE
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.leader_recovery_state == RECOVERY_STATE_UNCHANGED
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.directories is None
    )


def _complete(replicas: Nodes, removing: Nodes, isr: Nodes) -> bool:
    staying = [node for node in replicas if node not in removing]
    return bool(staying) and all(node in isr for node in staying)


def _eligible(
    partition: PartitionImage, isr: Nodes, replicas: Nodes, lost: Sequence[NodeId], rules: Rules
) -> Nodes:
    if not rules.eligible_leaders or rules.enough(isr, replicas):
        return ()
    return tuple(
        node
        for node in replicas
        if (node in partition.elr or node in partition.isr) and node not in isr and node not in lost
    )


def _last_known(
    partition: PartitionImage, isr: Nodes, elr: Nodes, replicas: Nodes, rules: Rules
) -> Nodes:
    if not rules.eligible_leaders or rules.enough(isr, replicas):
        return ()
    known = (*partition.isr, *partition.elr, *partition.last_known_elr)
    return tuple(n for n in replicas if n in known and n not in isr and n not in elr)


def candidates(partition: PartitionImage, rules: Rules) -> Nodes:
    """A leaderless partition's replicas whose logs decide the leader; none if none can lead."""
    if partition.leader != NO_NODE:
        return ()
    able = partition.isr or partition.elr
    return _candidates(partition.replicas, able, partition.last_known_elr, rules)


def _candidates(replicas: Nodes, able: Nodes, known: Nodes, rules: Rules) -> Nodes:
    if rules.election is Election.UNCLEAN:
        return tuple(filter(rules.live, replicas))
    return known if not able and all(map(rules.live, known)) else ()


def _longest(among: Nodes, rules: Rules) -> NodeId:
    """The replica of `among` with the longest log, the first of equals; a single one needs no log.

    NO_NODE if a log is unknown, unless the election may ignore unknown logs.
    """
    if len(among) == 1:
        return among[0]
    heard = tuple(node for node in among if node in rules.logs)
    if rules.election is Election.UNCLEAN:
        return max(heard, key=rules.logs.__getitem__, default=NO_NODE)
    return _longest_of_known(among, rules.logs) if heard == among else NO_NODE


def _longest_of_known(known: Nodes, logs: Logs) -> NodeId:
    """The last known ELR's longest log, the first of equals.

    A log without records at an offset above 0 does not always know the epoch of its last record.
    But everything below that offset was committed, or it would not have been removed. So a log that
    ends earlier lacks committed records, and one that ends there has no more of them.
    """
    committed = max((logs[n].end_offset for n in known if logs[n].last_epoch < 0), default=0)

    def rank(node: NodeId) -> tuple[bool, bool, LogEnd]:
        end = logs[node]
        return end.end_offset > committed, end.end_offset == committed and end.last_epoch < 0, end

    return max(known, key=rank, default=NO_NODE)


def _elect(
    before: NodeId, replicas: Nodes, isr: Nodes, elr: Nodes, known: Nodes, rules: Rules
) -> _Elected:
    able = isr or elr
    order = (before, *replicas)
    if rules.election is Election.PREFERRED:
        order = (replicas[0], *order)
    leader = next((n for n in order if n in able and n in replicas and rules.live(n)), NO_NODE)
    if leader in isr:
        return _Elected(leader, isr if before != NO_NODE else _live(isr, rules), elr)
    if leader != NO_NODE:
        others = tuple(node for node in elr if node != leader)
        return _Elected(leader, (leader,), () if rules.enough((leader,), replicas) else others)
    leader = _longest(_candidates(replicas, able, known, rules), rules)
    if leader != NO_NODE:
        return _Elected(leader, (leader,), (), unclean=True)
    return _Elected(NO_NODE, isr, elr)


def _live(isr: Nodes, rules: Rules) -> Nodes:
    """The live members; dead ones may remain in the ISR of a leaderless partition (KIP-841)."""
    return tuple(node for node in isr if rules.live(node))


def _directories(
    partition: PartitionImage, replicas: Nodes, new: Directories
) -> tuple[UUID | None, ...] | None:
    """The directories in the order of the replicas. None stands for one that is not known."""
    if replicas == partition.replicas and not new:
        return None
    known = {**dict(zip(partition.replicas, partition.directories, strict=False)), **new}
    return _unless_same(tuple(known.get(node) for node in replicas), partition.directories)


def _unless_same(value: tuple[T, ...], old: tuple[T, ...]) -> tuple[T, ...] | None:
    return None if value == old else value

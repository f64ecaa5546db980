"""How one partition changes: ISR, eligible leaders, leader and assignment, all in one record. Pure.

Every change of a partition goes through `change`, which brings it to what a caller aims at and to
everything that follows from that. The rules are KRaft's (its PartitionChangeBuilder) with eligible
leader replicas (KIP-966):

- A member that leaves the ISR while fewer than min.insync.replicas remain is kept as an eligible
  leader (ELR): the high watermark stands still below the minimum, so it has every committed record.
  The ISR may be empty then. The ELR is empty whenever the ISR has its minimum. A replica that
  restarted uncleanly is neither in sync nor eligible any more: its disk may have lost what it
  acknowledged.
- The leader stays if it is in the ISR and live; else the first live ISR member in assignment order
  leads; else, with an empty ISR, the first live eligible one, which is then the ISR.
- Who restarted uncleanly while the ISR was below its minimum is remembered as last known ELR until
  the ISR has its minimum again: a partition never forgets who may have its committed records.
- Once nobody is in sync or eligible, and all of the last known ELR are live, the replica with the
  longest log of them leads: with the last record of the highest leader epoch, and of those the
  highest log end offset. As long as one of them has every committed record, the longest has (the
  argument is Raft's, for logs are cut by epoch). Where the topic allows an unclean election, the
  longest log of all the live replicas is as good at once. Either way the leader is alone in the ISR
  and RECOVERING. How logs are asked for is `nodes.controller.recovery`.
- A reassignment (KIP-455) is complete once all replicas that are to stay are in the ISR; the others
  go with the same record.

Where the feature eligible.leader.replicas.version is 0, nobody is eligible, and the last member
stays in the ISR whatever becomes of it: it alone may lead again, with what its disk has kept.

The leader epoch rises with a new leader, and when replicas go (they must notice); an ISR change
alone raises only the partition epoch (KAFKA-15021).

This is KIP-966's strategy Balanced, and Aggressive with unclean.leader.election.enable. Kafka 4.x
has only the KIP's first part: it remembers the last leader alone, and elects it, whatever it has
lost. As in the KIP, a partition of which a last known member never comes back waits for an unclean
election to be asked for. Whoever lost its disk comes back with an empty log, and wins nothing.

Stricter than KRaft's builder: only replicas of the partition are eligible, and an election from the
ELR that brings the ISR to its minimum ends the ELR.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """As CLEAN, but the preferred replica comes before the present leader."""
    CLEAN = enum.auto()
    UNCLEAN = enum.auto()
    """As CLEAN, but any live replica is better than none."""


class LogEnd(NamedTuple):
    """Where a replica's log ends; the longer of two logs is the greater."""

    last_epoch: Epoch
    """The leader epoch of the last record; -1 of an empty log."""
    end_offset: Offset


Logs = Mapping[NodeId, LogEnd]
NO_LOGS: Final[Logs] = {}


class Rules(NamedTuple):
    """What holds around a partition when it is changed."""

    live: IsLive
    """Who may lead: registered, unfenced, not shutting down."""
    min_isr: int
    """The topic's min.insync.replicas; a smaller number of replicas lowers it."""
    election: Election = Election.CLEAN
    eligible_leaders: bool = True
    """Whether the cluster has eligible leader replicas."""
    logs: Logs = NO_LOGS
    """The logs of leaderless replicas, as far as they are known."""

    def enough(self, isr: Nodes, replicas: Nodes) -> bool:
        """Whether an ISR has the minimum."""
        return len(isr) >= min(self.min_isr, len(replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What a change aims at; None leaves it as it is."""

    isr: Nodes | None = None
    replicas: Nodes | None = None
    adding: Nodes | None = None
    removing: Nodes | None = None
    leader_recovery_state: int = RECOVERY_STATE_UNCHANGED
    lost: Nodes = ()
    """Replicas that may lack committed records: neither in sync nor eligible."""


UNCHANGED: Final = DesiredState()


class _Elected(NamedTuple):
    leader: NodeId
    isr: Nodes
    elr: Nodes
    unclean: bool = False


def change(
    key: PartitionKey, partition: PartitionImage, rules: Rules, target: DesiredState = UNCHANGED
) -> PartitionChangeRecord | None:
    """The record that brings `partition` to `target` and to what follows; None if nothing does."""
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
        directories=_directories(partition, replicas),
    )
    return None if _is_nothing(record) else record


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
    """Of a leaderless partition the replicas whose logs say who leads; none: nobody can yet."""
    if partition.leader != NO_NODE:
        return ()
    able = partition.isr or partition.elr
    return _candidates(partition.replicas, able, partition.last_known_elr, rules)


def _candidates(replicas: Nodes, able: Nodes, known: Nodes, rules: Rules) -> Nodes:
    if rules.election is Election.UNCLEAN:
        return tuple(filter(rules.live, replicas))
    return known if not able and all(map(rules.live, known)) else ()


def _longest(among: Nodes, rules: Rules) -> NodeId:
    """Who of `among` has the longest log, the first of equals; no comparison is needed of one.

    NO_NODE while somebody's log is unknown, unless some are better than none.
    """
    if len(among) == 1:
        return among[0]
    heard = tuple(node for node in among if node in rules.logs)
    if not heard or (heard != among and rules.election is not Election.UNCLEAN):
        return NO_NODE
    return max(heard, key=rules.logs.__getitem__)


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
    """The members that are there: nobody took the others out while nobody led (KIP-841)."""
    return tuple(node for node in isr if rules.live(node))


def _directories(partition: PartitionImage, replicas: Nodes) -> tuple[UUID | None, ...] | None:
    """The directories in the order of the replicas; a new replica has none assigned."""
    if replicas == partition.replicas:
        return None
    known = dict(zip(partition.replicas, partition.directories, strict=False))
    return _unless_same(tuple(known.get(node) for node in replicas), partition.directories)


def _unless_same(value: tuple[T, ...], old: tuple[T, ...]) -> tuple[T, ...] | None:
    return None if value == old else value

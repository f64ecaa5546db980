"""What the contract can ask about a case, and the conditions of its rows.

A `Context` is the case: the settings of the topic, the recorded cause, and what else is known.
A `Condition` is one question to it, with the words that a report shows. A condition that several
rows ask has its name here, so that its predicate and its words exist once.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.retention import Removal
from checkers.causes.state_loss import AllCopiesLost
from checkers.history.recorded_faults import LostState
from checkers.history.settings import Settings

ACKNOWLEDGED: Final = "acknowledged"
"""The aspect of an anomaly in which an acknowledgement contradicts another one, or the log."""
IN_TRANSACTION: Final = "transaction"
"""The aspect of an anomaly of a send in a transaction, or of two such sends."""
OPEN: Final = "open"
"""The aspect of an anomaly of a record that was read before anybody asked to commit or abort it."""
BEHIND_OPEN: Final = "behind-open"
"""The aspect of an anomaly of a record behind which another one was read, before anybody asked to
commit or abort it."""
LATE_COMMIT: Final = "commit"
"""The aspect of an anomaly of a transaction whose producer was fenced before it asked to commit it;
the commit was acknowledged."""
UNANSWERED_COMMIT: Final = "commit-unanswered"
"""The same of a commit that was not answered."""
DELIVERED_AGAIN: Final = "delivered-again"
"""The aspect of an anomaly of a record that a group got more than once."""
MEMBER_CUT: Final = "member-cut"
"""The aspect of an anomaly before which the record of a member of the group ends."""
MEMBER_ENDED: Final = "member-ended"
"""The aspect of an anomaly after the end of a member that owned the partition."""
REBALANCED: Final = "rebalanced"
"""The aspect of an anomaly after a member had to give up the partition."""
BELOW_COMMIT: Final = "below-commit"
"""The aspect of a second delivery below an acknowledged commit."""
COMMIT_LOST: Final = "commit-lost"
"""The aspect of a second delivery that follows from a lost commit."""
INPUT_CUT: Final = "input-cut"
"""The aspect of a second delivery to a member whose place in the log was no longer there."""
WENT_BACK: Final = "generation-went-back"
"""The aspect of a commit by a member that got its partition, in a lower generation, after another
member had had it in a higher one."""
SENT_AGAIN: Final = "sent-again"
"""The aspect of a position that went back to a commit which its client may have sent twice."""
REFUSED_COMMIT: Final = "refused"
"""The aspect of a committed offset of which every commit was refused."""
BOTH_COMMITTED: Final = "both-committed"
"""The aspect of two owners of a partition of which both committed."""
BEREFT: Final = "bereft"
"""The aspect of an anomaly in a partition that had lost committed records with permission."""
FINAL: Final = "final"
"""The aspect of an anomaly that only the end of the log shows."""
NEWEST: Final = "newest"
"""The aspect of an end offset that the last leader told that a partition ever had."""
OVERTAKEN: Final = "overtaken"
"""The aspect of a batch before which a later one of its producer was accepted, by a leader that may
not have known the producer."""
ANSWERED_AT_ONCE: Final = "answered-at-once"
"""The aspect of an anomaly that needs a repeated request, of a send that was acknowledged before
its client repeats requests."""
OUTLASTED: Final = "outlasted"
"""The aspect of a duplicate of a send that lasted for as long as brokers remember a producer."""
AT_READ_UNCOMMITTED: Final = "read-uncommitted"
"""The aspect of an aborted read for which the reader had asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Settings):
    """One case for the contract: the topic's settings, and the following.

    aspect: of the anomaly. cause: the recorded cause, if any. cause_recorded: the record would show
    a cause if there was one. (Leaders are recorded. For an anomaly that is explained by its offset,
    the final leader epochs are recorded too, and nothing contradicts them.) state_lost: a fault of
    the run made a node lose state for good. state_loss_uncertain: such a fault began, and its
    result is not recorded. quorum_lost: a majority of the voters lacked their disks at once, before
    the anomaly was over, or at any time if it is not known when that was. zookeeper_lost: ZooKeeper
    lost transactions, or discarded some that it may have acknowledged.
    settled: all replicas were in sync again. removal: why the records below the start of the final
    log are gone, for an anomaly that is about one of them. requests_delayed: a fault may have made
    a request late that changed the outcome of this very transaction. needed_lost: the cluster lost
    acknowledged records, as it may, of a topic that the tested program depends on.
    """

    aspect: str | None = None
    cause: Cause | None = None
    cause_recorded: bool = True
    state_lost: bool = False
    state_loss_uncertain: bool = False
    quorum_lost: bool = False
    zookeeper_lost: bool = False
    settled: bool = True
    removal: Removal | None = None
    requests_delayed: bool = False
    needed_lost: bool = False

    @property
    def may_lose_committed(self) -> bool:
        """Some event that is possible in this run permits the loss of committed records."""
        return self.unclean_election or self.min_insync_replicas <= 1 or self.state_lost

    @property
    def leader_replaced(self) -> bool:
        """Another replica became leader, in time to explain the loss. No leader change removes the
        beginning of a log that retention had to leave."""
        cause = self.cause
        if cause is None or cause.kind is not CauseKind.ELECTION:
            return False
        if self.removal is Removal.NEVER_DUE:
            return False
        return cause.leader is None or cause.leader != cause.deposed

    @property
    def unclean_election_happened(self) -> bool:
        """The new leader was not in sync, and the settings allow such a leader."""
        return self.cause is not None and self.cause.left_isr and self.unclean_election

    @property
    def only_in_sync_replica_lost(self) -> bool:
        """The old leader was the only in-sync replica, and another replica was elected."""
        return self.cause is not None and self.cause.sole_isr

    @property
    def leader_lost_state(self) -> bool:
        """The leader that appended the write lost its state and then led again."""
        if self.cause is None or self.cause.lost is None:
            return False
        return self.cause.deposed in self.cause.lost.gone(self)

    @property
    def leader_lost_disk(self) -> bool:
        """The leader that appended the write lost its disk: no flush would have kept the write."""
        if self.cause is None or self.cause.lost is None:
            return False
        losses = self.cause.lost.losses
        return any(e.node == self.cause.deposed and e.lost is LostState.DISK for e in losses)

    @property
    def explained_by_quorum_loss(self) -> bool:
        """The metadata quorum lost its data, in time to explain the loss."""
        return self.cause is not None and self.cause.kind is CauseKind.QUORUM_LOSS

    @property
    def all_copies_lost(self) -> AllCopiesLost | None:
        """Why the replicas that lost state may have held all copies of the write."""
        if self.cause is None or self.cause.lost is None:
            return None
        return self.cause.lost.all_copies_lost(self)


def in_force(settings: Settings) -> Context:
    """Return a context with these settings; the caller fills in the rest."""
    return Context(**{each.name: getattr(settings, each.name) for each in fields(Settings)})


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a row. text: the condition in words. holds: the predicate."""

    text: str
    holds: Callable[[Context], bool]

    def __and__(self, other: "Condition") -> "Condition":
        """Both conditions."""
        return Condition(f"{self.text}, {other.text}", lambda c: self.holds(c) and other.holds(c))


def otherwise(text: str) -> Condition:
    """A condition that always holds: the rows above leave only the case that `text` describes."""
    return Condition(text, lambda _: True)


ANY: Final = otherwise("any")

ACKS_0: Final = Condition("acks=0", lambda c: c.acks == 0)
ACKS_1: Final = Condition("acks=1", lambda c: c.acks == 1)
ACKS_ALL: Final = Condition("acks=all", lambda c: c.acks == -1)
MIN_ISR_1: Final = Condition("min.insync.replicas=1", lambda c: c.min_insync_replicas <= 1)
IDEMPOTENCE: Final = Condition(
    "enable.idempotence=true, or a send in a transaction",
    lambda c: c.idempotence or c.aspect == IN_TRANSACTION,
)
"""Clients refuse a transactional.id without idempotence (KIP-98), whatever the plan says."""
TAKEN_AS_UNKNOWN: Final = Condition(
    "more than one request in flight; a later batch was accepted first, and the leader may not "
    "have known the producer: no earlier record of it was in the log, or none that was younger "
    "than producer.id.expiration.ms",
    lambda c: c.aspect == OVERTAKEN and c.max_in_flight > 1,
)

LEADER_REPLACED: Final = Condition("the leader was replaced", lambda c: c.leader_replaced)
UNCLEAN_ELECTION: Final = Condition(
    "unclean elections enabled, and one took place", lambda c: c.unclean_election_happened
)
ONLY_IN_SYNC_REPLICA_LOST: Final = Condition(
    "the leader was the only in-sync replica, and another replica was elected",
    lambda c: c.only_in_sync_replica_lost,
)
LEADER_LOST_DISK: Final = Condition("the leader lost its disk", lambda c: c.leader_lost_disk)
LEADER_LOST_POWER: Final = Condition(
    "the leader lost power, and had not flushed the write before it acknowledged it",
    lambda c: c.leader_lost_state,
)
ENOUGH_LOST_POWER: Final = Condition(
    "min.insync.replicas=m with m of 2 or more, no flush before the acknowledgement, and m or more "
    "in-sync or eligible replicas lost power at the same time, and the next leader is not known to "
    "be another one of them",
    lambda c: c.all_copies_lost is AllCopiesLost.POWER,
)
LAST_LOST_POWER: Final = Condition(
    "no flush before the acknowledgement, and all in-sync replicas lost power at the same time, or "
    "the last one did after the others had left",
    lambda c: c.all_copies_lost is AllCopiesLost.LAST_STANDING,
)
ALL_LOST_DISKS: Final = Condition(
    "every in-sync or eligible replica lost its disk, or lost power without a flush before the "
    "acknowledgement",
    lambda c: c.all_copies_lost is AllCopiesLost.DISKS,
)
_QUORUM_LOST: Final = "a majority of the controllers lost their disks at the same time"
QUORUM_LOST: Final = Condition(_QUORUM_LOST, lambda c: c.quorum_lost)
QUORUM_LOST_SINCE: Final = Condition(_QUORUM_LOST, lambda c: c.explained_by_quorum_loss)
"""The same, and it explains this very anomaly."""

ZOOKEEPER_LOST: Final = Condition(
    "ZooKeeper lost transactions, or discarded some that it may have acknowledged",
    lambda c: c.zookeeper_lost,
)

REMOVED_BY_RETENTION: Final = Condition(
    "below the start of the log, and old enough for retention.ms or beyond retention.bytes",
    lambda c: c.removal is not None and c.removal.allowed,
)
REMOVAL_NOT_RECORDED: Final = Condition(
    "below the start of the log, with retention.ms or retention.bytes, and the record does not "
    "show whether they were kept",
    lambda c: c.removal is Removal.NOT_RECORDED,
)

NO_CAUSE_RECORDABLE: Final = Condition(
    "leader epochs not recorded, or contradicted", lambda c: not c.cause_recorded
)
RISKY_SETTINGS_OR_FAULTS: Final = Condition(
    "unclean elections enabled, min.insync.replicas=1, or a node lost power or its disk",
    lambda c: c.may_lose_committed,
)
STATE_LOSS_UNCERTAIN: Final = Condition(
    "a fault that removes power or damages disks began, and its result is not recorded",
    lambda c: c.state_loss_uncertain,
)
NOT_SETTLED: Final = Condition("the replicas did not settle", lambda c: not c.settled)

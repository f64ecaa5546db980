"""What permits an anomaly, and what would have prevented it.

A row of the contract that permits an anomaly names the settings that permit it, and the changes of
settings that prevent it; each change is enough alone. Both are fields of `Settings`, so tests check
every claim against the contract itself. People see them as Kafka's properties. Words replace the
settings where no setting permits the anomaly (a lost disk), or where no setting prevents it.

Sources: the Kafka documentation of the properties; KIP-966 (eligible leader replicas;
min.insync.replicas above the number of losses to survive); KIP-101 (what acks=1 loses at a leader
change).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkers.history import settings as processing

Values = Mapping[str, int | bool | str]
"""Fields of Settings with their values."""

_PROPERTIES: Final[Mapping[str, str]] = {
    "acks": "acks",
    "idempotence": "enable.idempotence",
    "min_insync_replicas": "min.insync.replicas",
    "unclean_election": "unclean.leader.election.enable",
    "flush_before_ack": "flush.messages",
    "eligible_leader_replicas": "eligible.leader.replicas.version",
    "max_in_flight": "max.in.flight.requests.per.connection",
    "transaction_version": "transaction.version",
    "processing": "processing",
    "group_metadata": "group metadata",
}
_ACKS: Final[Mapping[int, str]] = {
    0: "acks=0 (which asks for no acknowledgement)",
    1: "acks=1 (which waits for no follower)",
    -1: "acks=all",
}
_NO_FLUSH: Final = "no flush before the acknowledgement (flush.messages)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change that prevents an anomaly: of settings, or in words where no setting does."""

    values: Values
    words: str = ""

    @property
    def text(self) -> str:
        """Such as `acks=all with min.insync.replicas=2`."""
        return " ".join(filter(None, (as_properties(self.values), self.words)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What permits an anomaly, and its remedies; each remedy is enough alone.

    values: the settings that permit it. words: the event that permits it, if no setting does.
    """

    values: Values
    words: str = ""
    remedies: tuple[Remedy, ...]

    @property
    def permitted_by(self) -> str:
        """Such as `unclean.leader.election.enable=true`."""
        return as_properties(self.values) or self.words

    @property
    def prevented_by(self) -> tuple[str, ...]:
        """Each remedy in words."""
        return tuple(remedy.text for remedy in self.remedies)

    def as_json(self) -> dict[str, Any]:
        """The fields that verdict.json has in a row, and in an anomaly that a row permits."""
        return {"permitted_by": self.permitted_by, "prevented_by": list(self.prevented_by)}


def as_properties(values: Values) -> str:
    """The values as Kafka's properties: `acks=all with min.insync.replicas=2`."""
    return " with ".join(_as_property(name, value) for name, value in values.items())


def _as_property(name: str, value: int | bool | str) -> str:
    match name, value:
        case "acks", 0 | 1 | -1:
            return _ACKS[int(value)]
        case "flush_before_ack", False:
            return _NO_FLUSH
        case (("flush_before_ack" | "eligible_leader_replicas"), _):
            return f"{_PROPERTIES[name]}={int(value)}"
        case _, bool():
            return f"{_PROPERTIES[name]}={str(value).lower()}"
        case _:
            return f"{_PROPERTIES[name]}={value}"


def by_settings(values: Values, *remedies: Remedy) -> Permission:
    """A permission that these settings give together."""
    return Permission(values=values, remedies=remedies)


def by_event(words: str, *remedies: Remedy) -> Permission:
    """A permission that an event gives, whatever the settings are."""
    return Permission(values={}, words=words, remedies=remedies)


def settings(words: str = "", **values: int | bool | str) -> Remedy:
    """A remedy that changes settings; words: an addition."""
    return Remedy(values=values, words=words)


def advice(words: str) -> Remedy:
    """A remedy that no setting provides."""
    return Remedy(values={}, words=words)


ACKS_ALL: Final = settings("(and replication factor 3)", acks=-1, min_insync_replicas=2)
IN_SYNC_2: Final = settings("(and replication factor 3)", min_insync_replicas=2)
CLEAN_ELECTIONS: Final = settings(unclean_election=False)
FLUSH: Final = settings(flush_before_ack=True)
ELIGIBLE_LEADERS: Final = settings(eligible_leader_replicas=True)
ELIGIBLE_IN_SYNC_2: Final = settings(
    "(and replication factor 3)", min_insync_replicas=2, eligible_leader_replicas=True
)
IDEMPOTENCE: Final = settings("(which needs acks=all)", idempotence=True)
MORE_REPLICAS: Final = advice(
    "more in-sync replicas (min.insync.replicas) than can lose power at the same time"
)

ACKS_0: Final = by_settings({"acks": 0}, ACKS_ALL)
ACKS_1: Final = by_settings({"acks": 1}, ACKS_ALL)
ACKS_1_UNFLUSHED: Final = by_settings({"acks": 1, "flush_before_ack": False}, ACKS_ALL, FLUSH)
UNCLEAN: Final = by_settings({"unclean_election": True}, CLEAN_ELECTIONS)
ONE_IN_SYNC: Final = by_settings({"min_insync_replicas": 1}, IN_SYNC_2)
UNFLUSHED: Final = by_settings({"flush_before_ack": False}, FLUSH, MORE_REPLICAS)
ONE_UNFLUSHED: Final = by_settings(
    {"min_insync_replicas": 1, "flush_before_ack": False}, ELIGIBLE_IN_SYNC_2, FLUSH
)
LAST_UNFLUSHED: Final = by_settings(
    {"eligible_leader_replicas": False, "flush_before_ack": False}, ELIGIBLE_LEADERS, FLUSH
)
DISKS_LOST: Final = by_event(
    "the loss of every in-sync replica's disk (no setting)",
    advice("more in-sync replicas (min.insync.replicas) than disks can be lost at the same time"),
)
QUORUM_LOST: Final = by_event(
    "the loss of the disks of a majority of the controllers (no setting)",
    advice("more controllers, on disks that are not lost at the same time"),
)
NOT_IDEMPOTENT: Final = by_settings({"idempotence": False}, IDEMPOTENCE)
SEVERAL_IN_FLIGHT: Final = by_settings(
    {"idempotence": False}, IDEMPOTENCE, settings(max_in_flight=1)
)
EPOCH_LEFT: Final = by_event(
    "the client's change of its producer epoch (no setting)",
    advice("a client that stops instead, or transactions around the sends (transactional.id)"),
)
BIT_FLIPPED: Final = by_event(
    "a damaged disk (no setting)", advice("a disk or a file system that detects damage")
)
RETENTION: Final = by_event(
    "the topic's retention (retention.ms, retention.bytes)",
    advice("a longer retention.ms and a greater retention.bytes"),
)
UNKNOWN_PRODUCER: Final = by_event(
    "a producer without an earlier record in the log (it is new, or retention or DeleteRecords "
    "removed what it wrote), or idle for producer.id.expiration.ms, with several requests in "
    "flight",
    settings(max_in_flight=1),
    advice("a longer retention, and a longer producer.id.expiration.ms"),
)
EXPIRED_PRODUCER: Final = by_event(
    "the expiry of a producer (producer.id.expiration.ms) while it sends a batch again",
    advice("a producer.id.expiration.ms that is longer than delivery.timeout.ms"),
)
RECORDS_LOST: Final = by_event(
    "whatever permits the loss of the partition's records",
    advice("whatever prevents the loss of the partition's records"),
)
READ_UNCOMMITTED: Final = by_event(
    "isolation.level=read_uncommitted of the reader", advice("isolation.level=read_committed")
)
OLD_TRANSACTIONS: Final = by_event(
    "transaction.version below 2, of the cluster or of the client, and a delayed request",
    settings(transaction_version=2),
    advice("a client that knows transaction.version=2"),
)
SENT_TWICE: Final = by_event(
    "a client that sends a commit again when its answer is late, and a delayed request",
    advice("consumers that tell repeated records by a key of their own"),
)
AT_MOST_ONCE: Final = by_settings(
    {"processing": processing.AT_MOST_ONCE},
    settings(processing=processing.AT_LEAST_ONCE),
    settings(processing=processing.EXACTLY_ONCE),
)
AT_LEAST_ONCE: Final = by_settings(
    {"processing": processing.AT_LEAST_ONCE},
    settings(processing=processing.EXACTLY_ONCE, group_metadata=True),
)
NO_GROUP_METADATA: Final = by_settings(
    {"processing": processing.EXACTLY_ONCE, "group_metadata": False},
    settings("(sendOffsetsToTransaction with the group metadata)", group_metadata=True),
)

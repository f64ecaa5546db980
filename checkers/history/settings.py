"""The settings that the contract depends on, per topic, and how they changed during a run.

Values are Kafka's properties: the topic's, else the broker's, else the default. Two faults change
settings: `config`, with `topic`, `name` and `value` in the details of its targets, and `elect` with
the `kind` unclean. A time span is judged by the weakest settings that were in force in it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MIN_ISR = "min.insync.replicas"
TRANSACTIONS_MIN_ISR = "transaction.state.log.min.isr"
UNCLEAN = "unclean.leader.election.enable"
FLUSH = "flush.messages"
FLUSH_OF_BROKER = "log.flush.interval.messages"
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"

OFFSETS_TOPIC = "__consumer_offsets"
"""The internal topic in which coordinators keep groups and their committed offsets."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""The internal topic in which coordinators keep the states of transactions."""

ANY_TOPIC = ("every", "any", "")
"""The values of `topic` that mean any topic."""

UNLIMITED = -1
"""The value of a retention setting that removes nothing."""
RETENTION_MS = (
    ("retention.ms", 1),
    ("log.retention.ms", 1),
    ("log.retention.minutes", 60_000),
    ("log.retention.hours", 3_600_000),
)
"""The properties with the greatest age of records, in order of priority, and their units in ms."""
AT_MOST_ONCE = "at-most-once"
"""A group commits an offset before it processes the record."""
AT_LEAST_ONCE = "at-least-once"
"""A group commits an offset after it processed the record."""
EXACTLY_ONCE = "exactly-once"
"""A group commits offsets in the transactions that write the results."""
PROCESSING = (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)
"""What a workload promises of the records that its groups read."""
_GROUP_TOPIC = ("topic", "input", "output")
"""The keys of a workload with a group that name a topic."""
READS = {"group": "topics", "copy": "inputs"}
"""The key with the topics that a workload with a group reads, if there are several, by its kind."""
DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
PRODUCER_EXPIRATION = "producer.id.expiration.ms"
DEFAULT_PRODUCER_EXPIRATION_MS = 86_400_000
TRANSACTION_VERSION = "transaction.version"
"""The finalized feature: from 2 on, each transaction has its own producer epoch (KIP-890)."""
EPOCH_FOR_EACH_TRANSACTION = ("own", "java")
"""The clients that speak version 2. librdkafka does not yet (its issue 5423), nor does aiokafka. A
client program may be written with either."""
PAUSING_CLIENTS = ("librdkafka", "own", "kafka-python", "aiokafka")
"""The clients that wait at least RETRY_PAUSE_NS before they repeat a request, unless they are told
of a new leader. A client program may have other settings."""
RETRY_PAUSE_NS = 35_000_000
"""The harness sets retry.backoff.ms of these clients to 50 or more, and some wait a fifth less."""

DELETE = "delete"
"""The default cleanup.policy."""
COMPACT = "compact"
RETENTION_BYTES = ("retention.bytes", "log.retention.bytes")
DEFAULT_RETENTION_MS = 7 * 86_400_000
DELETE_RETENTION = ("delete.retention.ms", "log.cleaner.delete.retention.ms")
DEFAULT_DELETE_RETENTION_MS = 86_400_000

FOREVER_NS = 1 << 62
"""A time later than any time of a run; slack can be added to it."""

_OF_BROKERS = (MIN_ISR, FLUSH, FLUSH_OF_BROKER)
"""The settings that each broker follows by itself, as it learns of them."""
_LEARNS_NS = 2_000_000_000
"""How long after the end of a change a broker may go on with what it knew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a topic.

    acks: 0, 1, -1 (all), None without a topic. flush_before_ack: every replica fsyncs a record
    before it acknowledges the record (flush.messages=1). eligible_leader_replicas: KIP-966 is on.
    retention_ms, retention_bytes: what retention leaves of a log; UNLIMITED for all of it.
    delete_retention_ms: how long the tombstones of a compacted topic stay.
    transaction_version: the lower of the cluster's and the clients' level. retries_pause: all
    producers are PAUSING_CLIENTS. processing: one of
    PROCESSING; None: the workload promises nothing. group_metadata: offsets are sent to
    transactions with the member and its generation. ordered: a tested program claims the order of
    each key.
    """

    acks: int | None
    idempotence: bool = False
    min_insync_replicas: int = 1
    unclean_election: bool = False
    flush_before_ack: bool = False
    eligible_leader_replicas: bool = True
    max_in_flight: int = 5
    retention_ms: int = DEFAULT_RETENTION_MS
    retention_bytes: int = UNLIMITED
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS
    transaction_version: int = 2
    retries_pause: bool = False
    processing: str | None = None
    group_metadata: bool = True
    ordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a setting for some time. topic: None for any topic."""

    topic: str | None
    name: str
    value: str
    from_ns: int
    until_ns: int


def _least_in_sync(plan: Mapping[str, Any], topic: str | None, configs: Mapping[str, Any]) -> int:
    """Return min.insync.replicas of a topic by the properties that apply to it."""
    if topic == TRANSACTIONS_TOPIC:
        # The harness creates the topic so: Kafka's default, or less for fewer brokers.
        return int(configs.get(TRANSACTIONS_MIN_ISR) or min(2, int(plan.get("nodes") or 3)))
    return int(configs.get(MIN_ISR) or 1)


def topic_settings(plan: Mapping[str, Any], topic: str | None) -> Settings:
    """Return the settings that a plan gives a topic. A topic that it does not name has no acks."""
    topics: list[Mapping[str, Any]] = [*(plan.get("topics") or ())]
    planned: Mapping[str, Any] = next((t for t in topics if t.get("name") == topic), {})
    broker: Mapping[str, Any] = plan.get("broker") or {}
    configs = {**broker, **(planned.get("configs") or {})}
    workload = plan.get("workload") or {}
    # The default: the built-in broker has eligible leader replicas, another system may not.
    eligible = "1" if plan.get("system", "nodes") == "nodes" else "0"
    retention_ms, retention_bytes = _retention(configs)
    return Settings(
        acks=acks_number(planned.get("acks")),
        idempotence=bool(planned.get("idempotence", False)),
        min_insync_replicas=int(
            planned.get("min_insync_replicas") or _least_in_sync(plan, topic, configs)
        ),
        # Brokers create this topic with clean elections.
        unclean_election=topic != TRANSACTIONS_TOPIC and _is_true(configs.get(UNCLEAN, "false")),
        flush_before_ack=str(configs.get(FLUSH, configs.get(FLUSH_OF_BROKER, ""))) == "1",
        eligible_leader_replicas=str(broker.get(ELIGIBLE_LEADERS, eligible)) != "0",
        max_in_flight=int(workload.get("max_in_flight") or 5),
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        delete_retention_ms=next(
            (int(configs[name]) for name in DELETE_RETENTION if name in configs),
            DEFAULT_DELETE_RETENTION_MS,
        ),
        transaction_version=_transaction_version(plan, topic, broker),
        retries_pause=_retries_pause(plan),
        processing=_processing(plan, topic),
        group_metadata=all(each.get("group_metadata", True) for each in _groups(plan, topic)),
    )


def _groups(plan: Mapping[str, Any], topic: str | None) -> list[Mapping[str, Any]]:
    """Return the workloads that say how a group processes the records of a topic, or what it writes
    to it. A plan with one workload means all topics."""
    further: list[Mapping[str, Any]] = [*(plan.get("more_workloads") or ())]
    named = [each for each in further if topic in _topics_of_group(each)]
    return [plan.get("workload") or {}, *named]


def _topics_of_group(workload: Mapping[str, Any]) -> list[str | None]:
    """Return the topics that a workload with a group names; None for a key that it does not use."""
    several = workload.get(READS.get(workload.get("kind", ""), "")) or ()
    return [*(workload.get(name) for name in _GROUP_TOPIC), *several]


def _transaction_version(
    plan: Mapping[str, Any], topic: str | None, broker: Mapping[str, Any]
) -> int:
    """Return the level at which transactions are written to a topic; to any, for the topic of
    their states."""
    further: list[Mapping[str, Any]] = [*(plan.get("more_workloads") or ())]
    copied = {each.get("output") for each in further}
    old = any(
        topic == TRANSACTIONS_TOPIC or _writes_to(each, topic, topic in copied)
        for each in further
        if _is_transactional(each) and each.get("client", "own") not in EPOCH_FOR_EACH_TRANSACTION
    )
    level = int(broker.get(TRANSACTION_VERSION, 2))
    return min(level, 1) if old else level


def _retries_pause(plan: Mapping[str, Any]) -> bool:
    """Whether all workloads use PAUSING_CLIENTS."""
    workloads = [plan.get("workload") or {}, *(plan.get("more_workloads") or ())]
    return all(each.get("client") in PAUSING_CLIENTS for each in workloads)


def _is_transactional(workload: Mapping[str, Any]) -> bool:
    kind = workload.get("kind")
    return kind == "transactions" or (kind, workload.get("processing")) == ("copy", EXACTLY_ONCE)


def _writes_to(workload: Mapping[str, Any], topic: str | None, copied: bool) -> bool:
    """Whether a transactional workload writes to a topic. copied: the topic gets copies; a workload
    that names no topics means all others."""
    if workload["kind"] == "copy":
        return workload.get("output") == topic
    named = workload.get("topics")
    return topic in named if named else not copied


def _processing(plan: Mapping[str, Any], topic: str | None) -> str | None:
    """Return the least promise of the workloads of a topic; None without any."""
    found = {each["processing"] for each in _groups(plan, topic) if each.get("processing")}
    return min(found, key=PROCESSING.index, default=None)


def of_group(settings: Settings, plan: Mapping[str, Any], group: str | None) -> Settings:
    """Return the settings with the promise of a group, if a further workload of the plan makes
    one."""
    workloads: list[Mapping[str, Any]] = [*(plan.get("more_workloads") or ())]
    for each in workloads:
        if group is not None and each.get("group") == group:
            return replace(
                settings,
                processing=each.get("processing"),
                group_metadata=bool(each.get("group_metadata", True)),
                ordered=each.get("ordered_by") is not None,
            )
    return settings


def repeating_groups(plan: Mapping[str, Any]) -> frozenset[str]:
    """Return the groups whose clients send a commit again, on a new connection, when its answer is
    late."""
    workloads: list[Mapping[str, Any]] = [*(plan.get("more_workloads") or ())]
    return frozenset(
        each["group"]
        for each in workloads
        if each.get("group") is not None and each.get("client", "own") != "own"
    )


def producer_expiration_ms(plan: Mapping[str, Any]) -> int:
    """Return how long brokers remember a producer that is idle, in ms."""
    broker: Mapping[str, Any] = plan.get("broker") or {}
    return int(broker.get(PRODUCER_EXPIRATION, DEFAULT_PRODUCER_EXPIRATION_MS))


def transaction_timeout_ms(plan: Mapping[str, Any]) -> int:
    """Return after how long a coordinator aborts a transaction of the plan's clients."""
    workloads = [plan.get("workload") or {}, *(plan.get("more_workloads") or ())]
    planned = [int(each["transaction_timeout_ms"]) for each in workloads
               if "transaction_timeout_ms" in each]  # fmt: skip
    return max(planned, default=DEFAULT_TRANSACTION_TIMEOUT_MS)


def _policy(configs: Mapping[str, Any]) -> str:
    return str(configs.get("cleanup.policy", configs.get("log.cleanup.policy", DELETE)))


def compacted_topics(plan: Mapping[str, Any]) -> list[str]:
    """Return the names of the plan's topics that are compacted."""
    return [
        topic["name"]
        for topic in plan.get("topics") or ()
        if COMPACT in _policy({**(plan.get("broker") or {}), **(topic.get("configs") or {})})
    ]


def _retention(configs: Mapping[str, Any]) -> tuple[int, int]:
    """Return retention.ms and retention.bytes; UNLIMITED both if nothing is deleted."""
    if DELETE not in _policy(configs):
        return UNLIMITED, UNLIMITED
    ages = (int(configs[name]) * unit_ms for name, unit_ms in RETENTION_MS if name in configs)
    sizes = (int(configs[name]) for name in RETENTION_BYTES if name in configs)
    return (
        max(next(ages, DEFAULT_RETENTION_MS), UNLIMITED),
        max(next(sizes, UNLIMITED), UNLIMITED),
    )


def read_changes(rows: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    """Return the changes in rows of the faults' table. A change that may have happened counts."""
    return tuple(change for row in rows if (change := _read_change(row)) is not None)


def _read_change(row: Mapping[str, Any]) -> Change | None:
    if row["started_ns"] is None:
        return None
    details = _details(row["targets"])
    match row["fault"], details:
        case "config", {"name": str(name), "value": str(value)}:
            changed = name, value
        case "elect", {"kind": "unclean"}:
            changed = UNCLEAN, "true"
        case _:
            return None
    topic = details.get("topic", "")
    return Change(
        topic=None if topic in ANY_TOPIC else topic,
        name=changed[0],
        value=changed[1],
        from_ns=row["started_ns"],
        until_ns=FOREVER_NS if row["healed_ns"] is None else row["healed_ns"],
    )


def _details(targets: str | None) -> dict[str, str]:
    try:
        details = (json.loads(targets) if targets else {}).get("details")
    except (ValueError, AttributeError):
        return {}
    return details if isinstance(details, dict) else {}


def weakest(
    settings: Settings, topic: str | None, changes: Sequence[Change], from_ns: int, until_ns: int
) -> Settings:
    """Return the weakest settings of the topic during a time span."""
    for change in changes:
        if change.topic not in (None, topic):
            continue
        followed_ns = change.until_ns + (_LEARNS_NS if change.name in _OF_BROKERS else 0)
        if change.from_ns <= until_ns and from_ns <= followed_ns:
            settings = _weakened(settings, change)
    return settings


def _weakened(settings: Settings, change: Change) -> Settings:
    match change.name:
        case "min.insync.replicas":
            least = min(settings.min_insync_replicas, int(change.value))
            return replace(settings, min_insync_replicas=least)
        case "unclean.leader.election.enable":
            return replace(
                settings, unclean_election=settings.unclean_election or _is_true(change.value)
            )
        case "flush.messages" | "log.flush.interval.messages":
            return replace(
                settings, flush_before_ack=settings.flush_before_ack and change.value == "1"
            )
        case "retention.ms" | "log.retention.ms":
            return replace(settings, retention_ms=_less(settings.retention_ms, int(change.value)))
        case "retention.bytes" | "log.retention.bytes":
            least = _less(settings.retention_bytes, int(change.value))
            return replace(settings, retention_bytes=least)
        case "delete.retention.ms" | "log.cleaner.delete.retention.ms":
            least = min(settings.delete_retention_ms, int(change.value))
            return replace(settings, delete_retention_ms=least)
        case _:
            return settings


def _less(bound: int, other: int) -> int:
    """Return the bound that leaves less of a log."""
    return max(bound, other) if UNLIMITED in (bound, other) else min(bound, other)


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def acks_number(acks: Any) -> int | None:
    """Return Kafka's acks as a number: `all` is -1."""
    if acks is None:
        return None
    return -1 if str(acks) == "all" else int(acks)

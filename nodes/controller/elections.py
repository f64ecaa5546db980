"""Elections over many partitions: after broker changes, and on request. Pure.

`nodes.controller.partition_changes` decides how one partition changes; this module passes over all
partitions. A pass is O(partitions): a few microseconds for each changed partition, and a tenth of
that for each other one. Tables of partitions by broker would cost more than they save.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.controller.partition_changes import (
    NO_DIRECTORIES,
    NO_LOGS,
    DesiredState,
    Directories,
    Election,
    IsLive,
    Logs,
    Rules,
    change,
)
from nodes.ids import NO_NODE, NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionImage, PartitionKey
from nodes.metadata.records import PartitionChangeRecord

CHANGES_AT_ONCE: Final = 4_000
"""The most partition changes of one pass, which take about a tenth of a second to decide and to
append. Nothing else happens meanwhile, and a quorum leader that is silent for long is replaced.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """The configurations of a topic that elections depend on."""

    min_isr: int
    unclean: bool = False
    eligible_leaders: bool = True

    def rules(self, live: IsLive, asked: Election | None = None) -> Rules:
        """The rules of an election: as requested, or else as the topic is configured."""
        usual = Election.UNCLEAN if self.unclean else Election.CLEAN
        return Rules(live, self.min_isr, asked or usual, self.eligible_leaders)


PolicyOf = Callable[[str], TopicPolicy]
"""Returns the policy of the topic of this name."""

LogsOf = Mapping[PartitionKey, Logs]
"""Returns the known log ends of the replicas of a leaderless partition."""


def remove_from_isrs(
    image: ClusterImage,
    gone: Sequence[NodeId],
    policy: PolicyOf,
    *,
    unclean: bool = False,
    directories: Directories = NO_DIRECTORIES,
    limit: int | None = None,
) -> list[PartitionChangeRecord]:
    """The changes that remove the brokers `gone` from every ISR and leadership; at most `limit`.

    After an unclean restart they also lose their leader eligibility. `directories`: where all the
    replicas of some of them are from now on.
    """
    left = frozenset(gone)
    lost = tuple(gone) if unclean else ()

    def live(node: NodeId) -> bool:
        return node not in left and image.active(node)

    def concerned(partition: PartitionImage) -> bool:
        return (
            partition.leader in left
            or not left.isdisjoint(partition.isr)
            or (unclean and not left.isdisjoint(partition.elr))
            or not directories.keys().isdisjoint(partition.replicas)
        )

    def changes() -> Iterator[PartitionChangeRecord | None]:
        for key, partition, rules in _with_rules(image, policy, live, concerned):
            isr = tuple(node for node in partition.isr if node not in left)
            target = DesiredState(isr=isr, directories=directories, lost=lost)
            yield change(key, partition, rules, target)

    return list(islice(filter(None, changes()), limit))


def elect_leaderless(
    image: ClusterImage, policy: PolicyOf, back: NodeId = NO_NODE
) -> list[PartitionChangeRecord]:
    """Elections of the leaderless partitions that have a live candidate, at most CHANGES_AT_ONCE.

    `back`, if given, is a broker that was just unfenced: only its partitions are examined.
    """

    def live(node: NodeId) -> bool:
        return node == back or image.active(node)

    def concerned(partition: PartitionImage) -> bool:
        return partition.leader == NO_NODE and (back == NO_NODE or back in partition.replicas)

    found = _with_rules(image, policy, live, concerned)
    changes = (change(key, partition, rules) for key, partition, rules in found)
    return list(islice(filter(None, changes), CHANGES_AT_ONCE))


def _with_rules(
    image: ClusterImage,
    policy: PolicyOf,
    live: IsLive,
    concerned: Callable[[PartitionImage], bool],
) -> Iterator[tuple[PartitionKey, PartitionImage, Rules]]:
    """The partitions for which `concerned` is true, in order of creation, with their rules."""
    for topic in image.topics.values():
        rules = policy(topic.name).rules(live)
        for number, partition in topic.partitions.items():
            if concerned(partition):
                yield PartitionKey(topic.topic_id, topic.name, number), partition, rules


def elect(
    image: ClusterImage,
    partitions: Iterable[tuple[str, int]],
    policy: PolicyOf,
    *,
    unclean: bool,
    logs: LogsOf | None = None,
) -> Iterator[PartitionChangeRecord | ControlError]:
    """ElectLeaders: elect the preferred leader of each partition; or, `unclean`, any replica of a
    leaderless partition, the one with the longest of the `logs`.

    A refusal is ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE
    or UNKNOWN_TOPIC_OR_PARTITION.
    """
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    for name, number in partitions:
        topic = image.topic(name)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None or partition is None:
            what = f"topic as {name}" if topic is None else f"partition as {name}-{number}"
            yield ControlError(ErrorCode.unknown_topic_or_partition, f"No such {what}")
            continue
        settled = partition.leader != NO_NODE if unclean else _led_as_preferred(partition)
        if settled:
            yield ControlError(
                ErrorCode.election_not_needed, "Leader election not needed for topic partition."
            )
            continue
        key = PartitionKey(topic.topic_id, name, number)
        rules = policy(name).rules(image.active, election)
        known = NO_LOGS if logs is None else logs.get(key, NO_LOGS)
        record = change(key, partition, rules._replace(logs=known))
        if record is not None:
            yield record
        elif unclean:
            yield ControlError(
                ErrorCode.eligible_leaders_not_available,
                "Eligible topic partition leaders are not available.",
            )
        else:
            yield ControlError(
                ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResult:
    """Records to write, and a result for each partition: (topic, partition, refusal or None)."""

    records: list[PartitionChangeRecord]
    answers: list[tuple[str, int, ControlError | None]]


def elect_leaders(
    image: ClusterImage,
    wanted: Sequence[tuple[str, int]] | None,
    policy: PolicyOf,
    *,
    unclean: bool,
    logs: LogsOf | None = None,
) -> ElectLeadersResult:
    """ElectLeaders for the partitions `wanted`, or for all; in the latter case, partitions that
    need no election get no result. For `logs` see `elect`.
    """
    asked = wanted
    if asked is None:
        asked = [(key.topic, key.partition) for key, _ in image.partitions()]
    records: list[PartitionChangeRecord] = []
    answers: list[tuple[str, int, ControlError | None]] = []
    partitions = dict.fromkeys(asked)
    for (topic, number), found in zip(
        partitions, elect(image, partitions, policy, unclean=unclean, logs=logs), strict=True
    ):
        if isinstance(found, PartitionChangeRecord):
            records.append(found)
            answers.append((topic, number, None))
        elif wanted is not None or found.code is not ErrorCode.election_not_needed:
            answers.append((topic, number, found))
    return ElectLeadersResult(records=records, answers=answers)


def rebalance(
    image: ClusterImage, policy: PolicyOf, *, limit: int, imbalance_percentage: int
) -> list[PartitionChangeRecord]:
    """Move at most `limit` leaderships back to live, in-sync preferred replicas.

    Only brokers with an imbalance get leaderships back: other brokers lead more than
    `imbalance_percentage` percent of the partitions that prefer the broker
    (leader.imbalance.per.broker.percentage).
    """
    preferring: dict[NodeId, int] = {}
    led_by_others: dict[NodeId, int] = {}
    for _, partition in image.partitions():
        node = partition.preferred_leader
        preferring[node] = preferring.get(node, 0) + 1
        if partition.leader != node:
            led_by_others[node] = led_by_others.get(node, 0) + 1
    uneven = {
        n
        for n, count in led_by_others.items()
        if 100 * count > imbalance_percentage * preferring[n]
    }
    wanting = (
        (key.topic, key.partition)
        for key, partition in image.partitions()
        if not _led_as_preferred(partition)
        and partition.preferred_leader in uneven
        and partition.preferred_leader in partition.isr
        and image.active(partition.preferred_leader)
    )
    records: list[PartitionChangeRecord] = []
    for found in elect(image, wanting, policy, unclean=False):
        if isinstance(found, PartitionChangeRecord):
            records.append(found)
        if len(records) >= limit:
            break
    return records


def clear_eligible_leaders(
    image: ClusterImage, topics: Iterable[str]
) -> list[PartitionChangeRecord]:
    """End the leader eligibility (ELR and last known ELR) of all replicas of `topics`.

    Needed when min.insync.replicas changes: a replica that left the ISR under the old minimum may
    lack records committed under the new one. Leaderless partitions keep their eligible replicas,
    because nothing is committed in them.
    """
    return [
        PartitionChangeRecord(
            topic_id=topic.topic_id,
            partition_id=number,
            eligible_leader_replicas=() if partition.elr else None,
            last_known_elr=() if partition.last_known_elr else None,
        )
        for name in topics
        if (topic := image.topic(name)) is not None
        for number, partition in topic.partitions.items()
        if partition.isr and (partition.elr or partition.last_known_elr)
    ]


def _led_as_preferred(partition: PartitionImage) -> bool:
    return partition.leader == partition.preferred_leader

"""Requests for topics and brokers: describe, create, add partitions, delete."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.admin.client import ANY, CONTROLLER, Address, AdminClient
from harness.admin.codes import check
from harness.admin.descriptions import Broker, Cluster, Partition, Topic
from harness.admin.errors import BadRequest, RequestRefused, TransientError
from nodes.ids import TopicPartition

PAGE: Final = 2000
"""Partitions in one answer: Kafka's own default."""

_UNKNOWN: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


async def cluster(admin: AdminClient) -> Cluster:
    """Return the brokers, with the fenced ones if the cluster reports them."""

    async def attempt() -> Cluster:
        if not await admin.serves("describe_cluster"):
            answer = await admin.refresh()
            brokers = [(int(each.node_id), each) for each in answer.brokers]
        else:
            answer = await admin.request("describe_cluster", include_fenced_brokers=True)
            check(answer.error_code, "", answer.error_message)
            brokers = [(int(each.broker_id), each) for each in answer.brokers]
        controller = int(answer.controller_id)
        return Cluster(
            cluster_id=str(answer.cluster_id),
            controller=controller if controller >= 0 else None,
            brokers=tuple(
                Broker(
                    node_id=node,
                    host=str(each.host),
                    port=int(each.port),
                    rack=each.rack,
                    fenced=getattr(each, "is_fenced", False),
                )
                for node, each in sorted(brokers, key=lambda pair: pair[0])
            ),
        )

    return await admin.repeat(attempt)


async def describe(admin: AdminClient, names: Sequence[str] | None = None) -> list[Topic]:
    """Return these topics, or all, by name. Raises RequestRefused for an unknown name."""

    async def attempt() -> list[Topic]:
        if await admin.serves("describe_topic_partitions"):
            return await _paged(admin, names)
        return await _at_once(admin, names)

    if names is not None and not names:
        return []
    return sorted(await admin.repeat(attempt), key=lambda topic: topic.name)


async def _at_once(admin: AdminClient, names: Sequence[str] | None) -> list[Topic]:
    answer = await admin.request(
        "metadata",
        topics=None if names is None else [{"name": name} for name in names],
        allow_auto_topic_creation=False,
    )
    return [_topic(each, list(each.partitions)) for each in answer.topics]


async def _paged(admin: AdminClient, names: Sequence[str] | None) -> list[Topic]:
    found: dict[str, tuple[Any, list[Any]]] = {}
    cursor = None
    while True:  # every page moves the cursor: the pages end where the topics do
        answer = await admin.request(
            "describe_topic_partitions",
            topics=[{"name": name} for name in sorted(names or ())],
            response_partition_limit=PAGE,
            cursor=cursor,
        )
        for each in answer.topics:
            _, partitions = found.setdefault(str(each.name), (each, []))
            partitions.extend(each.partitions)
        after = answer.next_cursor
        if after is None:
            return [_topic(each, partitions) for each, partitions in found.values()]
        following = {"topic_name": after.topic_name, "partition_index": after.partition_index}
        if following == cursor:
            raise BadRequest(f"the broker repeats the page at {cursor} of its topics")
        cursor = following


def _topic(answer: Any, partitions: list[Any]) -> Topic:
    name = str(answer.name)
    if answer.error_code in _UNKNOWN:
        raise RequestRefused(answer.error_code, f"topic {name} does not exist")
    check(answer.error_code, f"topic {name}")
    return Topic(
        name=name,
        topic_id=getattr(answer, "topic_id", None),
        internal=answer.is_internal,
        partitions=tuple(
            Partition(
                name=TopicPartition(name, int(each.partition_index)),
                leader=int(each.leader_id) if each.leader_id >= 0 else None,
                replicas=tuple(map(int, each.replica_nodes)),
                isr=tuple(map(int, each.isr_nodes)),
                elr=_numbers(getattr(each, "eligible_leader_replicas", None)),
                last_known_elr=_numbers(getattr(each, "last_known_elr", None)),
            )
            for each in sorted(partitions, key=lambda each: int(each.partition_index))
        ),
    )


def _numbers(values: Sequence[Any] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(map(int, values))


async def create(
    admin: AdminClient,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> None:
    """Create one topic; None stands for the cluster's default. Raises RequestRefused.

    `assignment` lists the replicas of partitions 0, 1, ..., and replaces the two numbers. With
    `exist_ok` an existing topic is no error, whatever its settings.
    """
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        answer = await admin.request(
            "create_topics",
            to=CONTROLLER,
            at_least=4 if partitions is None or replication_factor is None else 0,
            topics=[
                {
                    "name": name,
                    "num_partitions": -1 if partitions is None or assignment else partitions,
                    "replication_factor": (
                        -1 if replication_factor is None or assignment else replication_factor
                    ),
                    "assignments": [
                        {"partition_index": number, "broker_ids": replicas}
                        for number, replicas in enumerate(assignment)
                    ],
                    "configs": [
                        {"name": key, "value": value} for key, value in (configs or {}).items()
                    ],
                }
            ],
            timeout=admin.request_timeout,
        )
        for each in answer.topics:
            # An earlier attempt whose answer was lost may have created the topic.
            may_exist = exist_ok or attempts > 1
            if not may_exist or each.error_code is not ErrorCode.topic_already_exists:
                check(each.error_code, f"topic {name}", each.error_message)

    await admin.repeat(attempt)


async def check_in_sync(
    admin: AdminClient,
    name: str,
    *,
    partitions: int,
    replicas: int,
    by: Sequence[Address],
    preferred: bool = False,
) -> None:
    """Check that each broker of `by` sees a leader and `replicas` in-sync replicas everywhere.

    That is for all `partitions` of the topic. With `preferred` the leader must be the preferred
    one. Raises TransientError about the first broker that does not see that, Unreachable.
    """
    for address in by:
        answer = await admin.request(
            "metadata", to=address, topics=[{"name": name}], allow_auto_topic_creation=False
        )
        found = {int(each.partition_index): each for each in answer.topics[0].partitions}
        for number in range(partitions):
            seen = found.get(number)
            if seen is None:
                objection = f"no {name}-{number}"
            elif (
                seen.leader_id < 0
                or len(seen.isr_nodes) < replicas
                or (preferred and seen.leader_id != seen.replica_nodes[0])
            ):
                objection = (
                    f"{name}-{number} with leader {seen.leader_id} and in-sync replicas "
                    f"{[int(each) for each in seen.isr_nodes]}"
                )
            else:
                continue
            where = f"{address[0]}:{address[1]}"
            raise TransientError(ErrorCode.replica_not_available, f"{where} sees {objection}")


async def grow(
    admin: AdminClient, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
) -> None:
    """Raise a topic's number of partitions to `count`; `assignment` has the new ones' replicas."""
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        new = None if assignment is None else [{"broker_ids": each} for each in assignment]
        answer = await admin.request(
            "create_partitions",
            to=CONTROLLER,
            topics=[{"name": name, "count": count, "assignments": new}],
            timeout=admin.request_timeout,
        )
        for each in answer.results:
            # "Already has that many partitions": an earlier attempt may have added them.
            if attempts > 1 and each.error_code is ErrorCode.invalid_partitions:
                (topic,) = await describe(admin, [name])
                if len(topic.partitions) == count:
                    return
            check(each.error_code, f"topic {name}", each.error_message)

    await admin.repeat(attempt)


async def delete(admin: AdminClient, names: Sequence[str]) -> None:
    """Delete the topics. Raises RequestRefused about the first topic that is not deleted."""
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        answer = await admin.request(
            "delete_topics",
            to=CONTROLLER,
            topics=[{"name": name} for name in names],
            topic_names=names,
            timeout=admin.request_timeout,
        )
        for each in answer.responses:
            if attempts == 1 or each.error_code not in _UNKNOWN:
                message = getattr(each, "error_message", None)
                check(each.error_code, f"topic {each.name}", message)

    await admin.repeat(attempt)


async def names(admin: AdminClient) -> list[str]:
    """Return the names of all topics, ascending."""

    async def attempt() -> list[str]:
        answer = await admin.request(
            "metadata", to=ANY, topics=None, allow_auto_topic_creation=False
        )
        return sorted(str(each.name) for each in answer.topics)

    return await admin.repeat(attempt)

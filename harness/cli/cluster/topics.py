"""`highwater cluster topics`: lists, creates, alters and deletes topics, as kafka-topics does."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from harness.admin import configs, reassignments, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import Config, Partition, Reassignment, Topic, id_text
from harness.admin.errors import BadRequest, RequestRefused
from harness.cli.base import warn
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
)
from harness.cli.options import ConfigOption, DeleteConfig, command_group, key_values
from nodes.ids import TopicPartition

app = command_group("List, create, alter and delete topics.")

Name = Annotated[str, typer.Argument(help="The name of the topic.")]
Names = Annotated[list[str] | None, typer.Argument(help="The names of topics. Default: all.")]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        help="The brokers of each partition: 1:2,2:3 is two partitions with two replicas each.",
    ),
]

MIN_ISR = "min.insync.replicas"


@app.command("list")
@administrative
def list_topics(
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out Kafka's internal topics.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """List the names of all topics."""

    async def work(admin: AdminClient) -> list[str]:
        if exclude_internal:
            return [topic.name for topic in await topics.describe(admin) if not topic.internal]
        return await topics.names(admin)

    names = administer(work, cluster)
    if as_json:
        print_json(names)
    else:
        print_lines(names)


@app.command("create")
@administrative
def create_topic(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(help="Number of partitions. Default: the cluster's.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(help="Replicas of each partition. Default: the cluster's.")
    ] = None,
    replica_assignment: Assignment = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed when the topic exists already.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Create a topic."""
    for what, given in (("partitions", partitions), ("replication-factor", replication_factor)):
        if given is not None and not 1 <= given < 1 << 15:
            raise BadRequest(f"--{what} {given}: must be from 1 to 32767")
    assignment = _assignment(replica_assignment)
    if assignment and (partitions or replication_factor):
        raise BadRequest(
            "--replica-assignment sets the numbers of partitions and replicas: leave out "
            "--partitions and --replication-factor"
        )
    settings = key_values("--config", config)

    async def work(admin: AdminClient) -> bool:
        try:
            await topics.create(
                admin,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignment=assignment,
                configs=settings,
            )
        except RequestRefused as error:
            if if_not_exists and error.code is error.code.topic_already_exists:
                return False
            raise
        return True

    created = administer(work, cluster)
    if as_json:
        print_json({"topic": name, "created": created})
    elif created:
        print(f"Created topic {name}.")


@app.command("describe")
@administrative
def describe_topics(
    names: Names = None,
    under_replicated: Annotated[
        bool,
        typer.Option(
            "--under-replicated-partitions", help="Show only partitions with replicas out of sync."
        ),
    ] = False,
    unavailable: Annotated[
        bool,
        typer.Option(
            "--unavailable-partitions", help="Show only partitions without a live leader."
        ),
    ] = False,
    under_min_isr: Annotated[
        bool,
        typer.Option(
            "--under-min-isr-partitions",
            help="Show only partitions with fewer in-sync replicas than min.insync.replicas.",
        ),
    ] = False,
    at_min_isr: Annotated[
        bool,
        typer.Option(
            "--at-min-isr-partitions",
            help="Show only partitions with exactly min.insync.replicas replicas in sync.",
        ),
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the partitions, replicas and configuration of topics."""
    filters = (under_replicated, unavailable, under_min_isr, at_min_isr)

    async def work(
        admin: AdminClient,
    ) -> tuple[list[Topic], dict[str, list[Config]], dict[TopicPartition, Reassignment], set[int]]:
        found = await topics.describe(admin, names or None)
        resources = [configs.topic(topic.name) for topic in found]
        entries = await configs.describe(admin, resources) if resources else {}
        ongoing = {}
        if await admin.serves("list_partition_reassignments"):
            ongoing = await reassignments.ongoing(admin)
        live = {broker.node_id for broker in (await topics.cluster(admin)).live}
        return found, {each.name: entries[each] for each in resources}, ongoing, live

    found, entries, ongoing, live = administer(work, cluster)

    def is_shown(partition: Partition) -> bool:
        if not any(filters):
            return True
        least = _min_isr(entries[partition.name.topic])
        factor = tool_text.replication_factor(partition, ongoing.get(partition.name))
        return (
            (under_replicated and factor > len(partition.isr))
            or (unavailable and (partition.leader is None or partition.leader not in live))
            or (under_min_isr and (partition.leader is None or len(partition.isr) < least))
            or (at_min_isr and len(partition.isr) == least)
        )

    if as_json:
        print_json([_topic_data(each, entries[each.name], ongoing, is_shown) for each in found])
        return
    for topic in found:
        if not any(filters):
            first = ongoing.get(topic.partitions[0].name)
            print(tool_text.topic_line(topic, entries[topic.name], first))
        for partition in filter(is_shown, topic.partitions):
            print(tool_text.partition_line(partition, ongoing.get(partition.name)))


@app.command("alter")
@administrative
def alter_topic(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(help="The new number of partitions; it can only increase.")
    ] = None,
    replica_assignment: Assignment = None,
    config: ConfigOption = None,
    delete_config: DeleteConfig = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Add partitions to a topic; set or remove its settings."""
    changes: dict[str, str | None] = {
        **key_values("--config", config),
        **dict.fromkeys(delete_config or ()),
    }
    assignment = _assignment(replica_assignment)
    if partitions is None and not changes:
        raise BadRequest("nothing to alter: give --partitions, --config or --delete-config")
    if assignment and partitions is None:
        raise BadRequest("--replica-assignment needs --partitions")

    async def work(admin: AdminClient) -> None:
        (before,) = await topics.describe(admin, [name])
        if changes:
            await configs.alter(admin, {configs.topic(name): changes})
        if partitions is not None:
            new = assignment[len(before.partitions) :] if assignment else None
            await topics.grow(admin, name, partitions, new)

    administer(work, cluster)
    if as_json:
        print_json({"topic": name, "partitions": partitions, "configs": changes})
    else:
        print(f"Altered topic {name}.")


@app.command("delete")
@administrative
def delete_topics(
    names: Annotated[list[str], typer.Argument(help="The names of the topics.")],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Delete topics and their records."""

    async def work(admin: AdminClient) -> list[str]:
        known = set(await topics.names(admin))
        if unknown := [name for name in names if name not in known]:
            if not if_exists:
                raise BadRequest(f"topic {unknown[0]} does not exist; nothing was deleted")
            warn(f"no such topic: {', '.join(unknown)}")
        existing = [name for name in names if name in known]
        if existing:
            await topics.delete(admin, existing)
        return existing

    deleted = administer(work, cluster)
    if as_json:
        print_json({"deleted": deleted})
    else:
        print_lines(f"Deleted topic {name}." for name in deleted)


def _topic_data(
    topic: Topic,
    entries: list[Config],
    ongoing: Mapping[TopicPartition, Reassignment],
    is_shown: Callable[[Partition], bool],
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else id_text(topic.topic_id),
        "internal": topic.internal,
        "configs": {each.name: each.value for each in entries if not each.is_default},
        "partitions": [
            tool_text.partition_data(each, ongoing.get(each.name))
            for each in topic.partitions
            if is_shown(each)
        ],
    }


def _min_isr(entries: list[Config]) -> int:
    return next((int(each.value or 1) for each in entries if each.name == MIN_ISR), 1)


def _assignment(given: str | None) -> list[list[int]]:
    """Return the brokers of each partition. Raises BadRequest."""
    if given is None:
        return []
    try:
        lists = [[int(node) for node in part.split(":")] for part in given.split(",")]
    except ValueError as error:
        raise BadRequest(
            f"--replica-assignment {given!r}: separate brokers by colons and partitions by commas, "
            "as in 1:2,2:3"
        ) from error
    for number, nodes in enumerate(lists):
        if len(set(nodes)) != len(nodes):
            raise BadRequest(f"--replica-assignment: partition {number} names a broker twice")
        if len(nodes) != len(lists[0]):
            raise BadRequest(
                f"--replica-assignment: partition {number} has another number of replicas than "
                "partition 0"
            )
    return lists

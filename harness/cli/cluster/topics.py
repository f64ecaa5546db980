"""`highwater cluster topics`: as kafka-topics."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from harness.admin import configs, reassignments, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import Config, Partition, Reassignment, Topic, id_text
from harness.admin.errors import BadRequest, Refused
from harness.cli.base import Debug, settings, warn
from harness.cli.cluster.connection import (
    AsJson,
    RunDir,
    Servers,
    administer,
    print_json,
    print_lines,
)
from nodes.ids import TopicPartition

app = typer.Typer(help="Topics, as kafka-topics tells of them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The topic.")]
Names = Annotated[list[str] | None, typer.Argument(help="The topics; none is all.")]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", help="key=value; may be repeated.")
]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment", help="Brokers of each partition: 1:2,2:3 is two partitions of two."
    ),
]

MIN_ISR = "min.insync.replicas"


@app.command("list")
def list_topics(
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out Kafka's own topics.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The names of all topics."""

    async def work(admin: AdminClient) -> list[str]:
        if exclude_internal:
            return [topic.name for topic in await topics.describe(admin) if not topic.internal]
        return await topics.names(admin)

    names = administer(work, bootstrap_servers, run)
    if as_json:
        print_json(names)
    else:
        print_lines(names)


@app.command("create")
def create_topic(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(help="How many; the cluster's default if not given.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(help="Replicas of each; the cluster's default if not given.")
    ] = None,
    replica_assignment: Assignment = None,
    config: ConfigOption = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="An existing topic is no error.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Create a topic."""
    for what, given in (("partitions", partitions), ("replication-factor", replication_factor)):
        if given is not None and not 1 <= given < 1 << 15:
            raise BadRequest(f"--{what} {given} cannot be: it must be from 1 to 32767")
    assignment = _assignment(replica_assignment)
    if assignment and (partitions or replication_factor):
        raise BadRequest(
            "--replica-assignment says how many partitions and replicas there are: leave out "
            "--partitions and --replication-factor"
        )
    wanted = settings(config)

    async def work(admin: AdminClient) -> bool:
        try:
            await topics.create(
                admin,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignment=assignment,
                configs=wanted,
            )
        except Refused as error:
            if if_not_exists and error.code is error.code.topic_already_exists:
                return False
            raise
        return True

    created = administer(work, bootstrap_servers, run)
    if as_json:
        print_json({"topic": name, "created": created})
    elif created:
        print(f"Created topic {name}.")


@app.command("describe")
def describe_topics(
    names: Names = None,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated-partitions", help="Only partitions that lack replicas."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only those without a live leader.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr-partitions", help="Only those below their least ISR.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr-partitions", help="Only those at their least ISR.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Partitions, replicas and configuration of topics."""
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

    found, entries, ongoing, live = administer(work, bootstrap_servers, run)

    def wanted(partition: Partition) -> bool:
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
        print_json([_topic_data(each, entries[each.name], ongoing, wanted) for each in found])
        return
    for topic in found:
        if not any(filters):
            first = ongoing.get(topic.partitions[0].name)
            print(tool_text.topic_line(topic, entries[topic.name], first))
        for partition in filter(wanted, topic.partitions):
            print(tool_text.partition_line(partition, ongoing.get(partition.name)))


@app.command("alter")
def alter_topic(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option(help="The new number of partitions; it can only grow.")
    ] = None,
    replica_assignment: Assignment = None,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(help="A key that is to have its default; may be repeated.")
    ] = None,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Add partitions, set or delete configuration."""
    changes: dict[str, str | None] = {**settings(config), **dict.fromkeys(delete_config or ())}
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

    administer(work, bootstrap_servers, run)
    if as_json:
        print_json({"topic": name, "partitions": partitions, "configs": changes})
    else:
        print(f"Altered topic {name}.")


@app.command("delete")
def delete_topics(
    names: Annotated[list[str], typer.Argument(help="The topics.")],
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that does not exist is no error.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete topics and everything in them."""

    async def work(admin: AdminClient) -> list[str]:
        known = set(await topics.names(admin))
        if unknown := [name for name in names if name not in known]:
            if not if_exists:
                raise BadRequest(f"topic {unknown[0]} does not exist; nothing was deleted")
            warn(f"no such topic: {', '.join(unknown)}")
        there = [name for name in names if name in known]
        if there:
            await topics.delete(admin, there)
        return there

    deleted = administer(work, bootstrap_servers, run)
    if as_json:
        print_json({"deleted": deleted})
    else:
        print_lines(f"Deleted topic {name}." for name in deleted)


def _topic_data(
    topic: Topic,
    entries: list[Config],
    ongoing: Mapping[TopicPartition, Reassignment],
    wanted: Callable[[Partition], bool],
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else id_text(topic.topic_id),
        "internal": topic.internal,
        "configs": {each.name: each.value for each in entries if not each.is_default},
        "partitions": [
            tool_text.partition_data(each, ongoing.get(each.name))
            for each in topic.partitions
            if wanted(each)
        ],
    }


def _min_isr(entries: list[Config]) -> int:
    return next((int(each.value or 1) for each in entries if each.name == MIN_ISR), 1)


def _assignment(given: str | None) -> list[list[int]]:
    """The brokers of each partition. Raises BadRequest."""
    if given is None:
        return []
    try:
        lists = [[int(node) for node in part.split(":")] for part in given.split(",")]
    except ValueError as error:
        raise BadRequest(
            f"--replica-assignment {given!r} cannot be read: write brokers with colons, partitions "
            "with commas, as in 1:2,2:3"
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

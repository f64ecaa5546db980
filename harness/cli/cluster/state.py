"""Commands about the state of nodes and partitions.

`highwater cluster elect-leaders | quorum | log-dirs | delete-records | producers`.
"""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from kio.schema.errors import ErrorCode

from harness.admin import inspection, reassignments, tool_files, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import LogDir, Producer, QuorumDescription
from harness.admin.errors import BadRequest
from harness.admin.reassignments import PartitionError
from harness.cli.base import BAD_ARGUMENTS, Exit, warn
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
    read_file,
)
from harness.cli.options import broker_numbers, comma_separated, command_group
from nodes.ids import TopicPartition

quorum_app = command_group("Show the metadata quorum.")
log_dirs_app = command_group("Show the log directories of brokers.")


class ElectionType(StrEnum):
    """The replicas that may become leader."""

    preferred = "preferred"
    unclean = "unclean"


@administrative
def elect_leaders(
    election_type: Annotated[
        ElectionType,
        typer.Option(
            help="preferred: elect the first replica; unclean: elect any live replica of a "
            "partition without a live in-sync replica, which may lose records."
        ),
    ],
    topic: Annotated[
        str | None, typer.Option(help="The topic of one partition; with --partition.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="The number of the partition; with --topic.")
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions that need an election.")
    ] = False,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(
            help='A file with the partitions: {"partitions": [{"topic": "foo", "partition": 1}]}'
        ),
    ] = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Elect the leaders of partitions."""
    chosen = [topic is not None, all_topic_partitions, path_to_json_file is not None]
    if chosen.count(True) != 1 or (topic is None) != (partition is None):
        raise BadRequest(
            "name the partitions: --topic with --partition, or --all-topic-partitions, or "
            "--path-to-json-file"
        )
    wanted: list[TopicPartition] | None = None
    if topic is not None and partition is not None:
        wanted = [TopicPartition(topic, partition)]
    elif path_to_json_file is not None:
        wanted = tool_files.partitions(read_file(path_to_json_file))
    unclean = election_type is ElectionType.unclean
    kind = reassignments.UNCLEAN if unclean else reassignments.PREFERRED

    async def work(admin: AdminClient) -> dict[TopicPartition, PartitionError]:
        return await reassignments.elect(admin, kind, wanted)

    results = administer(work, cluster)
    elected = [name for name, (code, _) in results.items() if code is ErrorCode.none]
    needless = [n for n, (code, _) in results.items() if code is ErrorCode.election_not_needed]
    failed = {n: each for n, each in results.items() if n not in elected and n not in needless}
    name = election_type.name.upper()
    if as_json:
        print_json(
            {
                "elected": [str(each) for each in elected],
                "already_elected": [str(each) for each in needless],
                "failed": {str(n): code.name.upper() for n, (code, _) in failed.items()},
            }
        )
    else:
        if elected:
            which = ", ".join(map(str, elected))
            print(f"Successfully completed leader election ({name}) for partitions {which}")
        if needless:
            which = ", ".join(map(str, needless))
            print(f"Valid replica already elected for partitions {which}")
        for each, (code, message) in failed.items():
            print(
                f"Error completing leader election ({name}) for partition: {each}: "
                f"{message or code.name.upper()}"
            )
    if failed:
        warn(f"{len(failed)} replica(s) could not be elected")
        raise Exit(BAD_ARGUMENTS)


@quorum_app.command("describe")
@administrative
def describe_quorum(
    status: Annotated[bool, typer.Option("--status", help="Show a summary.")] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Show the log position of each member.")
    ] = False,
    human_readable: Annotated[
        bool, typer.Option("--human-readable", help="Show times as milliseconds ago.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the leader, voters and observers of the metadata quorum."""
    if status == replication and not as_json:
        raise BadRequest("give one of --status and --replication")

    async def work(admin: AdminClient) -> tuple[str, QuorumDescription]:
        return (await topics.cluster(admin)).cluster_id, await inspection.quorum(admin)

    cluster_id, quorum = administer(work, cluster)
    if as_json:
        print_json(tool_text.quorum_data(cluster_id, quorum))
    elif status:
        print_lines(tool_text.quorum_lines(cluster_id, quorum))
    else:
        now_ms = time.time_ns() // 1_000_000 if human_readable else None
        print_lines(tool_text.table(tool_text.replication_rows(quorum, now_ms)))


@log_dirs_app.command("describe")
@administrative
def describe_log_dirs(
    broker_list: Annotated[
        str, typer.Option(help="The brokers, as in 1,2,3. Default: all in service.")
    ] = "",
    topic_list: Annotated[str, typer.Option(help="The topics, by commas. Default: all.")] = "",
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the size and lag of every replica on every broker.

    The format is that of kafka-log-dirs.
    """
    asked = broker_numbers("--broker-list", broker_list)
    names = comma_separated(topic_list)

    async def work(admin: AdminClient) -> dict[int, list[LogDir]]:
        live = [broker.node_id for broker in (await topics.cluster(admin)).live]
        chosen = asked or live
        if unknown := [node for node in chosen if node not in live]:
            raise BadRequest(
                f"broker {unknown[0]} is not in service; the brokers in service are {live}"
            )
        return {node: await inspection.log_dirs(admin, node) for node in chosen}

    found = administer(work, cluster)
    if not as_json:
        print("Querying brokers for log directories information")
        print(f"Received log directory information from brokers {tool_text.listed(found)}")
    print(tool_text.log_dirs_json(found, names))


@administrative
def delete_records(
    offset_json_file: Annotated[
        Path,
        typer.Option(
            help="A file with an offset for each partition: "
            '{"partitions": [{"topic": "foo", "partition": 1, "offset": 1}]}; -1 is the high '
            "watermark."
        ),
    ],
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Delete the records before an offset of partitions."""
    before = tool_files.offsets(read_file(offset_json_file))

    async def work(admin: AdminClient) -> dict[TopicPartition, int | PartitionError]:
        return await inspection.delete_records(admin, before)

    results = administer(work, cluster)
    failed = 0
    rows: list[dict[str, object]] = []
    lines = ["Executing records delete operation", "Records delete operation completed:"]
    for name, result in results.items():
        row: dict[str, object] = {"topic": name.topic, "partition": name.partition}
        if isinstance(result, int):
            rows.append({**row, "low_watermark": result})
            lines.append(f"partition: {name}\tlow_watermark: {result}")
        else:
            failed += 1
            message = result[1] or result[0].name.upper()
            rows.append({**row, "error": message})
            lines.append(f"partition: {name}\terror: {message}")
    if as_json:
        print_json(rows)
    else:
        print_lines(lines)
    if failed:
        raise Exit(BAD_ARGUMENTS)


@administrative
def describe_producers(
    topic: Annotated[str, typer.Option(help="The name of the topic.")],
    partition: Annotated[int, typer.Option(min=0, help="The number of the partition.")],
    broker_id: Annotated[
        int | None,
        typer.Option(min=0, help="The broker of the replica to ask. Default: the leader."),
    ] = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """List the idempotent producers of a partition.

    The format is that of kafka-transactions.
    """

    async def work(admin: AdminClient) -> list[Producer]:
        name = TopicPartition(topic, partition)
        return (await inspection.producers(admin, [name], broker_id))[name]

    found = administer(work, cluster)
    rows = tool_text.producer_rows(found)
    if as_json:
        print_json([dict(zip(rows[0], row, strict=True)) for row in rows[1:]])
    else:
        print_lines(tool_text.table(rows))

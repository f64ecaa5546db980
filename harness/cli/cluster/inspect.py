"""`highwater cluster elect-leaders | quorum | log-dirs | delete-records | producers`."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from kio.schema.errors import ErrorCode

from harness.admin import inspection, reassignments, tool_files, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import LogDir, Producer, Quorum
from harness.admin.errors import BadRequest
from harness.admin.reassignments import Failure
from harness.cli.base import BAD_ARGUMENTS, Debug, Exit, warn
from harness.cli.cluster.connection import (
    AsJson,
    RunDir,
    Servers,
    administer,
    print_json,
    print_lines,
    read_file,
)
from nodes.ids import TopicPartition

quorum_app = typer.Typer(help="The metadata quorum.", no_args_is_help=True)
log_dirs_app = typer.Typer(help="What lies on the brokers' disks.", no_args_is_help=True)


class ElectionType(StrEnum):
    """Who may become leader."""

    preferred = "preferred"
    unclean = "unclean"


def elect_leaders(
    election_type: Annotated[
        ElectionType,
        typer.Option(
            help="preferred: the first replica; unclean: any, where no in-sync one is left."
        ),
    ],
    topic: Annotated[str | None, typer.Option(help="One topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Its partition.")] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All that need it.")
    ] = False,
    path_to_json_file: Annotated[
        Path | None, typer.Option(help='{"partitions": [{"topic": "foo", "partition": 1}]}')
    ] = None,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Elect preferred leaders, or unclean ones, which may lose records."""
    chosen = [topic is not None, all_topic_partitions, path_to_json_file is not None]
    if chosen.count(True) != 1 or (topic is None) != (partition is None):
        raise BadRequest(
            "which partitions? Give --topic with --partition, or --all-topic-partitions, or "
            "--path-to-json-file"
        )
    wanted: list[TopicPartition] | None = None
    if topic is not None and partition is not None:
        wanted = [TopicPartition(topic, partition)]
    elif path_to_json_file is not None:
        wanted = tool_files.partitions(read_file(path_to_json_file))
    unclean = election_type is ElectionType.unclean
    kind = reassignments.UNCLEAN if unclean else reassignments.PREFERRED

    async def work(admin: AdminClient) -> dict[TopicPartition, Failure]:
        return await reassignments.elect(admin, kind, wanted)

    results = administer(work, bootstrap_servers, run)
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
        for each, (code, said) in failed.items():
            print(
                f"Error completing leader election ({name}) for partition: {each}: "
                f"{said or code.name.upper()}"
            )
    if failed:
        warn(f"{len(failed)} replica(s) could not be elected")
        raise Exit(BAD_ARGUMENTS)


@quorum_app.command("describe")
def describe_quorum(
    status: Annotated[bool, typer.Option("--status", help="A summary.")] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="Each member's position.")
    ] = False,
    human_readable: Annotated[
        bool, typer.Option("--human-readable", help="Times as how long ago.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Who leads the metadata log, and how far the others are."""
    if status == replication and not as_json:
        raise BadRequest("give one of --status and --replication")

    async def work(admin: AdminClient) -> tuple[str, Quorum]:
        return (await topics.cluster(admin)).cluster_id, await inspection.quorum(admin)

    cluster_id, quorum = administer(work, bootstrap_servers, run)
    if as_json:
        print_json(tool_text.quorum_data(cluster_id, quorum))
    elif status:
        print_lines(tool_text.quorum_lines(cluster_id, quorum))
    else:
        now_ms = time.time_ns() // 1_000_000 if human_readable else None
        print_lines(tool_text.table(tool_text.replication_rows(quorum, now_ms)))


@log_dirs_app.command("describe")
def describe_log_dirs(
    broker_list: Annotated[str, typer.Option(help="Brokers: 1,2,3; all if empty.")] = "",
    topic_list: Annotated[str, typer.Option(help="Topics with commas; all if empty.")] = "",
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Every replica's size and lag on every broker."""
    asked = [part.strip() for part in broker_list.split(",") if part.strip()]
    if bad := [part for part in asked if not part.isdigit()]:
        raise BadRequest(f"--broker-list: {bad[0]!r} is no broker number; write 1,2,3")
    names = [part.strip() for part in topic_list.split(",") if part.strip()]

    async def work(admin: AdminClient) -> dict[int, list[LogDir]]:
        live = [broker.node_id for broker in (await topics.cluster(admin)).live]
        wanted = [int(part) for part in asked] or live
        if unknown := [node for node in wanted if node not in live]:
            raise BadRequest(f"broker {unknown[0]} is not in service; those are {live}")
        return {node: await inspection.log_dirs(admin, node) for node in wanted}

    found = administer(work, bootstrap_servers, run)
    if not as_json:
        print("Querying brokers for log directories information")
        print(f"Received log directory information from brokers {tool_text.listed(found)}")
    print(tool_text.log_dirs_json(found, names))


def delete_records(
    offset_json_file: Annotated[
        Path,
        typer.Option(help='{"partitions": [{"topic": "foo", "partition": 1, "offset": 1}]}'),
    ],
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Delete everything before an offset of each partition (-1: before the high watermark)."""
    before = tool_files.offsets(read_file(offset_json_file))

    async def work(admin: AdminClient) -> dict[TopicPartition, int | Failure]:
        return await inspection.delete_records(admin, before)

    results = administer(work, bootstrap_servers, run)
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
            said = result[1] or result[0].name.upper()
            rows.append({**row, "error": said})
            lines.append(f"partition: {name}\terror: {said}")
    if as_json:
        print_json(rows)
    else:
        print_lines(lines)
    if failed:
        raise Exit(BAD_ARGUMENTS)


def describe_producers(
    topic: Annotated[str, typer.Option(help="The topic.")],
    partition: Annotated[int, typer.Option(min=0, help="The partition.")],
    broker_id: Annotated[
        int | None, typer.Option(min=0, help="A replica's broker; the leader's if not given.")
    ] = None,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The idempotent producers that a partition knows, as kafka-transactions tells of them."""

    async def work(admin: AdminClient) -> list[Producer]:
        return await inspection.producers(admin, TopicPartition(topic, partition), broker_id)

    found = administer(work, bootstrap_servers, run)
    rows = tool_text.producer_rows(found)
    if as_json:
        print_json([dict(zip(rows[0], row, strict=True)) for row in rows[1:]])
    else:
        print_lines(tool_text.table(rows))

"""`highwater cluster reassign`: as kafka-reassign-partitions, proposals by least movement."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.admin import balance, reassignments, replica_moves, tool_files, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import Reassignment
from harness.admin.errors import BadRequest
from harness.admin.replica_moves import Status
from harness.cli.base import Debug, Exit
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

app = typer.Typer(help="Move partitions between brokers.", no_args_is_help=True)

File = Annotated[
    Path,
    typer.Option("--reassignment-json-file", help="The reassignment, in Kafka's JSON format."),
]
KeepLimits = Annotated[
    bool, typer.Option("--preserve-throttles", help="Leave throttles as they are.")
]

STILL_MOVING = 2
"""Exit code of `verify` when something moves yet."""


@app.command("generate")
def generate(
    broker_list: Annotated[
        str, typer.Option(help="The brokers to be on: 1,2,3. All that are in service if empty.")
    ] = "",
    topics_file: Annotated[
        Path | None,
        typer.Option("--topics-to-move-json-file", help="Topics, in Kafka's JSON; else all."),
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Place without regard to racks.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Propose the cheapest even placement; nothing is changed."""
    names = None if topics_file is None else tool_files.topics_to_move(read_file(topics_file))
    wanted = _brokers(broker_list)

    async def work(
        admin: AdminClient,
    ) -> tuple[dict[TopicPartition, tuple[int, ...]], balance.Plan]:
        live = {each.node_id: each.rack for each in (await topics.cluster(admin)).live}
        if unknown := [node for node in wanted if node not in live]:
            raise BadRequest(f"broker {unknown[0]} is not in service; those are {sorted(live)}")
        chosen = {node: live[node] for node in wanted or sorted(live)}
        if disable_rack_aware:
            chosen = dict.fromkeys(chosen)
        current = await replica_moves.assignment(admin, names)
        sizes = await replica_moves.sizes(admin, sorted(live))
        try:
            return current, balance.spread(current, chosen, sizes)
        except balance.BalanceError as error:
            raise BadRequest(str(error)) from error

    current, plan = administer(work, bootstrap_servers, run)
    if as_json:
        print_json(
            {
                "current": _rows(current),
                "proposed": _rows({**current, **plan.targets}),
                "moved_replicas": plan.moved_replicas,
                "moved_bytes": plan.moved_bytes,
            }
        )
        return
    print("Current partition replica assignment")
    print(tool_files.write_reassignment(current))
    print()
    print("Proposed partition reassignment configuration")
    print(tool_files.write_reassignment({**current, **plan.targets}))


@app.command("execute")
def execute(
    reassignment_file: File,
    throttle: Annotated[
        int | None,
        typer.Option(min=1, help="Bytes/s that each broker may give or take for this."),
    ] = None,
    additional: Annotated[
        bool, typer.Option("--additional", help="Others are moving already; add this.")
    ] = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Begin a reassignment; `verify` tells when it is over and removes its throttle."""
    targets = tool_files.reassignment(read_file(reassignment_file))
    said: list[str] = []

    async def work(admin: AdminClient) -> dict[TopicPartition, tuple[int, ...]]:
        return await replica_moves.start(
            admin, targets, throttle=throttle, additional=additional, tell=said.append
        )

    before = administer(work, bootstrap_servers, run)
    if as_json:
        print_json({"before": _rows(before), "started": _rows(targets), "throttle": throttle})
        return
    print_lines(tool_text.rollback_lines(before))
    if throttle is not None:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to "
            "ensure the throttle is removed."
        )
    print_lines(said)
    plural = "" if len(targets) == 1 else "s"
    print(
        f"Successfully started partition reassignment{plural} for "
        f"{tool_text.listed(sorted(targets))}"
    )


@app.command("verify")
def verify(
    reassignment_file: File,
    preserve_throttles: KeepLimits = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say how far it is (exit code 2 while something moves); at the end, remove throttles."""
    targets = tool_files.reassignment(read_file(reassignment_file))

    async def work(
        admin: AdminClient,
    ) -> tuple[dict[TopicPartition, Status], bool, tuple[list[int], list[str]] | None]:
        found = await replica_moves.status(admin, targets)
        still = bool(await reassignments.ongoing(admin))
        cleared = None
        if not still and not preserve_throttles:
            cleared = await replica_moves.clear_limits(admin, targets)
        return found, still, cleared

    found, still, cleared = administer(work, bootstrap_servers, run)
    if as_json:
        print_json(
            {
                "partitions": [
                    {
                        "topic": name.topic,
                        "partition": name.partition,
                        "wanted": list(each.wanted),
                        "replicas": list(each.replicas),
                        "moving": each.moving,
                    }
                    for name, each in found.items()
                ],
                "moving": still,
                "throttles_cleared": cleared is not None,
            }
        )
    else:
        print("Status of partition reassignment:")
        print_lines(
            tool_text.verified_line(name, each.wanted, each.replicas, each.moving)
            for name, each in found.items()
        )
        _print_cleared(cleared)
    if still:
        raise Exit(STILL_MOVING)


@app.command("cancel")
def cancel(
    reassignment_file: File,
    preserve_throttles: KeepLimits = False,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Put partitions that move back to where they were."""
    targets = tool_files.reassignment(read_file(reassignment_file))

    async def work(
        admin: AdminClient,
    ) -> tuple[list[TopicPartition], tuple[list[int], list[str]] | None]:
        moved, failed = await replica_moves.cancel(admin, sorted(targets))
        if failed:
            said = replica_moves.describe_failures(failed)
            raise BadRequest(f"not all reassignments could be cancelled: {said}")
        return moved, None if preserve_throttles else await replica_moves.clear_limits(
            admin, targets
        )

    cancelled, cleared = administer(work, bootstrap_servers, run)
    if as_json:
        print_json({"cancelled": [str(name) for name in cancelled]})
        return
    if cancelled:
        plural = "" if len(cancelled) == 1 else "s"
        print(
            f"Successfully cancelled partition reassignment{plural} for: "
            f"{tool_text.listed(cancelled)}"
        )
    else:
        print("None of the specified partition reassignments are active.")
    _print_cleared(cleared)


@app.command("list")
def list_ongoing(
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The partitions that move now."""

    async def work(admin: AdminClient) -> dict[TopicPartition, Reassignment]:
        return await reassignments.ongoing(admin)

    ongoing = administer(work, bootstrap_servers, run)
    if as_json:
        print_json(tool_text.ongoing_data(ongoing))
    else:
        print_lines(tool_text.ongoing_lines(ongoing))


def _brokers(given: str) -> list[int]:
    parts = [part.strip() for part in given.split(",") if part.strip()]
    if bad := [part for part in parts if not part.isdigit()]:
        raise BadRequest(f"--broker-list: {bad[0]!r} is no broker number; write 1,2,3")
    if len(set(parts)) != len(parts):
        raise BadRequest(f"--broker-list {given}: a broker is there twice")
    return [int(part) for part in parts]


def _rows(assignment: Mapping[TopicPartition, tuple[int, ...]]) -> list[dict[str, object]]:
    return [
        {"topic": name.topic, "partition": name.partition, "replicas": list(replicas)}
        for name, replicas in sorted(assignment.items())
    ]


def _print_cleared(cleared: tuple[list[int], list[str]] | None) -> None:
    if cleared is None:
        return
    brokers, names = cleared
    print()
    plural = "" if len(brokers) == 1 else "s"
    print(f"Clearing broker-level throttles on broker{plural} {tool_text.listed(brokers)}")
    plural = "" if len(names) == 1 else "s"
    print(f"Clearing topic-level throttles on topic{plural} {tool_text.listed(names)}")

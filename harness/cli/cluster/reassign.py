"""`highwater cluster reassign`: moves partitions, as kafka-reassign-partitions does.

Unlike Kafka's tool, `generate` proposes the even placement that moves the least data.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.admin import balance, reassignments, replica_moves, tool_files, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import Reassignment
from harness.admin.errors import BadRequest
from harness.admin.replica_moves import MoveStatus
from harness.cli.base import Exit
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
    read_file,
)
from harness.cli.options import Throttle, broker_numbers, command_group
from nodes.ids import TopicPartition

app = command_group("Move partitions between brokers.")

File = Annotated[
    Path,
    typer.Option(
        "--reassignment-json-file", help="A file with the reassignment, in Kafka's JSON format."
    ),
]
KeepThrottles = Annotated[
    bool, typer.Option("--preserve-throttles", help="Do not remove the throttles of the move.")
]

STILL_MOVING = 2
"""Exit code of `verify` while a partition still moves."""


@app.command("generate")
@administrative
def generate(
    broker_list: Annotated[
        str,
        typer.Option(
            help="The brokers to place replicas on, as in 1,2,3. Default: all in service."
        ),
    ] = "",
    topics_file: Annotated[
        Path | None,
        typer.Option(
            "--topics-to-move-json-file",
            help="A file with the topics to move, in Kafka's JSON format. Default: all topics.",
        ),
    ] = None,
    disable_rack_aware: Annotated[
        bool, typer.Option("--disable-rack-aware", help="Place replicas without regard to racks.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Propose the even placement that moves the least data.

    Nothing is changed.
    """
    names = None if topics_file is None else tool_files.topics_to_move(read_file(topics_file))
    asked = broker_numbers("--broker-list", broker_list)

    async def work(
        admin: AdminClient,
    ) -> tuple[dict[TopicPartition, tuple[int, ...]], balance.PlacementPlan]:
        live = {each.node_id: each.rack for each in (await topics.cluster(admin)).live}
        if unknown := [node for node in asked if node not in live]:
            raise BadRequest(
                f"broker {unknown[0]} is not in service; the brokers in service are {sorted(live)}"
            )
        chosen = {node: live[node] for node in asked or sorted(live)}
        if disable_rack_aware:
            chosen = dict.fromkeys(chosen)
        current = await replica_moves.assignment(admin, names)
        sizes = await replica_moves.sizes(admin, sorted(live))
        try:
            return current, balance.spread(current, chosen, sizes)
        except balance.BalanceError as error:
            raise BadRequest(str(error)) from error

    current, plan = administer(work, cluster)
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
@administrative
def execute(
    reassignment_file: File,
    throttle: Throttle = None,
    additional: Annotated[
        bool,
        typer.Option("--additional", help="Start although other partitions are moving already."),
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Start a reassignment.

    `verify` shows its progress, and removes its throttle at the end.
    """
    targets = tool_files.reassignment(read_file(reassignment_file))
    messages: list[str] = []

    async def work(admin: AdminClient) -> dict[TopicPartition, tuple[int, ...]]:
        return await replica_moves.start(
            admin, targets, throttle=throttle, additional=additional, report=messages.append
        )

    before = administer(work, cluster)
    if as_json:
        print_json({"before": _rows(before), "started": _rows(targets), "throttle": throttle})
        return
    print_lines(tool_text.rollback_lines(before))
    if throttle is not None:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to "
            "ensure the throttle is removed."
        )
    print_lines(messages)
    plural = "" if len(targets) == 1 else "s"
    print(
        f"Successfully started partition reassignment{plural} for "
        f"{tool_text.listed(sorted(targets))}"
    )


@app.command("verify")
@administrative
def verify(
    reassignment_file: File,
    preserve_throttles: KeepThrottles = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the progress of a reassignment.

    When it is complete, its throttles are removed. The exit code is 2 while a partition still
    moves.
    """
    targets = tool_files.reassignment(read_file(reassignment_file))

    async def work(
        admin: AdminClient,
    ) -> tuple[dict[TopicPartition, MoveStatus], bool, tuple[list[int], list[str]] | None]:
        found = await replica_moves.status(admin, targets)
        still = bool(await reassignments.ongoing(admin))
        cleared = None
        if not still and not preserve_throttles:
            cleared = await replica_moves.clear_throttles(admin, targets)
        return found, still, cleared

    found, still, cleared = administer(work, cluster)
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
@administrative
def cancel(
    reassignment_file: File,
    preserve_throttles: KeepThrottles = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Cancel the reassignment of partitions.

    Their replicas return to where they were.
    """
    targets = tool_files.reassignment(read_file(reassignment_file))

    async def work(
        admin: AdminClient,
    ) -> tuple[list[TopicPartition], tuple[list[int], list[str]] | None]:
        moved, failed = await replica_moves.cancel(admin, sorted(targets))
        if failed:
            reasons = replica_moves.describe_failures(failed)
            raise BadRequest(f"not all reassignments could be cancelled: {reasons}")
        return moved, None if preserve_throttles else await replica_moves.clear_throttles(
            admin, targets
        )

    cancelled, cleared = administer(work, cluster)
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
@administrative
def list_ongoing(
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """List the partitions that are moving."""

    async def work(admin: AdminClient) -> dict[TopicPartition, Reassignment]:
        return await reassignments.ongoing(admin)

    ongoing = administer(work, cluster)
    if as_json:
        print_json(tool_text.ongoing_data(ongoing))
    else:
        print_lines(tool_text.ongoing_lines(ongoing))


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

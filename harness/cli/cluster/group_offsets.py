"""`highwater cluster groups reset-offsets | delete-offsets`."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from harness.admin import inspection, topics
from harness.admin.client import AdminClient
from harness.admin.errors import BadRequest
from harness.admin.groups import offsets, requests, resets, text
from harness.admin.groups.descriptions import Group
from harness.admin.groups.resets import PartitionOffsets, Reset, Target
from harness.cli.base import BAD_ARGUMENTS, Exit, warn
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
)
from harness.plans.problems import nearest
from nodes.ids import TopicPartition

GroupId = Annotated[str, typer.Argument(help="The id of the group.", metavar="GROUP")]
TopicNames = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", help="A topic, or some of its partitions as in orders:0,1. Repeatable."
    ),
]


@administrative
def reset_offsets(
    group: GroupId,
    topic: TopicNames = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions that have a committed offset.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Reset to the beginning of each log.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Reset to the end of each log.")
    ] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current",
            help="Commit the committed offsets again; the log end where there is none.",
        ),
    ] = False,
    to_offset: Annotated[
        int | None, typer.Option(min=0, help="Reset to this offset of each partition.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(help="Move each committed offset by this number; a negative one moves back."),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            help="Reset to the first record at or after this time: YYYY-MM-DDTHH:MM:SS.sss, in UTC "
            "or with a zone."
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            help="Reset to the first record that is not older than this: PnDTnHnMnS, 90s, 10m, 12h."
        ),
    ] = None,
    execute: Annotated[
        bool,
        typer.Option(
            "--execute/--dry-run", help="Commit the offsets, or only print them (the default)."
        ),
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Set the committed offsets of a group that has no members."""
    now_ms = time.time_ns() // 1_000_000
    targets = [
        *[Reset(Target.EARLIEST)] * to_earliest,
        *[Reset(Target.LATEST)] * to_latest,
        *[Reset(Target.CURRENT)] * to_current,
    ]
    if to_offset is not None:
        targets.append(Reset(Target.OFFSET, to_offset))
    if shift_by is not None:
        targets.append(Reset(Target.SHIFT, shift_by))
    if to_datetime is not None:
        targets.append(Reset(Target.TIME, resets.parse_time_ms(to_datetime)))
    if by_duration is not None:
        targets.append(Reset(Target.TIME, now_ms - resets.parse_duration_ms(by_duration)))
    if len(targets) != 1:
        raise BadRequest(
            "give one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-datetime and --by-duration"
        )
    if bool(topic) == all_topics:
        raise BadRequest("give --all-topics, or --topic for each topic to reset")
    wanted = resets.parse_partitions(topic) if topic else None

    async def work(admin: AdminClient) -> dict[TopicPartition, int]:
        await _check_without_members(admin, group)
        planned = await _planned(admin, group, targets[0], wanted)
        if execute and planned:
            await offsets.commit(admin, group, planned)
        return planned

    planned = administer(work, cluster)
    if as_json:
        print_json({"executed": execute, "offsets": text.reset_data(group, planned)})
    else:
        print_lines(text.reset_lines(group, planned))
    if not planned:
        warn(f"group {group} has no committed offsets to reset")
    elif not execute:
        warn("nothing was changed: add --execute to commit these offsets")


async def _check_without_members(admin: AdminClient, group_id: str) -> None:
    """Raise BadRequest if the group has members. A group that does not exist is made by a reset."""
    group = (await requests.describe(admin, [group_id]))[group_id]
    if group is None:
        known = [each.group_id for each in await requests.listed(admin)]
        warn(f"group {group_id} does not exist yet{nearest(group_id, known)}")
    elif group.members:
        raise BadRequest(
            f"group {group_id} has members (its state is {group.state}), and they would commit "
            f"over a reset; stop them first: {', '.join(map(str, group.members))}"
        )


async def _planned(
    admin: AdminClient,
    group_id: str,
    reset: Reset,
    wanted: Mapping[str, Sequence[int] | None] | None,
) -> dict[TopicPartition, int]:
    """Return the offsets to commit; `wanted` None stands for all that are committed already."""
    committed = (await offsets.committed(admin, [group_id]))[group_id]
    names = list(committed) if wanted is None else await _partitions(admin, wanted)
    starts = await inspection.log_offsets(admin, names, inspection.EARLIEST)
    ends = await inspection.log_offsets(admin, names, inspection.LATEST)
    if unled := [name for name in names if name not in starts or name not in ends]:
        raise BadRequest(f"partition {unled[0]} does not exist or has no leader; leave it out")
    at_time: Mapping[TopicPartition, int] = {}
    if reset.target is Target.TIME:
        at_time = await inspection.log_offsets(admin, names, reset.value)
    planned, warnings = resets.plan(
        reset,
        {
            name: PartitionOffsets(
                start=starts[name],
                end=ends[name],
                committed=committed.get(name),
                at_time=at_time.get(name, -1),
            )
            for name in names
        },
    )
    for warning in warnings:
        warn(warning)
    return planned


async def _partitions(
    admin: AdminClient, wanted: Mapping[str, Sequence[int] | None]
) -> list[TopicPartition]:
    """Return the partitions of topics, all of a topic with None. Raises BadRequest."""
    found: list[TopicPartition] = []
    for topic in await topics.describe(admin, sorted(wanted)):
        known = [each.name for each in topic.partitions]
        chosen = wanted[topic.name]
        names = known if chosen is None else [TopicPartition(topic.name, each) for each in chosen]
        if unknown := [name for name in names if name not in known]:
            raise BadRequest(
                f"partition {unknown[0]} does not exist: {topic.name} has {len(known)} partitions"
            )
        found += names
    return found


@administrative
def delete_offsets(
    group: GroupId,
    topic: TopicNames = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Delete the committed offsets of topics that the group's members have not subscribed to."""
    if not topic:
        raise BadRequest("name the topics whose offsets to delete: --topic TOPIC")
    wanted = resets.parse_partitions(topic)

    async def work(admin: AdminClient) -> tuple[Group, dict[TopicPartition, str | None]]:
        (described,) = (await requests.describe_existing(admin, [group])).values()
        committed = (await offsets.committed(admin, [group]))[group]
        names = _committed_partitions(group, committed, wanted)
        refused = await offsets.delete(admin, group, names)
        errors = {name: code.name.upper() for name, (code, _) in refused.items()}
        return described, {name: errors.get(name) for name in names}

    described, results = administer(work, cluster)
    failed = sum(error is not None for error in results.values())
    if as_json:
        print_json(
            [
                {"topic": name.topic, "partition": name.partition, "error": error}
                for name, error in results.items()
            ]
        )
    else:
        if not failed:
            print(f"Request succeeded for deleting offsets from group {group}.")
        print_lines(text.deleted_lines(results))
    if failed:
        warn(
            f"{failed} offset(s) of group {group} were not deleted; while members have subscribed "
            f"to a topic, its offsets stay. Members: {', '.join(map(str, described.members))}"
        )
        raise Exit(BAD_ARGUMENTS)


def _committed_partitions(
    group_id: str,
    committed: Iterable[TopicPartition],
    wanted: Mapping[str, Sequence[int] | None],
) -> list[TopicPartition]:
    """Return the wanted partitions, all with a committed offset. Raises BadRequest about others."""
    found: list[TopicPartition] = []
    for topic, numbers in wanted.items():
        known = [name for name in sorted(committed) if name.topic == topic]
        names = known if numbers is None else [TopicPartition(topic, each) for each in numbers]
        missing = [str(name) for name in names if name not in known]
        if missing or not names:
            raise BadRequest(
                f"group {group_id} has no committed offset for {missing[0] if missing else topic}, "
                f"only for: {', '.join(map(str, sorted(committed))) or 'no partition'}"
            )
        found += names
    return found

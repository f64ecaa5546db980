"""The output of kafka-consumer-groups, line by line, and the same facts for --json. Pure.

The columns are those of Kafka 4.2, because scripts parse them, without blanks at the ends of lines.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness.admin.groups.descriptions import Group, GroupListing, Member, Position
from harness.admin.tool_text import listed
from nodes.ids import TopicPartition

NONE: Final = "-"


def aligned(rows: Sequence[Sequence[str]], least: Sequence[int]) -> Iterator[str]:
    """Yield rows of equal length as lines; `least` has the least width of each column."""
    widths = [max(least[n], *(len(row[n]) for row in rows)) for n in range(len(least))]
    for row in rows:
        yield " ".join(f"{cell:<{n}}" for cell, n in zip(row, widths, strict=True)).rstrip()


def _or_none(value: object) -> str:
    return NONE if value is None else str(value)


def listing_lines(
    groups: Sequence[GroupListing], *, types: bool = False, states: bool = False
) -> Iterator[str]:
    """Yield the ids of groups, or a table of them with their types, states or both."""
    if not types and not states:
        yield from (group.group_id for group in groups)
        return
    rows = [["GROUP", *["TYPE"] * types, *["STATE"] * states]]
    rows += [[group.group_id, *[group.type] * types, *[group.state] * states] for group in groups]
    longest = max((len(group.group_id) for group in groups), default=0)
    yield from aligned(rows, [max(15, longest) + 10, *[20] * (types + states)])


def listing_data(group: GroupListing) -> dict[str, Any]:
    """Return a listed group for --json."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
    }


def state_lines(group: Group, *, verbose: bool = False) -> Iterator[str]:
    """Yield the table of one group's coordinator and state; `verbose` adds its epochs."""
    where = group.coordinator
    columns = [
        ("GROUP", group.group_id, 15),
        ("COORDINATOR (ID)", f"{where.host}:{where.port}  ({where.node_id})", 25),
        ("ASSIGNMENT-STRATEGY", group.assignor or NONE, 20),
        ("STATE", group.state, 20),
    ]
    if verbose:
        columns += [
            ("GROUP-EPOCH", _or_none(group.epoch), 15),
            ("TARGET-ASSIGNMENT-EPOCH", _or_none(group.assignment_epoch), 25),
        ]
    columns.append(("#MEMBERS", str(len(group.members)), 0))
    yield from _table([columns])


def _table(rows: Sequence[Sequence[tuple[str, str, int]]]) -> Iterator[str]:
    """Yield an empty line, a header and rows; each cell has its column's name and least width."""
    yield ""
    header = [name for name, _, _ in rows[0]]
    yield from aligned(
        [header, *([cell for _, cell, _ in row] for row in rows)],
        [least for _, _, least in rows[0]],
    )


def member_lines(group: Group, *, verbose: bool = False) -> Iterator[str]:
    """Yield the table of one group's members; `verbose` adds epochs and assignments.

    Nothing comes of a group without members.
    """
    instances = any(member.instance_id for member in group.members)
    upgrades = {member.upgraded for member in group.members} >= {True, False}

    def columns(member: Member) -> Iterator[tuple[str, str, int]]:
        yield "GROUP", group.group_id, 15
        yield "CONSUMER-ID", member.member_id, 15
        if instances:
            yield "GROUP-INSTANCE-ID", member.instance_id or "", 17
        yield "HOST", member.host, 15
        yield "CLIENT-ID", member.client_id, 15
        yield "#PARTITIONS", str(len(member.assignment)), 15
        if verbose:
            yield "CURRENT-EPOCH", _or_none(member.epoch), 15
            yield "CURRENT-ASSIGNMENT", assignment_text(member.assignment), 20
            yield "TARGET-EPOCH", _or_none(group.assignment_epoch), 15
            yield "TARGET-ASSIGNMENT", assignment_text(member.target or ()), 20
            if upgrades:
                yield "UPGRADED", _or_none(member.upgraded).lower(), 0

    if group.members:
        yield from _table([list(columns(member)) for member in group.members])


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """Return "orders:0,1;payments:2", or "-" without partitions."""
    numbers: dict[str, list[int]] = {}
    for each in sorted(partitions):
        numbers.setdefault(each.topic, []).append(each.partition)
    return ";".join(f"{topic}:{listed(own)}" for topic, own in numbers.items()) or NONE


def offset_lines(
    group_id: str, positions: Sequence[Position], *, verbose: bool = False
) -> Iterator[str]:
    """Yield the table of one group's offsets and lags; `verbose` adds leader epochs."""

    def columns(each: Position) -> Iterator[tuple[str, str, int]]:
        yield "GROUP", group_id, 15
        yield "TOPIC", each.partition.topic, 15
        yield "PARTITION", str(each.partition.partition), 10
        if verbose:
            yield "LEADER-EPOCH", _or_none(each.committed and each.committed.leader_epoch), 15
        yield "CURRENT-OFFSET", _or_none(each.committed and each.committed.offset), 15
        yield "LOG-END-OFFSET", _or_none(each.log_end_offset), 15
        yield "LAG", _or_none(each.lag), 15
        yield "CONSUMER-ID", each.member.member_id if each.member else NONE, 15
        yield "HOST", each.member.host if each.member else NONE, 15
        yield "CLIENT-ID", each.member.client_id if each.member else NONE, 0

    if positions:
        yield from _table([list(columns(each)) for each in positions])


def group_data(group: Group) -> dict[str, Any]:
    """Return a group with its members for --json."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "coordinator": group.coordinator.node_id,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [_member_data(member) for member in group.members],
    }


def _member_data(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "upgraded": member.upgraded,
        "assignment": list(map(str, sorted(member.assignment))),
        "target": None if member.target is None else list(map(str, sorted(member.target))),
    }


def position_data(group_id: str, each: Position) -> dict[str, Any]:
    """Return a position for --json."""
    return {
        "group": group_id,
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "current_offset": each.committed.offset if each.committed else None,
        "leader_epoch": each.committed.leader_epoch if each.committed else None,
        "metadata": each.committed.metadata if each.committed else None,
        "log_end_offset": each.log_end_offset,
        "lag": each.lag,
        "member_id": each.member.member_id if each.member else None,
        "client_id": each.member.client_id if each.member else None,
        "host": each.member.host if each.member else None,
    }


def reset_lines(group_id: str, offsets: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Yield the table of the offsets that a reset commits."""
    rows = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]]
    rows += [
        [group_id, name.topic, str(name.partition), str(offset)]
        for name, offset in sorted(offsets.items())
    ]
    yield ""
    yield from aligned(rows, [15, 15, 10, 0])


def reset_data(group_id: str, offsets: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    """Return the offsets that a reset commits, for --json."""
    return [
        {"group": group_id, "topic": name.topic, "partition": name.partition, "new_offset": offset}
        for name, offset in sorted(offsets.items())
    ]


def deleted_lines(results: Mapping[TopicPartition, str | None]) -> Iterator[str]:
    """Yield the table of deleted offsets; a partition whose offset stays has an error."""
    rows = [["TOPIC", "PARTITION", "STATUS"]]
    rows += [
        [name.topic, str(name.partition), f"Error: {error}" if error else "Successful"]
        for name, error in sorted(results.items())
    ]
    yield ""
    yield from aligned(rows, [15, 10, 15])

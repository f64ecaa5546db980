"""`highwater cluster groups`: consumer groups and their offsets, as kafka-consumer-groups does."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import typer

from harness.admin import inspection
from harness.admin.client import AdminClient
from harness.admin.errors import BadRequest
from harness.admin.groups import offsets, requests, text
from harness.admin.groups.descriptions import (
    CLASSIC,
    CONSUMER,
    EMPTY,
    REBALANCING,
    Group,
    GroupListing,
    Position,
    positions,
)
from harness.cli.base import warn
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
)
from harness.cli.cluster.group_offsets import delete_offsets, reset_offsets
from harness.cli.options import command_group, known_words

app = command_group("Show and change consumer groups and their offsets.")
app.command("reset-offsets")(reset_offsets)
app.command("delete-offsets")(delete_offsets)

Groups = Annotated[
    list[str] | None, typer.Argument(help="The ids of groups. Default: all consumer groups.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show more columns.")]

STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", EMPTY)
TYPES = (CLASSIC, CONSUMER)


@app.command("list")
@administrative
def list_groups(
    state: Annotated[
        str, typer.Option(help="Only groups in these states, such as empty,stable.")
    ] = "",
    type_: Annotated[
        str, typer.Option("--type", help="Only groups of these types: classic,consumer.")
    ] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the type and the state of each group.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """List the ids of all consumer groups."""
    states = known_words("--state", state, STATES)
    types = known_words("--type", type_, TYPES)

    async def work(admin: AdminClient) -> list[GroupListing]:
        return await requests.consumer_groups(admin, states=states, types=types)

    found = administer(work, cluster)
    if as_json:
        print_json([text.listing_data(each) for each in found])
    else:
        print_lines(
            text.listing_lines(found, types=verbose or bool(types), states=verbose or bool(states))
        )


@app.command("describe")
@administrative
def describe_groups(
    groups: Groups = None,
    verbose: Verbose = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the coordinator, assignor, state and size of groups."""
    found = administer(lambda admin: _described(admin, groups), cluster)
    _print_groups(
        found, as_json=as_json, lines=lambda group: text.state_lines(group, verbose=verbose)
    )


@app.command("members")
@administrative
def describe_members(
    groups: Groups = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show epochs and assigned partitions.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the members of groups."""
    found = administer(lambda admin: _described(admin, groups), cluster)
    _print_groups(
        found, as_json=as_json, lines=lambda group: text.member_lines(group, verbose=verbose)
    )


@app.command("offsets")
@administrative
def describe_offsets(
    groups: Groups = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the leader epoch of each offset.")
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show the committed offsets and lags of groups, and who reads each partition."""

    async def work(admin: AdminClient) -> list[tuple[Group, list[Position]]]:
        found = await _described(admin, groups)
        committed = await offsets.committed(admin, [group.group_id for group in found])
        wanted = {name for own in committed.values() for name in own}
        wanted |= {name for group in found for each in group.members for name in each.assignment}
        ends = await inspection.log_offsets(admin, wanted, inspection.LATEST)
        return [(group, positions(group, committed[group.group_id], ends)) for group in found]

    found = administer(work, cluster)
    if as_json:
        print_json(
            [text.position_data(group.group_id, row) for group, rows in found for row in rows]
        )
        return
    for group, rows in found:
        _warn_of_state(group)
        print_lines(text.offset_lines(group.group_id, rows, verbose=verbose))


@app.command("delete")
@administrative
def delete_groups(
    groups: Annotated[list[str], typer.Argument(help="The ids of the groups.")],
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Delete groups and their offsets. Groups with members are refused."""

    async def work(admin: AdminClient) -> None:
        for group_id, group in (await requests.describe_existing(admin, groups)).items():
            if group.members:
                raise BadRequest(
                    f"group {group_id} has members, so nothing was deleted; stop them first: "
                    f"{', '.join(map(str, group.members))}"
                )
        await requests.delete(admin, groups)

    administer(work, cluster)
    if as_json:
        print_json({"deleted": groups})
    else:
        names = ", ".join(f"'{group_id}'" for group_id in groups)
        print(f"Deletion of requested consumer groups ({names}) was successful.")


async def _described(admin: AdminClient, groups: Sequence[str] | None) -> list[Group]:
    """Return these groups, or all consumer groups. Raises BadRequest about an unknown one."""
    if groups:
        found = await requests.describe_existing(admin, list(dict.fromkeys(groups)))
        return list(found.values())
    listed = [each.group_id for each in await requests.consumer_groups(admin)]
    described = await requests.describe(admin, listed)
    return [group for group in described.values() if group is not None]


def _print_groups(
    groups: Iterable[Group], *, as_json: bool, lines: Callable[[Group], Iterable[str]]
) -> None:
    if as_json:
        print_json([text.group_data(group) for group in groups])
        return
    for group in groups:
        _warn_of_state(group)
        print_lines(lines(group))


def _warn_of_state(group: Group) -> None:
    """Print what the state of a group means for its table."""
    if group.state in REBALANCING:
        warn(f"group {group.group_id} is rebalancing")
    elif not group.members:
        warn(f"group {group.group_id} has no active members")

"""`highwater cluster brokers`: lists, adds and removes brokers."""

import sys
from collections import Counter
from typing import Annotated

import typer

from harness.admin import inspection, replica_moves, scaling, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import Cluster, Topic
from harness.admin.errors import BadRequest
from harness.admin.scaling import MoveOptions, MoveTotals
from harness.cli.base import ensure_privileges
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
)
from harness.cli.options import Throttle, command_group
from nodes.ids import TopicPartition

app = command_group("List, add and remove brokers.")

CHANGE_TIMEOUT_S = 120.0


@app.command("list")
@administrative
def list_brokers(
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """List the brokers with their replicas and leaders."""

    async def work(
        admin: AdminClient,
    ) -> tuple[Cluster, list[Topic], dict[int, int | None]]:
        described = await topics.cluster(admin)
        tells_sizes = await admin.serves("describe_log_dirs")
        held: dict[int, int | None] = {}
        for broker in described.brokers:
            held[broker.node_id] = None
            if tells_sizes and not broker.fenced:
                dirs = await inspection.log_dirs(admin, broker.node_id)
                held[broker.node_id] = sum(
                    replica.size_bytes for each in dirs for replica in each.replicas.values()
                )
        return described, await topics.describe(admin), held

    described, found, held = administer(work, cluster)
    partitions = [partition for topic in found for partition in topic.partitions]
    replicas = Counter(node for each in partitions for node in each.replicas)
    leads = Counter(each.leader for each in partitions)
    preferred = Counter(each.replicas[0] for each in partitions)
    rows = [
        {
            "id": each.node_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "state": "fenced" if each.fenced else "unfenced",
            "replicas": replicas[each.node_id],
            "leaders": leads[each.node_id],
            "preferred_leaders": preferred[each.node_id],
            "bytes": held[each.node_id],
        }
        for each in described.brokers
    ]
    if as_json:
        print_json({"controller": described.controller, "brokers": rows})
        return
    header = ["ID", "HOST", "PORT", "RACK", "STATE", "REPLICAS", "LEADERS", "PREFERRED", "BYTES"]
    cells = [["-" if value is None else str(value) for value in row.values()] for row in rows]
    print_lines(tool_text.table([header, *cells]))


@app.command("add")
@administrative
def add_brokers(
    onto: Annotated[
        list[int] | None,
        typer.Argument(
            help="With --bootstrap-servers: the numbers of new brokers that already run."
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=50,
            help="Number of brokers to start in a cluster of `cluster up`. Default: 1.",
        ),
    ] = None,
    rack: Annotated[
        str | None,
        typer.Option(help="The rack of the new brokers. Default: the rack with the fewest."),
    ] = None,
    throttle: Throttle = None,
    rebalance: Annotated[
        bool, typer.Option(help="Move as few replicas to the new brokers as evens the load.")
    ] = True,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Add brokers, and spread the load over all brokers.

    The brokers are started in a detached cluster of `cluster up`. With --bootstrap-servers no
    broker is started: name the new brokers that already run.
    """
    if cluster.is_foreign and (count is not None or not onto):
        raise BadRequest(
            "highwater cannot start brokers of a cluster that it does not run: start them there, "
            "then name them, as in `brokers add 4 5 --bootstrap-servers ...`"
        )
    added = list(onto or ())
    if not added:
        added = _start(cluster, count or 1, rack)

    async def work(admin: AdminClient) -> MoveTotals:
        live = {each.node_id for each in (await topics.cluster(admin)).live}
        if absent := [node for node in added if node not in live]:
            raise BadRequest(
                f"broker {absent[0]} is not in service; the brokers in service are {sorted(live)}"
            )
        return await scaling.rebalance(admin, _watch(throttle)) if rebalance else MoveTotals()

    moved = administer(work, cluster, timeout_s=CHANGE_TIMEOUT_S)
    if as_json:
        print_json({"added": added, **_moved(moved)})
    else:
        print(f"Added broker{'' if len(added) == 1 else 's'} {tool_text.listed(added)}.")
        _print_moved(moved)


@app.command("remove")
@administrative
def remove_brokers(
    nodes: Annotated[list[int], typer.Argument(help="The numbers of the brokers.")],
    throttle: Throttle = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Move all replicas off brokers, then stop the brokers.

    With --bootstrap-servers the brokers are only emptied.
    """
    ours = not cluster.is_foreign
    if len(set(nodes)) != len(nodes):
        raise BadRequest(f"a broker is named twice: {tool_text.listed(nodes)}")
    if ours:
        from harness.run import cluster_membership

        cluster_membership.check_removable(cluster.run_dir(), nodes)

    async def work(admin: AdminClient) -> MoveTotals:
        moved = await scaling.drain(admin, nodes, _watch(throttle))
        left = _still_held(await replica_moves.assignment(admin), nodes)
        if left:
            raise BadRequest(
                f"{left[0]} got a replica on one of these brokers while they were emptied; try "
                "again"
            )
        return moved

    moved = administer(work, cluster, timeout_s=CHANGE_TIMEOUT_S)
    if ours:
        _stop(cluster, nodes)
    if as_json:
        print_json({"removed" if ours else "emptied": nodes, **_moved(moved)})
        return
    which = f"broker{'' if len(nodes) == 1 else 's'} {tool_text.listed(nodes)}"
    _print_moved(moved)
    if ours:
        print(f"Removed {which}.")
    else:
        print(f"Emptied {which}: stop these brokers, then run `brokers unregister`.")


@app.command("unregister")
@administrative
def unregister_brokers(
    nodes: Annotated[list[int], typer.Argument(help="The numbers of stopped brokers.")],
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Remove stopped brokers from the cluster's metadata.

    They must not have replicas.
    """

    async def work(admin: AdminClient) -> None:
        if left := _still_held(await replica_moves.assignment(admin), nodes):
            raise BadRequest(
                f"{left[0]} has a replica on one of these brokers: move it away first with "
                "`brokers remove`"
            )
        for node in nodes:
            await inspection.unregister(admin, node)

    administer(work, cluster)
    if as_json:
        print_json({"unregistered": nodes})
    else:
        print_lines(f"Unregistered broker {node}." for node in nodes)


def _start(cluster: ClusterChoice, count: int, rack: str | None) -> list[int]:
    from harness.run import cluster_membership

    ensure_privileges()
    return cluster_membership.add_brokers(cluster.run_dir(), count, rack, tell=_print_progress)


def _stop(cluster: ClusterChoice, nodes: list[int]) -> None:
    from harness.run import cluster_membership

    ensure_privileges()

    def forget(bootstrap: str, node: int) -> None:
        async def work(admin: AdminClient) -> None:
            await inspection.unregister(admin, node)

        administer(work, ClusterChoice(bootstrap_servers=bootstrap))

    cluster_membership.remove_brokers(cluster.run_dir(), nodes, forget=forget, tell=_print_progress)


def _still_held(
    assignment: dict[TopicPartition, tuple[int, ...]], nodes: list[int]
) -> list[TopicPartition]:
    return [name for name, replicas in assignment.items() if not set(nodes).isdisjoint(replicas)]


def _watch(throttle: int | None) -> MoveOptions:
    return MoveOptions(report=_print_progress, throttle=throttle)


def _print_progress(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _moved(moved: MoveTotals) -> dict[str, int]:
    return {
        "moved_partitions": moved.partitions,
        "moved_replicas": moved.replicas,
        "moved_bytes": moved.bytes,
    }


def _print_moved(moved: MoveTotals) -> None:
    if moved.partitions:
        print(f"Moved {moved.replicas} replicas ({moved.bytes:,} bytes).")
    else:
        print("Nothing had to be moved.")

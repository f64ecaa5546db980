"""`highwater cluster brokers`: who there is, and letting brokers come and go."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from harness.admin import inspection, replica_moves, scaling, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.descriptions import Cluster, Topic
from harness.admin.errors import BadRequest
from harness.admin.scaling import Moved, Watch
from harness.cli.base import Debug, ensure_privileges
from harness.cli.cluster.connection import (
    AsJson,
    RunDir,
    Servers,
    administer,
    print_json,
    print_lines,
)
from nodes.ids import TopicPartition

app = typer.Typer(help="Brokers: list, add, remove.", no_args_is_help=True)

Throttle = Annotated[
    int | None, typer.Option(min=1, help="Bytes/s that each broker may give or take for this.")
]

CHANGE_TIMEOUT_S = 120.0


@app.command("list")
def list_brokers(
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Every broker, what it holds and what it leads."""

    async def work(
        admin: AdminClient,
    ) -> tuple[Cluster, list[Topic], dict[int, int | None]]:
        cluster = await topics.cluster(admin)
        known = await admin.serves("describe_log_dirs")
        held: dict[int, int | None] = {}
        for broker in cluster.brokers:
            held[broker.node_id] = None
            if known and not broker.fenced:
                dirs = await inspection.log_dirs(admin, broker.node_id)
                held[broker.node_id] = sum(
                    replica.size_bytes for each in dirs for replica in each.replicas.values()
                )
        return cluster, await topics.describe(admin), held

    cluster, found, held = administer(work, bootstrap_servers, run)
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
        for each in cluster.brokers
    ]
    if as_json:
        print_json({"controller": cluster.controller, "brokers": rows})
        return
    header = ["ID", "HOST", "PORT", "RACK", "STATE", "REPLICAS", "LEADERS", "PREFERRED", "BYTES"]
    cells = [["-" if value is None else str(value) for value in row.values()] for row in rows]
    print_lines(tool_text.table([header, *cells]))


@app.command("add")
def add_brokers(
    onto: Annotated[
        list[int] | None,
        typer.Argument(help="Brokers of a foreign cluster that were started already."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, max=50, help="How many to start in a cluster of ours.")
    ] = None,
    rack: Annotated[
        str | None, typer.Option(help="Their rack; the one with the fewest if not given.")
    ] = None,
    throttle: Throttle = None,
    rebalance: Annotated[
        bool, typer.Option(help="Move replicas to them, as few as evens the load.")
    ] = True,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Start brokers in a detached cluster (or take those named), and even the load over all."""
    if bootstrap_servers is not None and (count is not None or not onto):
        raise BadRequest(
            "brokers of a foreign cluster are started by whoever runs it: name those that it is "
            "to be spread over, as in `brokers add 4 5 --bootstrap-servers ...`"
        )
    added = list(onto or ())
    if not added:
        added = _start(run, count or 1, rack)

    async def work(admin: AdminClient) -> Moved:
        live = {each.node_id for each in (await topics.cluster(admin)).live}
        if absent := [node for node in added if node not in live]:
            raise BadRequest(f"broker {absent[0]} is not in service; those are {sorted(live)}")
        return await scaling.rebalance(admin, _watch(throttle)) if rebalance else Moved()

    moved = administer(work, bootstrap_servers, run, timeout_s=CHANGE_TIMEOUT_S)
    if as_json:
        print_json({"added": added, **_moved(moved)})
    else:
        print(f"Added broker{'' if len(added) == 1 else 's'} {tool_text.listed(added)}.")
        _print_moved(moved)


@app.command("remove")
def remove_brokers(
    nodes: Annotated[list[int], typer.Argument(help="The brokers' numbers.")],
    throttle: Throttle = None,
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Move everything off brokers; then stop and forget them, where the cluster is ours."""
    ours = bootstrap_servers is None
    if len(set(nodes)) != len(nodes):
        raise BadRequest(f"a broker is named twice: {tool_text.listed(nodes)}")
    if ours:
        from harness.run import cluster_membership

        cluster_membership.check_removable(run, nodes)

    async def work(admin: AdminClient) -> Moved:
        moved = await scaling.drain(admin, nodes, _watch(throttle))
        left = _still_held(await replica_moves.assignment(admin), nodes)
        if left:
            raise BadRequest(
                f"{left[0]} came to a broker that leaves while it was emptied; try again"
            )
        return moved

    moved = administer(work, bootstrap_servers, run, timeout_s=CHANGE_TIMEOUT_S)
    if ours:
        _stop(run, nodes)
    if as_json:
        print_json({"removed" if ours else "emptied": nodes, **_moved(moved)})
        return
    which = f"broker{'' if len(nodes) == 1 else 's'} {tool_text.listed(nodes)}"
    _print_moved(moved)
    if ours:
        print(f"Removed {which}.")
    else:
        print(f"Emptied {which}: stop what runs there, then `brokers unregister`.")


@app.command("unregister")
def unregister_brokers(
    nodes: Annotated[list[int], typer.Argument(help="Brokers that are stopped for good.")],
    bootstrap_servers: Servers = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make the cluster forget brokers that are stopped for good and hold nothing."""

    async def work(admin: AdminClient) -> None:
        if left := _still_held(await replica_moves.assignment(admin), nodes):
            raise BadRequest(
                f"{left[0]} has a replica on a broker that is to be forgotten: empty it first, "
                "with `brokers remove`"
            )
        for node in nodes:
            await inspection.unregister(admin, node)

    administer(work, bootstrap_servers, run)
    if as_json:
        print_json({"unregistered": nodes})
    else:
        print_lines(f"Unregistered broker {node}." for node in nodes)


def _start(run: Path | None, count: int, rack: str | None) -> list[int]:
    from harness.run import cluster_membership

    ensure_privileges()
    return cluster_membership.add_brokers(run, count, rack, tell=_tell)


def _stop(run: Path | None, nodes: list[int]) -> None:
    from harness.run import cluster_membership

    ensure_privileges()

    def forget(bootstrap: str, node: int) -> None:
        async def work(admin: AdminClient) -> None:
            await inspection.unregister(admin, node)

        administer(work, bootstrap, None)

    cluster_membership.remove_brokers(run, nodes, forget=forget, tell=_tell)


def _still_held(
    assignment: dict[TopicPartition, tuple[int, ...]], nodes: list[int]
) -> list[TopicPartition]:
    return [name for name, replicas in assignment.items() if not set(nodes).isdisjoint(replicas)]


def _watch(throttle: int | None) -> Watch:
    return Watch(tell=_tell, throttle=throttle)


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _moved(moved: Moved) -> dict[str, int]:
    return {
        "moved_partitions": moved.partitions,
        "moved_replicas": moved.replicas,
        "moved_bytes": moved.bytes,
    }


def _print_moved(moved: Moved) -> None:
    if moved.partitions:
        print(f"Moved {moved.replicas} replicas ({moved.bytes:,} bytes).")
    else:
        print("Nothing had to be moved.")

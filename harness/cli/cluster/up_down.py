"""`highwater cluster up` and `down`; the administrative commands are loaded on demand."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from harness.admin.errors import BadRequest
from harness.cli.base import (
    clean_up_killed_runs,
    ensure_privileges,
    on_signals,
    print_cleaned,
    warn,
)
from harness.cli.options import (
    DEFAULT_STORE,
    BrokerModule,
    ControlPlane,
    Debug,
    KafkaHome,
    Store,
    SystemName,
    ZooKeepers,
    comma_separated,
    command_group,
    key_values,
)
from harness.systems.node_roles import Layout

DEFAULT_NODES: Final = 3
DEFAULT_CONTROLLERS: Final = 3
"""The controllers of a cluster for which only the brokers were given: the metadata quorum survives
the loss of one. With fewer brokers than this a single controller is enough."""

DEFAULT_ZOOKEEPERS: Final = 3


class _ClusterGroup(TyperGroup):
    """Loads the administrative commands when one is used or listed.

    They import the codecs of Kafka's protocol, which would slow down every other command.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._load()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def _load(self) -> None:
        from harness.cli.cluster import administration

        found: Any = typer.main.get_command(administration.app)
        self.commands.update(found.commands)


cluster_app = command_group(
    "Run a cluster for any Kafka client, and administer clusters.", cls=_ClusterGroup
)


@cluster_app.command("up")
def cluster_up(
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=15,
            help=f"Number of nodes that are broker and controller. Default: {DEFAULT_NODES}.",
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=50,
            help="Number of nodes that are only brokers, instead of --nodes. Such brokers can be "
            "added and removed while the cluster runs.",
        ),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=15,
            help=f"Number of nodes that are only controllers, with --brokers. Default: "
            f"{DEFAULT_CONTROLLERS}, or 1 with fewer than {DEFAULT_CONTROLLERS} brokers.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="A name for the cluster; `cluster down` and the administrative commands accept it."
        ),
    ] = None,
    racks: Annotated[
        str, typer.Option(help="Racks of the brokers, by commas; the brokers take them in turn.")
    ] = "",
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Partitions of a new topic, if its creator names no number."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A server property KEY=VALUE of every node. Repeatable."),
    ] = None,
    system: SystemName = None,
    control_plane: ControlPlane = None,
    zookeepers: ZooKeepers = None,
    kafka_home: KafkaHome = None,
    broker_module: BrokerModule = None,
    store: Store = DEFAULT_STORE,
    detach: Annotated[
        bool, typer.Option(help="Return at once and leave the cluster running.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Start a cluster, and run it until Ctrl-C.

    It prints the bootstrap servers for Kafka clients. With --detach the command returns, and the
    cluster runs until `highwater cluster down`.
    """
    from harness.plans.plan import build
    from harness.run import cluster

    if control_plane == "zookeeper":
        layout = _beside_zookeeper(nodes, controllers, brokers, zookeepers, racks)
    elif zookeepers is not None:
        raise BadRequest("--zookeepers goes with --control-plane zookeeper: give both, or neither")
    else:
        layout = _layout(nodes, controllers, brokers, racks)
    defaults = {} if partitions is None else {"num.partitions": partitions}
    raw = {
        "name": cluster.UNNAMED,
        "seed": 0,
        "nodes": min(15, len(layout.nodes) - len(layout.zookeepers)),
        "broker": {**defaults, **key_values("--config", config)},
    }
    flags = {
        "name": name,
        "system": system,
        "kafka_home": None if kafka_home is None else str(kafka_home),
        "broker_module": broker_module,
        "control_plane": control_plane,
        "zookeepers": zookeepers,
    }
    plan = build(raw, where="cluster up", flags=flags)
    ensure_privileges()
    clean_up_killed_runs()
    stop = threading.Event()
    on_signals(stop.set)
    print(f"starting {len(layout.nodes)} nodes", file=sys.stderr, flush=True)

    def print_facts(facts: Mapping[str, str]) -> None:
        for fact, value in facts.items():
            print(f"{fact:<10} {value}", flush=True)

    cluster.up(plan, layout, root=store, detach=detach, stop=stop, say=print_facts, warn=warn)
    if not detach:
        print("the cluster is down; its logs and data stay in the store", file=sys.stderr)


@cluster_app.command("down")
def cluster_down(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="The run directory that `cluster up` printed. Default: all detached clusters."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the cluster, from `cluster up --name`.")
    ] = None,
    store: Store = DEFAULT_STORE,
    debug: Debug = False,
) -> None:
    """End detached clusters.

    Their logs and data stay in the store.
    """
    from harness.run import cluster

    if name is not None:
        run = cluster.find(run, name).run
    ensure_privileges()
    print_cleaned(cluster.down(store, run), "no detached cluster is up")


def _beside_zookeeper(
    nodes: int | None,
    controllers: int | None,
    brokers: int | None,
    zookeepers: int | None,
    racks: str,
) -> Layout:
    """Return brokers and ZooKeeper nodes. Raises BadRequest, LayoutError."""
    if controllers is not None:
        raise BadRequest(
            "--controllers is for the metadata quorum: beside ZooKeeper one of the brokers is the "
            "controller; leave it out"
        )
    if nodes is not None and brokers is not None:
        raise BadRequest("give --nodes or --brokers: beside ZooKeeper both mean the brokers")
    return Layout.beside_zookeeper(
        brokers=brokers or nodes or DEFAULT_NODES,
        zookeepers=DEFAULT_ZOOKEEPERS if zookeepers is None else zookeepers,
        racks=comma_separated(racks),
    )


def _layout(nodes: int | None, controllers: int | None, brokers: int | None, racks: str) -> Layout:
    """Return the roles and racks of the nodes that the options ask for. Raises BadRequest."""
    names = comma_separated(racks)
    if controllers is None and brokers is None:
        return Layout.combined(range(1, (nodes or DEFAULT_NODES) + 1), names)
    if nodes is not None:
        raise BadRequest(
            "give --nodes, or --brokers and --controllers: nodes have both roles, or one each"
        )
    if brokers is None:
        raise BadRequest("give --controllers together with --brokers: a cluster needs brokers")
    if controllers is None:
        controllers = DEFAULT_CONTROLLERS if brokers >= DEFAULT_CONTROLLERS else 1
    return Layout.split(controllers=controllers, brokers=brokers, racks=names)

"""`highwater cluster`: a running cluster for any Kafka client, and its administration."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness.admin.errors import BadRequest
from harness.cli.base import (
    BrokerModule,
    Debug,
    KafkaHome,
    Store,
    SystemName,
    clean_up_after_the_dead,
    ensure_privileges,
    on_signals,
    settings,
    tell_cleaned,
    warn,
)
from harness.systems.node_roles import Layout


class _Cluster(TyperGroup):
    """Administrative commands are found when one is asked for: they take the protocol's codecs
    with them, which other commands must not wait for.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._find()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._find()
        return super().list_commands(ctx)

    def _find(self) -> None:
        from harness.cli.cluster import administration

        found: Any = typer.main.get_command(administration.app)
        self.commands.update(found.commands)


cluster_app = typer.Typer(
    help="A running cluster for any Kafka client.", no_args_is_help=True, cls=_Cluster
)


@cluster_app.command("up")
def cluster_up(
    nodes: Annotated[
        int | None, typer.Option(min=1, max=15, help="Nodes that are broker and controller; 3.")
    ] = None,
    controllers: Annotated[
        int | None, typer.Option(min=1, max=15, help="Nodes that are controllers only.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, max=50, help="Nodes that are brokers only.")
    ] = None,
    racks: Annotated[
        str, typer.Option(help="Racks for the brokers, with commas; they take turns.")
    ] = "",
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of topics that name no number.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A server property, key=value; may be repeated."),
    ] = None,
    system: SystemName = None,
    kafka_home: KafkaHome = None,
    broker_module: BrokerModule = None,
    store: Store = Path("store"),
    detach: Annotated[bool, typer.Option(help="Return, and leave it running.")] = False,
    debug: Debug = False,
) -> None:
    """Start a cluster, print its bootstrap servers, and keep it until Ctrl-C."""
    from harness.plans.plan import build

    layout = _layout(nodes, controllers, brokers, racks)
    defaults = {} if partitions is None else {"num.partitions": partitions}
    raw = {
        "name": "cluster",
        "seed": 0,
        "nodes": min(15, len(layout.nodes)),
        "broker": {**defaults, **settings(config)},
    }
    flags = {
        "system": system,
        "kafka_home": None if kafka_home is None else str(kafka_home),
        "broker_module": broker_module,
    }
    plan = build(raw, where="cluster up", flags=flags)
    from harness.run import cluster

    ensure_privileges()
    clean_up_after_the_dead()
    stop = threading.Event()
    on_signals(stop.set)
    print(f"starting {len(layout.nodes)} nodes", file=sys.stderr, flush=True)

    def say(facts: Mapping[str, str]) -> None:
        for name, value in facts.items():
            print(f"{name:<10} {value}", flush=True)

    cluster.up(plan, layout, root=store, detach=detach, stop=stop, say=say, warn=warn)
    if not detach:
        print("the cluster is down; logs and data stay in the store", file=sys.stderr)


@cluster_app.command("down")
def cluster_down(
    run: Annotated[
        Path | None, typer.Argument(help="The run directory that `up` printed; none is all.")
    ] = None,
    store: Store = Path("store"),
    debug: Debug = False,
) -> None:
    """Remove detached clusters; what they stored stays."""
    from harness.run import cluster

    ensure_privileges()
    tell_cleaned(cluster.down(store, run), "no detached cluster is up")


def _layout(nodes: int | None, controllers: int | None, brokers: int | None, racks: str) -> Layout:
    """The nodes that were asked for: combined, three if nothing was, or apart. BadRequest."""
    names = [rack.strip() for rack in racks.split(",") if rack.strip()]
    if controllers is None and brokers is None:
        return Layout.combined(range(1, (nodes or 3) + 1), names)
    if controllers is None or brokers is None or nodes is not None:
        raise BadRequest(
            "give --nodes, or --controllers together with --brokers: a cluster is made of nodes "
            "that are both, or of controllers and brokers apart"
        )
    return Layout.split(controllers=controllers, brokers=brokers, racks=names)

"""`highwater cluster`: a running cluster for any Kafka client, and its administration."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness.commands.base import (
    BrokerModule,
    Debug,
    Store,
    clean_up_after_the_dead,
    ensure_privileges,
    on_signals,
    tell_cleaned,
    warn,
)


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
        from harness.commands import administration

        found: Any = typer.main.get_command(administration.app)
        self.commands.update(found.commands)


cluster_app = typer.Typer(
    help="A running cluster for any Kafka client.", no_args_is_help=True, cls=_Cluster
)


@cluster_app.command("up")
def cluster_up(
    nodes: Annotated[int, typer.Option(min=1, max=15, help="Size of the cluster.")] = 3,
    broker_module: BrokerModule = None,
    store: Store = Path("store"),
    detach: Annotated[bool, typer.Option(help="Return, and leave it running.")] = False,
    debug: Debug = False,
) -> None:
    """Start a cluster, print its bootstrap servers, and keep it until Ctrl-C."""
    from harness.plan import build

    raw = {"name": "cluster", "seed": 0, "nodes": nodes}
    plan = build(raw, where="cluster up", flags={"broker_module": broker_module})
    from harness import cluster

    ensure_privileges()
    clean_up_after_the_dead()
    stop = threading.Event()
    on_signals(stop.set)
    print(f"starting {nodes} nodes", file=sys.stderr, flush=True)

    def say(facts: Mapping[str, str]) -> None:
        for name, value in facts.items():
            print(f"{name:<10} {value}", flush=True)

    cluster.up(plan, root=store, detach=detach, stop=stop, say=say, warn=warn)
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
    from harness import cluster

    ensure_privileges()
    tell_cleaned(cluster.down(store, run), "no detached cluster is up")

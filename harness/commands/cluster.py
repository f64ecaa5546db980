"""`highwater cluster`: a running cluster for any Kafka client, and its administration."""

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.commands import configs, inspect, reassign, topics
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

cluster_app = typer.Typer(help="A running cluster for any Kafka client.", no_args_is_help=True)
cluster_app.add_typer(topics.app, name="topics")
cluster_app.add_typer(configs.app, name="configs")
cluster_app.add_typer(reassign.app, name="reassign")
cluster_app.add_typer(inspect.quorum_app, name="quorum")
cluster_app.add_typer(inspect.log_dirs_app, name="log-dirs")
cluster_app.command("elect-leaders")(inspect.elect_leaders)
cluster_app.command("delete-records")(inspect.delete_records)
cluster_app.command("producers")(inspect.describe_producers)


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

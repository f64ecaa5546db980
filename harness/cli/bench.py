"""`highwater bench`: measures systems and prints tables. This module has no logic of its own.

Exit codes: 0 everything was measured; 2 a measurement failed or the benchmark was stopped early
(the other measurements are kept); 254 bad arguments; 255 the harness itself failed.
"""

import os
import shlex
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.cli.base import Exit, clean_up_killed_runs, ensure_privileges, on_signals, warn
from harness.cli.options import DEFAULT_STORE, BrokerModule, Debug, KafkaHome, Store, key_values

if TYPE_CHECKING:
    from harness.bench.options import MeasuredSystem, Options
    from harness.bench.results import Result

INCOMPLETE: Final = 2
FILE_WIDTH: Final = 160
"""The width of a table that goes into a file or a pipe, in columns."""

Measures = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MEASURE]...",
        help="What to measure: latency, producer-throughput, consumer-throughput, commits, groups, "
        "transactions, copies, compaction, creation, failover, controlled-shutdown, "
        "controller-failover; or control-planes: the last four, on every control plane that can be "
        "started here. "
        "Default: all that the systems allow.",
    ),
]
System = Annotated[
    list[str] | None,
    typer.Option(
        help="A system to measure: NAME=HOST:PORT[,...] for a running cluster, NAME=builtin or "
        "NAME=kafka for a cluster that the benchmark starts, and beside ZooKeeper "
        "builtin-zookeeper, builtin-one-by-one, kafka-3.9 and kafka-3.9-zookeeper. Repeat it to "
        "compare systems. "
        "Default: builtin."
    ),
]
BootstrapServers = Annotated[
    str | None,
    typer.Option(help="HOST:PORT[,...] of a running cluster to measure, under the name `system`."),
]
Acks = Annotated[
    list[str] | None,
    typer.Option(help="Measure only this acks mode: 0, 1 or all. Repeatable. Default: all three."),
]
Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        help="The client that measures: raw (encoded requests on plain sockets) or librdkafka. "
        "Repeat it for both. Default: raw, and for latency both.",
    ),
]
Rounds = Annotated[int, typer.Option(help="The number of times that each point is measured.")]
Duration = Annotated[float, typer.Option(help="Seconds of each measurement.")]
WarmUp = Annotated[
    float,
    typer.Option(
        help="Seconds of load before the rounds, for each measure, on each cluster that the "
        "benchmark starts. A JVM is slow in its first minutes."
    ),
]
Size = Annotated[int, typer.Option(help="Bytes of each message.")]
MessagesPerSend = Annotated[
    str, typer.Option(help="Numbers of messages in a produce request to measure, by commas.")
]
Producers = Annotated[str, typer.Option(help="Numbers of producers to measure, by commas.")]
FetchKb = Annotated[str, typer.Option(help="Fetch sizes in KB to measure, by commas.")]
Partitions = Annotated[
    str,
    typer.Option(help="Numbers of partitions of the cluster to measure failovers with, by commas."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the order of the measurements.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="One short round with the ends of each sweep: a minute.")
]
CheckCrcs = Annotated[
    bool, typer.Option("--check-crcs", help="Let consumers check the checksum of every batch.")
]
ClientCpus = Annotated[
    str | None, typer.Option(help="Processors that the clients may use, by commas. Default: all.")
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        help="A server property NAME=VALUE for the clusters that the benchmark starts. Repeatable.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(help="Compare with the bench.json of an earlier benchmark."),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file too, as JSON.")
]
HtmlFile = Annotated[
    Path | None, typer.Option("--html", help="Write the page with plots to this file too.")
]


def bench(
    measures: Measures = None,
    system: System = None,
    bootstrap_servers: BootstrapServers = None,
    acks: Acks = None,
    client: Clients = None,
    rounds: Rounds = 3,
    duration: Duration = 2.0,
    warm_up: WarmUp = 10.0,
    size: Size = 1024,
    messages_per_send: MessagesPerSend = "1,10,100,1000",
    producers: Producers = "1,5,10,20",
    fetch_kb: FetchKb = "1,10,100,1024",
    partitions: Partitions = "100,1000",
    seed: Seed = 0,
    quick: Quick = False,
    check_crcs: CheckCrcs = False,
    client_cpus: ClientCpus = None,
    property_: Property = None,
    broker_module: BrokerModule = None,
    kafka_home: KafkaHome = None,
    baseline: Baseline = None,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
    store: Store = DEFAULT_STORE,
    debug: Debug = False,
) -> None:
    """Measure latency, throughput and failover of clusters.

    The clusters may be of the built-in broker, of Kafka, or of any broker that runs already. The
    tables show the published figures of Kafka's replication (2013) beside the measured ones.
    """
    from harness.bench import options as choices
    from harness.bench import results
    from harness.bench.points import CONTROL_PLANES, PointSelection

    every_plane = CONTROL_PLANES in (measures or ()) and not system and bootstrap_servers is None
    named = choices.BESIDE_EACH_OTHER if every_plane else system or ()
    systems = choices.parse_systems(named, bootstrap_servers)
    numbers = choices.parse_numbers
    given = choices.Options(
        selection=PointSelection(
            measures=choices.parse_measures(
                measures or (), ours=any(each.is_ours for each in systems)
            ),
            clients=choices.parse_clients(client or ()),
            acks=choices.parse_acks(acks or ()),
            messages=numbers("--messages-per-send", messages_per_send, most=choices.MAX_MESSAGES),
            producers=numbers("--producers", producers, most=choices.MAX_PRODUCERS),
            fetch_bytes=[
                size << 10 for size in numbers("--fetch-kb", fetch_kb, most=choices.MAX_FETCH_KB)
            ],
            partitions=numbers("--partitions", partitions, most=choices.MAX_PARTITIONS),
        ),
        systems=systems,
        rounds=rounds,
        duration_s=duration,
        warmup_s=warm_up,
        size=size,
        seed=seed,
        broker=key_values("--property", property_),
        broker_module=broker_module or "nodes",
        kafka_home=None if kafka_home is None else str(kafka_home),
        client_cpus=choices.parse_cpus(client_cpus, os.sched_getaffinity(0)) if client_cpus else (),
        check_crcs=check_crcs,
    )
    if every_plane:
        given = replace(given, systems=_startable(given))
    checked = choices.check(choices.quick(given) if quick else given)
    earlier = results.load(baseline) if baseline else None
    _measure(checked, store, earlier, json_file, html_file)


def _startable(options: "Options") -> "tuple[MeasuredSystem, ...]":
    """Return the clusters of all control planes that can be started here; say what is missing."""
    from harness.bench import options as choices
    from harness.bench import systems

    found, missing = systems.startable(choices.BESIDE_EACH_OTHER, options)
    for name, why in missing.items():
        warn(f"{name} is left out: {why}")
    return found


def _measure(
    options: "Options",
    store: Path,
    baseline: "Result | None",
    json_file: Path | None,
    html_file: Path | None,
) -> None:
    from harness.bench import results, runner, systems
    from harness.bench.output import page, progress, table
    from harness.recording import store as stores
    from harness.recording.versions import commit, versions
    from harness.reports import terminal

    systems.check(options)
    if any(system.is_ours for system in options.systems):
        ensure_privileges()
        clean_up_killed_runs()
    stop = threading.Event()
    on_signals(stop.set)
    run = stores.create(store, "bench", versions=versions(), commit=commit())
    with progress.progress_display() as show:
        result = runner.run(options, run, stop.is_set, show)
    command = shlex.join(["highwater", *sys.argv[1:]])
    for path in (run.path / "bench.json", *([json_file] if json_file else ())):
        results.save(result, path)
    for path in (run.path / "bench.html", *([html_file] if html_file else ())):
        page.save(result, path, command=command, baseline=baseline)
    console = terminal.console()
    if not console.is_terminal:
        console.width = FILE_WIDTH
    table.print_result(console, result, baseline)
    print(f"page     {run.path / 'bench.html'}\njson     {run.path / 'bench.json'}")
    if result.stopped or result.failures:
        raise Exit(INCOMPLETE)

"""`highwater bench`: arguments in, tables and files out. No logic lives here.

Exit codes: 0 everything was measured; 2 something could not be, or it was stopped before the end:
what was measured stands; 254 bad arguments, 255 the harness itself failed.
"""

import os
import shlex
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.cli.base import (
    BrokerModule,
    Debug,
    Exit,
    KafkaHome,
    Store,
    clean_up_after_the_dead,
    ensure_privileges,
    on_signals,
)
from harness.reports import terminal

if TYPE_CHECKING:
    from harness.bench.options import Options
    from harness.bench.results import Result

INCOMPLETE: Final = 2
FILE_WIDTH: Final = 160
"""Columns of a table that goes into a file or a pipe."""


Measures = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MEASURE]...",
        help="latency, producer-throughput, consumer-throughput, failover, controlled-shutdown, "
        "controller-failover; none is all.",
    ),
]
System = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=HOST:PORT[,...], or for a cluster of our own NAME=builtin or NAME=kafka; repeat "
        "it to measure several in turn. None is the built-in cluster."
    ),
]
BootstrapServers = Annotated[
    str | None, typer.Option(help="One system without a name: HOST:PORT[,...].")
]
Acks = Annotated[list[str] | None, typer.Option(help="Only these modes: 0, 1, all; repeat it.")]
Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        help="raw (encoded requests on plain sockets) or librdkafka; repeat it for both. None is "
        "raw, and both for latency.",
    ),
]
Rounds = Annotated[int, typer.Option(help="How often each point is measured.")]
Duration = Annotated[float, typer.Option(help="Seconds for each measurement.")]
Size = Annotated[int, typer.Option(help="Bytes of a message.")]
MessagesPerSend = Annotated[str, typer.Option(help="Messages of one produce request, with commas.")]
Producers = Annotated[str, typer.Option(help="Producers side by side, with commas.")]
FetchKb = Annotated[str, typer.Option(help="Fetch sizes of consumers in KB, with commas.")]
Partitions = Annotated[
    str, typer.Option(help="Partitions of the cluster at an outage, with commas.")
]
Seed = Annotated[int, typer.Option(min=0, help="Decides the order of the points.")]
Quick = Annotated[bool, typer.Option("--quick", help="One short round, in about a minute.")]
CheckCrcs = Annotated[
    bool, typer.Option("--check-crcs", help="Let consumers check every checksum.")
]
ClientCpus = Annotated[
    str | None, typer.Option(help="Processors for the clients, with commas; none is any.")
]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", help="NAME=VALUE for the built-in cluster's nodes; repeat it."),
]
Baseline = Annotated[
    Path | None, typer.Option(help="Compare with this JSON of an earlier benchmark.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the result here too.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write the page here too.")]


def bench(
    measures: Measures = None,
    system: System = None,
    bootstrap_servers: BootstrapServers = None,
    acks: Acks = None,
    client: Clients = None,
    rounds: Rounds = 3,
    duration: Duration = 2.0,
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
    store: Store = Path("store"),
    debug: Debug = False,
) -> None:
    """Measure latency, throughput and failover, beside the figures of the sources."""
    from harness.bench import options as asked
    from harness.bench import results
    from harness.bench.points import Wanted

    systems = asked.parse_systems(system or (), bootstrap_servers)
    numbers = asked.parse_numbers
    given = asked.Options(
        wanted=Wanted(
            measures=asked.parse_measures(
                measures or (), ours=any(each.is_ours for each in systems)
            ),
            clients=asked.parse_clients(client or ()),
            acks=asked.parse_acks(acks or ()),
            messages=numbers("--messages-per-send", messages_per_send, most=asked.MAX_MESSAGES),
            producers=numbers("--producers", producers, most=asked.MAX_PRODUCERS),
            fetch_bytes=[
                size << 10 for size in numbers("--fetch-kb", fetch_kb, most=asked.MAX_FETCH_KB)
            ],
            partitions=numbers("--partitions", partitions, most=asked.MAX_PARTITIONS),
        ),
        systems=systems,
        rounds=rounds,
        duration_s=duration,
        size=size,
        seed=seed,
        broker=asked.parse_properties(property_ or ()),
        broker_module=broker_module or "nodes",
        kafka_home=None if kafka_home is None else str(kafka_home),
        client_cpus=asked.parse_cpus(client_cpus, os.sched_getaffinity(0)) if client_cpus else (),
        check_crcs=check_crcs,
    )
    checked = asked.check(asked.quick(given) if quick else given)
    earlier = results.load(baseline) if baseline else None
    _measure(checked, store, earlier, json_file, html_file)


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

    systems.check(options)
    if any(system.is_ours for system in options.systems):
        ensure_privileges()
        clean_up_after_the_dead()
    stop = threading.Event()
    on_signals(stop.set)
    run = stores.create(store, "bench", versions=versions(), commit=commit())
    with progress.shown() as say:
        result = runner.run(options, run, stop.is_set, say)
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

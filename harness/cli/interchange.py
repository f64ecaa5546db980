"""`highwater import jepsen | kafkatest` and `highwater export jepsen | elle`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checkers.interchange.jepsen_ops import Notation
from harness.cli.base import Debug, warn

if TYPE_CHECKING:
    from checkers.interchange.imported import Imported, Promises

import_app = typer.Typer(
    help="Take over what another tool recorded, to be judged by `highwater check`.",
    no_args_is_help=True,
)

export_app = typer.Typer(help="Write a stored run as another tool reads it.", no_args_is_help=True)

StoredRun = Annotated[Path, typer.Argument(help="A stored run; store/latest is the last one.")]
Out = Annotated[Path, typer.Option(help="The run directory to make.")]
AcksMode = Annotated[str, typer.Option("--acks", help="0, 1 or all: what its producers asked for.")]
MinIsr = Annotated[int, typer.Option("--min-isr", min=1, help="min.insync.replicas of its topics.")]
Unclean = Annotated[
    bool, typer.Option("--unclean-election", help="unclean.leader.election.enable was true.")
]
MaxInFlight = Annotated[
    int, typer.Option(min=1, help="max.in.flight.requests.per.connection of its producers.")
]
Topic = Annotated[str, typer.Option(help="What to call the topic of its keys.")]
Format = Annotated[
    Notation | None, typer.Option("--format", help="By default, what the file's name ends with.")
]


@import_app.command("jepsen")
def import_jepsen(
    file: Annotated[Path, typer.Argument(help="A history.edn of Jepsen's Kafka workload.")],
    out: Out,
    acks: AcksMode = "all",
    idempotence: Annotated[
        bool, typer.Option(help="Its producers were idempotent, or never sent anything again.")
    ] = True,
    min_isr: MinIsr = 2,
    unclean_election: Unclean = False,
    max_in_flight: MaxInFlight = 5,
    topic: Topic = "jepsen",
    notation: Format = None,
    debug: Debug = False,
) -> None:
    """Take over a history of Jepsen's Kafka workload (EDN, or JSON)."""
    from checkers.interchange.jepsen_import import Importer
    from checkers.interchange.jepsen_lines import events
    from harness.recording import imports

    promises = promised(acks, idempotence, min_isr, unclean_election, max_in_flight)

    def take_over() -> "Imported":
        importer = Importer()
        with reading([file]) as came:
            text = partial(imports.pieces, file, came)
            importer.take(events(text, notation_of(file, notation), importer.restart))
        return importer.imported(topic=topic, promises=promises, files=[file.name])

    print(imports.write(out, take_over, str(file)).path)


@import_app.command("kafkatest")
def import_kafkatest(
    files: Annotated[
        list[Path], typer.Argument(help="What each verifiable producer and consumer printed.")
    ],
    out: Out,
    acks: AcksMode = "all",
    idempotence: Annotated[
        bool, typer.Option(help="Its producers were idempotent, or never sent anything again.")
    ] = False,
    min_isr: MinIsr = 2,
    unclean_election: Unclean = False,
    max_in_flight: MaxInFlight = 5,
    debug: Debug = False,
) -> None:
    """Take over what Kafka's VerifiableProducer and VerifiableConsumer printed."""
    from checkers.interchange import kafkatest
    from harness.recording import imports

    promises = promised(acks, idempotence, min_isr, unclean_election, max_in_flight)

    def take_over() -> "Imported":
        with reading(files) as came:
            texts = {str(file): partial(imports.pieces, file, came) for file in files}
            return kafkatest.to_history(texts, promises=promises)

    print(imports.write(out, take_over, "kafkatest's output").path)


@export_app.command("jepsen")
def export_jepsen(
    run_dir: StoredRun,
    file: Annotated[Path, typer.Argument(help="The file to write: EDN, or JSON by its name.")],
    notation: Format = None,
    debug: Debug = False,
) -> None:
    """Write what clients did as a history of Jepsen's Kafka workload."""
    from checkers.history.history import load_plan
    from checkers.interchange import jepsen_export, jepsen_ops
    from harness.recording import imports

    run, rows = imports.rows_of(run_dir)
    exported = jepsen_export.to_ops(rows, load_plan(run.path))
    imports.save(file, jepsen_ops.write(exported.ops, notation_of(file, notation)))
    for (name, partition), key in exported.keys.items():
        print(f"key {key}: partition {partition} of {name}")
    if exported.left_out:
        warn(f"{exported.left_out} records without a value of this run are left out")


@contextmanager
def reading(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Shows on a terminal how much of some files was read, as it is told; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    size = sum(file.stat().st_size for file in files if file.is_file())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=size)
        yield lambda characters: progress.advance(task, characters)


def promised(
    acks: str, idempotence: bool, min_isr: int, unclean_election: bool, max_in_flight: int
) -> "Promises":
    """What the flags say was promised."""
    from checkers.history.settings import acks_number
    from checkers.interchange.imported import Promises

    if acks not in ("0", "1", "-1", "all"):
        raise typer.BadParameter(f"{acks!r} is no acks mode; give 0, 1 or all", param_hint="--acks")
    number = acks_number(acks)
    assert number is not None
    return Promises(
        acks=number,
        idempotence=idempotence,
        min_insync_replicas=min_isr,
        unclean_election=unclean_election,
        max_in_flight=max_in_flight,
    )


def notation_of(file: Path, asked: Notation | None) -> Notation:
    """EDN, unless the name of the file ends as JSON's do."""
    if asked is not None:
        return asked
    return Notation.JSON if file.suffix in (".json", ".jsonl") else Notation.EDN

"""`highwater import jepsen | kafkatest` and `highwater export jepsen`.

`harness.cli.elle` adds `highwater export elle`.
"""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.base import warn
from harness.cli.options import Debug, StoredRun, command_group

if TYPE_CHECKING:
    from checkers.interchange.imported import Imported, Promises
    from checkers.interchange.jepsen_ops import Notation

import_app = command_group("Import a history of another tool as a run directory.")

export_app = command_group("Export a stored run in the format of another tool.")

FormatName = Literal["edn", "json"]
ProcessingName = Literal["at-most-once", "at-least-once", "exactly-once"]

Out = Annotated[
    Path, typer.Option(help="The run directory to create; it must not exist or be empty.")
]
ProducerAcks = Annotated[
    str, typer.Option("--acks", help="The acks setting of the recorded producers: 0, 1 or all.")
]
Idempotence = Annotated[
    bool,
    typer.Option(help="Whether the recorded producers were idempotent, or never retried a send."),
]
MinIsr = Annotated[
    int, typer.Option("--min-isr", min=1, help="min.insync.replicas of the recorded topics.")
]
Unclean = Annotated[
    bool,
    typer.Option(
        "--unclean-election", help="The recorded topics had unclean.leader.election.enable=true."
    ),
]
MaxInFlight = Annotated[
    int,
    typer.Option(min=1, help="max.in.flight.requests.per.connection of the recorded producers."),
]
Processing = Annotated[
    ProcessingName | None,
    typer.Option(
        help="How the recorded groups processed records. Without it they promise nothing, and "
        "what they skipped or copied twice is not judged."
    ),
]
GroupMetadata = Annotated[
    bool,
    typer.Option(
        help="Whether offsets were sent to transactions with the member of the group (KIP-447)."
    ),
]
Topic = Annotated[str, typer.Option(help="A name for the topic; its partitions are the keys.")]
Format = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        help="Notation of the file. Default: json for names that end in .json or .jsonl, edn for "
        "others.",
    ),
]


@import_app.command("jepsen")
def import_jepsen(
    file: Annotated[Path, typer.Argument(help="The history.edn of Jepsen's Kafka workload.")],
    out: Out,
    acks: ProducerAcks = "all",
    idempotence: Idempotence = True,
    min_isr: MinIsr = 2,
    unclean_election: Unclean = False,
    max_in_flight: MaxInFlight = 5,
    processing: Processing = None,
    group_metadata: GroupMetadata = True,
    topic: Topic = "jepsen",
    notation: Format = None,
    debug: Debug = False,
) -> None:
    """Import a history of Jepsen's Kafka workload (EDN or JSON)."""
    from checkers.interchange.jepsen_import import Importer
    from checkers.interchange.jepsen_lines import events
    from harness.recording import imports

    promises = replace(
        promised(acks, idempotence, min_isr, unclean_election, max_in_flight),
        processing=processing,
        group_metadata=group_metadata,
    )

    def converted() -> "Imported":
        importer = Importer()
        with reading([file]) as advance:
            text = partial(imports.pieces, file, advance)
            importer.take(events(text, notation_of(file, notation), importer.restart))
        return importer.imported(topic=topic, promises=promises, files=[file.name])

    report_import(imports.write(out, converted, str(file)).path)


@import_app.command("kafkatest")
def import_kafkatest(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="The output of each verifiable producer, consumer and copier, one file each."
        ),
    ],
    out: Out,
    acks: ProducerAcks = "all",
    idempotence: Idempotence = False,
    min_isr: MinIsr = 2,
    unclean_election: Unclean = False,
    max_in_flight: MaxInFlight = 5,
    processing: Processing = None,
    group_metadata: GroupMetadata = True,
    debug: Debug = False,
) -> None:
    """Import the output of Kafka's verifiable clients.

    These are VerifiableProducer, VerifiableConsumer and TransactionalMessageCopier of Kafka's
    system tests.
    """
    from checkers.interchange import kafkatest
    from harness.recording import imports

    promises = replace(
        promised(acks, idempotence, min_isr, unclean_election, max_in_flight),
        processing=processing,
        group_metadata=group_metadata,
    )

    def converted() -> "Imported":
        with reading(files) as advance:
            texts = {str(file): partial(imports.pieces, file, advance) for file in files}
            return kafkatest.to_history(texts, promises=promises)

    report_import(imports.write(out, converted, "kafkatest's output").path)


def report_import(run_dir: Path) -> None:
    """Print the new run directory on stdout, and on stderr the commands that come next."""
    path = shlex.quote(str(run_dir))
    print(run_dir)
    print(
        f"judge it                highwater check {path}\n"
        f"write its report again  highwater report {path}",
        file=sys.stderr,
    )


@export_app.command("jepsen")
def export_jepsen(
    run_dir: StoredRun,
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    notation: Format = None,
    debug: Debug = False,
) -> None:
    """Write a run as a history of Jepsen's Kafka workload."""
    from checkers.history.history import load_plan
    from checkers.interchange import jepsen_export, jepsen_ops
    from harness.recording import imports

    run, rows = imports.rows_of(run_dir)
    exported = jepsen_export.to_ops(rows, load_plan(run.path))
    imports.save(file, jepsen_ops.write(exported.ops, notation_of(file, notation)))
    for (name, partition), key in exported.keys.items():
        print(f"key {key}: partition {partition} of {name}")
    if exported.left_out:
        warn(f"left out {exported.left_out} records whose value is not of this run")


@contextmanager
def reading(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how much of the files was read; yields a function that takes the number
    of characters read since the last call. Elsewhere nothing is shown."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    from harness.reports import terminal

    console = terminal.console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    size = sum(file.stat().st_size for file in files if file.is_file())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=size)
        yield lambda characters: progress.advance(task, characters)


def promised(
    acks: str, idempotence: bool, min_isr: int, unclean_election: bool, max_in_flight: int
) -> "Promises":
    """Return the promises of the recorded cluster, from the options."""
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


def notation_of(file: Path, given: FormatName | None) -> "Notation":
    """Return the notation of the option --format; without it, the one of the file's name."""
    from checkers.interchange.jepsen_ops import Notation

    if given is not None:
        return Notation(given)
    return Notation.JSON if file.suffix in (".json", ".jsonl") else Notation.EDN

"""`highwater import jepsen | kafkatest` and `highwater export jepsen | elle`."""

from pathlib import Path
from typing import Annotated

import typer

from checkers.interchange import jepsen_import, jepsen_ops
from checkers.interchange.imported import Promises
from checkers.interchange.jepsen_ops import Notation
from checkers.settings import acks_number
from harness import imports
from harness.commands.base import Debug

import_app = typer.Typer(
    help="Take over what another tool recorded, to be judged by `highwater check`.",
    no_args_is_help=True,
)

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
    promises = promised(acks, idempotence, min_isr, unclean_election, max_in_flight)
    text = imports.read(file)
    run = imports.write(
        out,
        lambda: jepsen_import.to_history(
            jepsen_ops.read(text, notation_of(file, notation)),
            topic=topic,
            promises=promises,
            files=[file.name],
        ),
        str(file),
    )
    print(run.path)


def promised(
    acks: str, idempotence: bool, min_isr: int, unclean_election: bool, max_in_flight: int
) -> Promises:
    """What the flags say was promised."""
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

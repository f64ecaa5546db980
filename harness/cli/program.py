"""`highwater test-app`: breaks Kafka under a program of the user, and says what it lost."""

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import running
from harness.cli.options import (
    DEFAULT_STORE,
    AsJson,
    Debug,
    Duration,
    Faults,
    KafkaHome,
    Report,
    Rotate,
    Store,
    comma_separated,
)

Form = Annotated[
    Path, typer.Argument(help="The TOML file that describes the program (docs/test-app.md).")
]
System = Annotated[
    str | None,
    typer.Option(
        help="The cluster: nodes (the built-in broker) or kafka (Apache Kafka). Default: the "
        "file's."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of everything random. Default: the file's, or a new one."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the file, print the faults, start nothing.")
]


def try_program(
    form: Form,
    seed: Seed = None,
    duration: Duration = None,
    faults: Faults = None,
    system: System = None,
    kafka_home: KafkaHome = None,
    rotate: Rotate = None,
    store: Store = DEFAULT_STORE,
    dry_run: DryRun = False,
    report: Report = True,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Break a cluster under your own program, and say what the program lost.

    The file names the program, its input and output, and what it claims: at-most-once,
    at-least-once or exactly-once, in the order of keys, within a lag. Input is written, the cluster
    and the program are broken, and the output is judged by the claims.
    """
    from harness.plans import app_plan, plan
    from harness.plans.durations import seconds
    from harness.run.teardown import EndOptions

    flags: dict[str, Any] = {
        "seed": seed,
        "duration_s": None if duration is None else seconds(duration),
        "faults": None if faults is None else comma_separated(faults),
        "system": system,
        "rotate_s": None if rotate is None else seconds(rotate),
        "kafka_home": None if kafka_home is None else str(kafka_home),
    }
    made = plan.build(app_plan.load(form), where=str(form), flags=flags)
    prepared = running.checked(made, refuse=not dry_run)
    if dry_run:
        running.show(prepared, as_json)
    running.run(prepared, store, EndOptions(), report, as_json, debug)

"""`highwater fault`: break a running cluster by hand, while you watch your program."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.admin.errors import AdminError, BadRequest
from harness.cli.base import clean_up_killed_runs
from harness.cli.options import AsJson, Debug, command_group, faults_beginning_with, key_values

if TYPE_CHECKING:
    from harness.run.by_hand.client import BreakerClient

fault_app = command_group(
    "Break a cluster of `highwater cluster up` by hand: inject faults, and heal them."
)

ClusterName = Annotated[
    str | None,
    typer.Option("--name", help="The name of the cluster, when several run on this machine."),
]
RunDir = Annotated[
    Path | None,
    typer.Option("--run", help="The run directory of the cluster, when several run here."),
]


class FaultError(AdminError):
    """A fault could not be injected or healed."""


@fault_app.command("list")
def list_faults(
    name: ClusterName = None, run: RunDir = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the faults of a cluster: those in force, and those that are healed."""
    from harness.recording import journal
    from harness.run.by_hand.client import BreakerClient

    path = _run_dir(run, name)
    client = BreakerClient.of_run(path)
    if client is None:
        from harness.run.by_hand.faults_of_journal import list_faults as listed

        rows = listed(journal.read(path / "journal.jsonl"))
    else:
        with client:
            rows = _asked(client, "faults")
    _print(rows, as_json, nothing="no fault was injected")


@fault_app.command("inject")
def inject(
    fault: Annotated[
        str,
        typer.Argument(
            help="A fault of `highwater faults`, such as kill.",
            autocompletion=faults_beginning_with,
        ),
    ],
    targets: Annotated[
        str,
        typer.Option(
            help="Which nodes: node:2, leader:orders/0, controller, one, ... (`highwater faults` "
            "lists all). Default: the fault's own."
        ),
    ] = "",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", help="A parameter KEY=VALUE of the fault. Repeatable."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(help="Heal it by itself after so long: 30, 30s, 5m. Default: never."),
    ] = None,
    name: ClusterName = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Inject a fault; it stays in force until it is healed.

    It prints the id of the fault, the nodes that were hit, and the measured proof of its effect.
    """
    from harness.plans.durations import seconds

    duration_ms = None if duration is None else round(seconds(duration) * 1000)
    params = key_values("--param", param)
    with _breaker(run, name) as client:
        row = _asked(
            client, "inject", fault=fault, targets=targets, params=params, duration_ms=duration_ms
        )
    _print([row], as_json)


@fault_app.command("heal")
def heal(
    fault_id: Annotated[int, typer.Argument(metavar="ID", help="The id, from `fault list`.")],
    name: ClusterName = None,
    run: RunDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Heal one fault, and print the proof that it is over."""
    with _breaker(run, name) as client:
        _print([_asked(client, "heal", id=fault_id)], as_json)


@fault_app.command("heal-all")
def heal_all(
    name: ClusterName = None, run: RunDir = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Heal every fault in force, the latest first."""
    with _breaker(run, name) as client:
        _print(_asked(client, "heal-all"), as_json, nothing="no fault was in force")


def _run_dir(run: Path | None, name: str | None) -> Path:
    """Return the run directory of the cluster. Raises ClusterError."""
    from harness.run import cluster

    return cluster.find(run, name).run


@contextmanager
def _breaker(run: Path | None, name: str | None) -> "Iterator[BreakerClient]":
    from harness.run.by_hand.keeper import reach

    path = _run_dir(run, name)
    clean_up_killed_runs()
    with _told(lambda: reach(path)) as client:
        yield client


def _told(reach: "Callable[[], BreakerClient]") -> "BreakerClient":
    from harness.run.by_hand.protocol import Refused

    try:
        return reach()
    except Refused as error:
        raise _error(error) from None


def _asked(client: "BreakerClient", do: str, **fields: Any) -> Any:
    from harness.run.by_hand.protocol import Refused

    try:
        return client.ask(do, **fields)
    except Refused as error:
        raise _error(error) from None


def _error(error: Any) -> AdminError:
    """A request that makes no sense is the user's error; a fault that failed is not."""
    from harness.run.by_hand.protocol import REQUEST

    return BadRequest(str(error)) if error.kind == REQUEST else FaultError(str(error))


def _print(rows: Sequence[Mapping[str, Any]], as_json: bool, nothing: str = "") -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print(nothing)
    for row in rows:
        print(f"{row['id']:>3}  {row['state']:<8}  {row['label']}")
        if row["state"] == "healed":
            print(f"     healed: {row['healing'] or 'nothing was injected'}")
        else:
            print(f"     effect: {row['effect'] or 'not measured yet'}")

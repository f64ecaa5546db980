"""The command line: reads the arguments, prints a result or one message, sets the exit code.

    0    VALID, and every expectation met     254  bad arguments, plan or run directory
    1    INVALID: a forbidden anomaly,        255  the harness itself failed
         or an expectation was not met
    2    UNKNOWN, or an expectation that could not be decided

This module has no logic of its own. Wrong arguments, plans and run directories are found before
anything is started. A message of a failure says what happened, to what, and what to do next;
`--debug` adds the traceback. Results go to stdout, everything else to stderr.
"""

import json
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

import nodes.kio_alone  # noqa: F401 - before any command imports kio
from harness.cli import running
from harness.cli.analyze import analyze
from harness.cli.base import (
    BAD_ARGUMENTS,
    HARNESS_FAILED,
    Exit,
    ensure_privileges,
    print_cleaned,
    spark_progress,
    warn,
)
from harness.cli.bench import bench
from harness.cli.cluster.up_down import cluster_app
from harness.cli.contract import contract
from harness.cli.elle import elle
from harness.cli.fault import fault_app
from harness.cli.image import image_app
from harness.cli.interchange import export_app, import_app
from harness.cli.nightly import nightly
from harness.cli.options import (
    DEFAULT_STORE,
    Acks,
    AsJson,
    BrokerModule,
    ControlPlane,
    Debug,
    Duration,
    Engine,
    EngineName,
    Expect,
    Faults,
    KafkaHome,
    Nodes,
    PlanName,
    Rate,
    Report,
    Rotate,
    Store,
    StoredRun,
    SystemName,
    ZooKeepers,
    comma_separated,
    command_group,
    faults_beginning_with,
)
from harness.cli.plans import plan_app, plans
from harness.cli.plugins import plugins
from harness.cli.program import try_program
from harness.cli.serve import serve
from harness.cli.shrink import shrink
from harness.cli.simulate import simulate
from harness.cli.zoo import zoo

MAX_HELP_WIDTH: Final = 100
TYPER_INTERRUPTED: Final = 130
"""What Typer returns for a KeyboardInterrupt."""

app = command_group(
    "Break a replicated log on purpose, then check that no acknowledged write was lost.",
    name="highwater",
    completion=True,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": MAX_HELP_WIDTH},
)


class NemesisMode(StrEnum):
    """What happens to a plan with faults that the target cannot inject."""

    strict = "strict"
    auto = "auto"


ClientLibrary = Annotated[
    str | None,
    typer.Option(
        "--client",
        help="The client library: librdkafka, own, kafka-python, aiokafka, java or program, "
        "or one of another package (`highwater plugins`). Default: the plan's. With kafka-python "
        "and aiokafka, groups, copies and transactions keep the plan's client.",
    ),
]
ClientCommand = Annotated[
    str | None,
    typer.Option(
        help="A program that runs the clients, with its arguments; see docs/clients-protocol.md."
    ),
]
Nemesis = Annotated[
    NemesisMode | None,
    typer.Option(
        help="Faults that the target cannot inject: strict refuses the plan, auto leaves them out. "
        "Default: the plan's."
    ),
]
ScheduleFile = Annotated[
    Path | None,
    typer.Option(help="Inject the events of this TOML or JSON file instead of the plan's faults."),
]
Servers = Annotated[
    str | None,
    typer.Option(help="host:port[,host:port...] of a running cluster; implies --system external."),
]
Replayed = Annotated[
    Path | None,
    typer.Option(help="Repeat the run of this run directory: the same plan and fault schedule."),
]
Resolved = Annotated[
    bool,
    typer.Option(
        "--resolved",
        help="With --replay: hit the nodes that were hit then, instead of choosing them again.",
    ),
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"highwater {version_of('highwater')}")
        raise Exit(0)


@app.command()
def run(
    plan: PlanName = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of everything random. Default: the plan's, or a new one."),
    ] = None,
    duration: Duration = None,
    rotate: Rotate = None,
    nodes: Nodes = None,
    acks: Acks = None,
    client: ClientLibrary = None,
    client_command: ClientCommand = None,
    rate: Rate = None,
    faults: Faults = None,
    nemesis: Nemesis = None,
    schedule: ScheduleFile = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Where the cluster runs: local (network namespaces on this machine), docker, ssh, "
            "vagrant or sim (simulated). Default: the plan's."
        ),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option(help="The file that lists the machines of --target ssh; see docs/ssh.md."),
    ] = None,
    system: SystemName = None,
    control_plane: ControlPlane = None,
    zookeepers: ZooKeepers = None,
    kafka_home: KafkaHome = None,
    bootstrap_servers: Servers = None,
    broker_module: BrokerModule = None,
    expect: Expect = None,
    store: Store = DEFAULT_STORE,
    replay: Replayed = None,
    resolved: Resolved = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check the plan, print its schedule of faults, start nothing."
        ),
    ] = False,
    teardown: Annotated[
        bool,
        typer.Option(help="Remove the cluster at the end; --no-teardown keeps it for inspection."),
    ] = True,
    heal: Annotated[
        bool,
        typer.Option(
            help="Heal the faults in force at the end; --no-heal (with --no-teardown) leaves the "
            "cluster broken."
        ),
    ] = True,
    report: Report = True,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Start a cluster, break it, and judge what its clients saw.

    Without a plan it runs first-light: about a minute, three nodes, one topic for each acks mode.
    """
    from harness.plans.durations import seconds
    from harness.run.teardown import EndOptions

    flags: dict[str, Any] = {
        "seed": seed,
        "duration_s": None if duration is None else seconds(duration),
        "rotate_s": None if rotate is None else seconds(rotate),
        "nodes": nodes,
        "acks": None if acks is None else [each.value for each in acks],
        "client": client,
        "client_command": None if client_command is None else shlex.split(client_command),
        "rate_per_s": rate,
        "faults": None if faults is None else comma_separated(faults),
        "schedule": schedule,
        "nemesis": nemesis,
        "target": target,
        "inventory": None if inventory is None else str(inventory.resolve()),
        "system": system,
        "control_plane": control_plane,
        "zookeepers": zookeepers,
        "bootstrap_servers": bootstrap_servers,
        "kafka_home": None if kafka_home is None else str(kafka_home),
        "broker_module": broker_module,
        "expect": expect,
    }
    ending = EndOptions.from_flags(teardown=teardown, heal=heal)
    prepared = running.prepared(plan, flags, replay, resolved=resolved, refuse=not dry_run)
    if dry_run:
        running.show(prepared, as_json)
    running.run(prepared, store, ending, report, as_json, debug)


@app.command()
def check(
    run_dir: StoredRun,
    engine: Engine = EngineName.DUCKDB,
    expect: Expect = None,
    report: Report = True,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Judge a stored run again and write its report."""
    from harness.judging import judge
    from harness.reports import summary, terminal

    progress = spark_progress(run_dir.name, spark=engine is EngineName.SPARK)
    verdict = judge.check(run_dir, engine.value, expect or (), progress)
    path = judge.write_report_or_warn(run_dir, warn) if report else None
    if as_json:
        print(json.dumps(verdict))
    else:
        summary.print_verdict(terminal.console(), verdict, run_dir.resolve(), path)
    raise Exit(judge.exit_code(verdict))


@app.command()
def report(run_dir: StoredRun, debug: Debug = False) -> None:
    """Write the HTML report of a judged run again."""
    from harness.judging import judge

    print(judge.write_report(run_dir))


@app.command()
def faults(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print only this fault, such as disk.stall.", autocompletion=faults_beginning_with
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the faults and their parameters.

    It also lists the selectors of targets, and the conditions that a fault can wait for.
    """
    from harness.plans import fault_catalogue

    if as_json:
        print(json.dumps(fault_catalogue.as_json(name), indent=2))
    else:
        print(fault_catalogue.text() if name is None else fault_catalogue.describe(name))


@app.command()
def doctor(as_json: AsJson = False, debug: Debug = False) -> None:
    """Show which faults this machine can inject, and why not the rest.

    It says how to enable each missing ability.
    """
    from harness.brokers.built_in import OWN, BuiltIn
    from harness.reports import terminal
    from harness.targets import abilities
    from harness.targets import doctor as this_machine
    from nodes import sources

    found, offers = this_machine.capabilities(), abilities.fault_availability()
    if as_json:
        capabilities = json.loads(this_machine.as_json(found))
        faults = abilities.as_json(offers)
        broker = {"compiled_modules": sources.compiled_modules()}
        print(
            json.dumps({"capabilities": capabilities, "faults": faults, "broker": broker}, indent=2)
        )
    else:
        terminal.console().print(this_machine.table(found))
        print(abilities.text(offers))
        print(f"\nbuilt-in broker: {BuiltIn(OWN).build()} (docs/performance.md: Compiled modules)")


@app.command()
def clean(
    store: Store = DEFAULT_STORE,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also remove running clusters: detached or kept after a run."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Remove what killed runs left running.

    Their run directories stay.
    """
    from harness.run.by_hand.client import end_keepers
    from harness.targets.clean import clean as clean_up

    ensure_privileges()
    if everything:
        end_keepers()
    print_cleaned(clean_up(store, everything=everything), "nothing was left behind")


# In the order of the help; the commands above come first.
app.command("test-app")(try_program)
app.command()(plans)
app.add_typer(plan_app, name="plan")
app.command()(analyze)
app.command()(simulate)
app.command()(shrink)
app.command()(zoo)
app.command()(nightly)
app.command()(serve)
app.command()(contract)
app.command()(plugins)
app.command()(elle)
app.add_typer(import_app, name="import")
app.add_typer(export_app, name="export")
app.command()(bench)
app.add_typer(cluster_app, name="cluster")
app.add_typer(fault_app, name="fault")
app.add_typer(image_app, name="image")


def _exit_code_of(error: BaseException) -> int:
    """Return 254 for an error in the arguments, plan or run directory, 255 for one of ours."""
    from checkers.expectations import BadExpectation
    from harness.admin.errors import BadRequest
    from harness.plans.plan import PlanError
    from harness.recording.store import StoreError
    from nemesis.base import UnknownFault

    ours = isinstance(error, PlanError | StoreError | BadRequest | BadExpectation | UnknownFault)
    return BAD_ARGUMENTS if ours else HARNESS_FAILED


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code: the entry point."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # The help has no text that comes from a run, and must not wait for rich.
    with nullcontext() if "--help" in arguments or not arguments else _guarded():
        code = _code_of(arguments)
        sys.stdout.flush()
    sys.exit(code)


def _guarded() -> AbstractContextManager[None]:
    from harness.reports import terminal

    return terminal.guarded()


def _code_of(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    # Typer's error type for a bad command line; its package depends on Typer's version.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app(arguments, standalone_mode=False)
        if code == TYPER_INTERRUPTED:
            raise KeyboardInterrupt
    except Exit as end:
        code = end.code
    except usage_error as error:
        warn(f"{error.format_message()}\nTry `highwater --help`.")
        code = BAD_ARGUMENTS
    except (KeyboardInterrupt, typer.Abort):
        warn("interrupted; `highwater clean` removes what may still be running")
        code = HARNESS_FAILED
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exception(error)
        warn(
            running.message(error)
            if _is_ours(error)
            else f"{type(error).__name__}: {running.message(error)}"
        )
        code = _exit_code_of(error)
    return code if isinstance(code, int) else 0


def _is_ours(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("harness", "nemesis", "checkers")


if __name__ == "__main__":
    main()

"""The command line: arguments in, one clear message or result out, and the exit code.

    0    VALID, and every expectation met     254  bad arguments, plan or run directory
    1    INVALID: a forbidden anomaly,        255  the harness itself failed
         or an expectation surely failed
    2    UNKNOWN, or an expectation that could not be decided

No logic lives here. Everything that can be wrong with what was asked for is found before anything
is started. A failure is a sentence that says what happened, to what, and what to do; `--debug`
adds the traceback. Results go to stdout, everything else to stderr.
"""

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import nodes.kio_alone  # noqa: F401 - before any command imports kio
from harness.cli.analyze import analyze
from harness.cli.base import (
    BAD_ARGUMENTS,
    HARNESS_FAILED,
    BrokerModule,
    Debug,
    EngineName,
    Exit,
    Expect,
    KafkaHome,
    Store,
    SystemName,
    clean_up_after_the_dead,
    ensure_privileges,
    on_signals,
    tell_cleaned,
    warn,
)
from harness.cli.bench import bench
from harness.cli.cluster.cluster import cluster_app
from harness.cli.contract import contract
from harness.cli.elle import elle
from harness.cli.image import image_app
from harness.cli.interchange import export_app, import_app
from harness.cli.nightly import nightly
from harness.cli.serve import serve
from harness.cli.shrink import shrink
from harness.cli.simulate import simulate
from harness.cli.zoo import zoo
from harness.reports import terminal

if TYPE_CHECKING:
    from harness.run.prepare import Prepared
    from harness.run.teardown import Ending

app = typer.Typer(
    name="highwater",
    help="Break a replicated log on purpose, and tell which acknowledged writes survived.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


class Acks(StrEnum):
    """Acknowledgement modes, as people write them."""

    none = "0"
    leader = "1"
    all = "all"


class Mode(StrEnum):
    """What becomes of faults that the target cannot inject."""

    strict = "strict"
    auto = "auto"


Duration = Annotated[str | None, typer.Option(help="Length of the chaos: 90, 90s, 10m, 12h, 7d.")]
ClientLibrary = Annotated[
    str | None,
    typer.Option("--client", help="Whose clients: librdkafka, own, kafka-python or aiokafka."),
]
Faults = Annotated[
    str | None, typer.Option(help="A random mix of these, with commas, instead of the plan's.")
]
NemesisMode = Annotated[
    Mode | None, typer.Option(help="Faults that cannot be injected: refuse, or leave out.")
]
ScheduleFile = Annotated[
    Path | None, typer.Option(help="A TOML or JSON file of events, instead of the plan's faults.")
]
Servers = Annotated[
    str | None,
    typer.Option(help="host:port[,...] of a cluster that runs already: --system external."),
]
Replayed = Annotated[
    Path | None, typer.Option(help="Repeat the plan and schedule of this run directory.")
]
Resolved = Annotated[
    bool, typer.Option("--resolved", help="Replay: strike the same nodes as then.")
]
Rotate = Annotated[
    str | None, typer.Option(help="Seal the history every so often: what may be followed.")
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"highwater {version_of('highwater')}")
        raise Exit(0)


@app.command()
def run(
    plan: Annotated[
        str | None, typer.Argument(help="A TOML file or a packaged plan; none is first-light.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Decides everything random.")] = None,
    duration: Duration = None,
    rotate: Rotate = None,
    nodes: Annotated[int | None, typer.Option(help="Size of the cluster.")] = None,
    acks: Annotated[list[Acks] | None, typer.Option(help="Only topics of these modes.")] = None,
    client: ClientLibrary = None,
    rate: Annotated[
        float | None, typer.Option(help="Sends per second and producer; 0 is full speed.")
    ] = None,
    faults: Faults = None,
    nemesis: NemesisMode = None,
    schedule: ScheduleFile = None,
    target: Annotated[str | None, typer.Option(help="Where the cluster is deployed.")] = None,
    inventory: Annotated[
        Path | None, typer.Option(help="Target ssh: the machines; see docs/ssh.md.")
    ] = None,
    system: SystemName = None,
    kafka_home: KafkaHome = None,
    bootstrap_servers: Servers = None,
    broker_module: BrokerModule = None,
    expect: Expect = None,
    store: Store = Path("store"),
    replay: Replayed = None,
    resolved: Resolved = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the schedule, and start nothing.")
    ] = False,
    teardown: Annotated[
        bool, typer.Option(help="Remove the cluster at the end; or leave it for a look.")
    ] = True,
    heal: Annotated[
        bool, typer.Option(help="Heal what is in force at the end; or leave the cluster broken.")
    ] = True,
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Deploy a cluster, load it, break it, and judge what it did."""
    from harness.plans import plan as plans
    from harness.run.teardown import Ending

    flags: dict[str, Any] = {
        "seed": seed,
        "duration_s": None if duration is None else plans.seconds(duration),
        "rotate_s": None if rotate is None else plans.seconds(rotate),
        "nodes": nodes,
        "acks": None if acks is None else [each.value for each in acks],
        "client": client,
        "rate_per_s": rate,
        "faults": None if faults is None else [f.strip() for f in faults.split(",") if f.strip()],
        "schedule": schedule,
        "nemesis": nemesis,
        "target": target,
        "inventory": None if inventory is None else str(inventory.resolve()),
        "system": system,
        "bootstrap_servers": bootstrap_servers,
        "kafka_home": None if kafka_home is None else str(kafka_home),
        "broker_module": broker_module,
        "expect": expect,
    }
    ending = Ending.asked(teardown=teardown, heal=heal)
    prepared = _prepared(plan, flags, replay, resolved=resolved, refuse=not dry_run)
    if dry_run:
        _show(prepared, as_json)
    _run(prepared, store, ending, report, as_json, debug)


@app.command()
def check(
    run_dir: Annotated[Path, typer.Argument(help="A stored run; store/latest is the last one.")],
    engine: Annotated[
        EngineName, typer.Option(help="Where the history is judged.")
    ] = EngineName.DUCKDB,
    expect: Expect = None,
    report: Annotated[bool, typer.Option(help="Write report.html again.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Judge a stored run again."""
    from harness.judging import judge
    from harness.reports import summary

    verdict = judge.check(run_dir, engine.value, expect or ())
    path = judge.report_beside(run_dir, warn) if report else None
    if as_json:
        print(json.dumps(verdict))
    else:
        summary.print_verdict(terminal.console(), verdict, run_dir.resolve(), path)
    raise Exit(judge.exit_code(verdict))


@app.command()
def report(
    run_dir: Annotated[Path, typer.Argument(help="A judged run.")], debug: Debug = False
) -> None:
    """Write the report of a judged run again."""
    from harness.judging import judge

    print(judge.write_report(run_dir))


@app.command()
def faults(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """List the faults with their parameters, whom they can be aimed at, what they can wait for."""
    from harness.plans import fault_catalogue

    if as_json:
        print(json.dumps(fault_catalogue.as_json(), indent=2))
    else:
        print(fault_catalogue.text())


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Say what this machine can do, which faults it can make, and how to get what it cannot."""
    from harness.targets import abilities
    from harness.targets import doctor as this_machine

    found, offers = this_machine.capabilities(), abilities.offers()
    if as_json:
        capabilities = json.loads(this_machine.as_json(found))
        faults = abilities.as_json(offers)
        print(json.dumps({"capabilities": capabilities, "faults": faults}, indent=2))
    else:
        terminal.console().print(this_machine.table(found))
        print(abilities.text(offers))


@app.command()
def clean(
    store: Store = Path("store"),
    everything: Annotated[
        bool, typer.Option("--all", help="Clusters that were left to live on, too.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Remove what killed runs left running; what they recorded stays."""
    from harness.targets.clean import clean as clean_up

    ensure_privileges()
    tell_cleaned(clean_up(store, everything=everything), "nothing was left behind")


# In the order of the help: those above come first.
app.command()(analyze)
app.command()(simulate)
app.command()(shrink)
app.command()(zoo)
app.command()(nightly)
app.command()(serve)
app.command()(contract)
app.command()(elle)
app.add_typer(import_app, name="import")
app.add_typer(export_app, name="export")
app.command()(bench)
app.add_typer(cluster_app, name="cluster")
app.add_typer(image_app, name="image")


def _prepared(
    plan: str | None, flags: dict[str, Any], replay: Path | None, *, resolved: bool, refuse: bool
) -> "Prepared":
    """The plan as asked for, checked against everything known before a start."""
    from harness.plans import plan as plans
    from harness.plans import repeat
    from harness.run import prepare
    from harness.systems import choose
    from harness.targets import kinds
    from harness.workloads.clients import libraries
    from nemesis.faults.fault import Ability

    if replay is not None:
        made, schedule = repeat.load(replay, plan, flags, resolved=resolved)
    elif resolved:
        raise plans.PlanError("--resolved is for --replay: name the run whose nodes are meant")
    else:
        made = plans.build(plans.load(plan), where=f"plan {plan or plans.FIRST_LIGHT}", flags=flags)
        schedule = None
    prepare.check_system(made)
    kind = kinds.kind_of(made)
    choose.check(made)
    libraries.check(made)
    # All of them, not only what the plan needs: the report says what the target can do.
    lacks = kind.lacking(Ability)
    return prepare.prepare(made, schedule=schedule, lacks=lacks, refuse=refuse)


def _show(prepared: "Prepared", as_json: bool) -> NoReturn:
    """Print what would happen; 254 when it would be refused."""
    from harness.run import dry_run

    if as_json:
        print(json.dumps(dry_run.as_json(prepared), indent=2))
    else:
        print(dry_run.text(prepared))
    raise Exit(0 if prepared.refusal is None else BAD_ARGUMENTS)


def _run(
    prepared: "Prepared", root: Path, ending: "Ending", report: bool, as_json: bool, debug: bool
) -> NoReturn:
    from harness.judging import judge
    from harness.reports import summary
    from harness.run import progress
    from harness.run.runner import Runner
    from harness.systems import choose
    from harness.targets import kinds

    kinds.kind_of(prepared.plan).ensure_privileges()
    ending.check_privileges()
    choose.reach(prepared.plan)
    clean_up_after_the_dead()
    for risk in prepared.risks:
        warn(f"warning: {risk.text}")
    for note in prepared.notes:
        warn(note)
    with progress.for_terminal(prepared.plan) as shown:
        runner = Runner(prepared, root=root, progress=shown, with_report=report, ending=ending)
        on_signals(runner.stop)
        outcome = runner.run()
    run_dir = outcome.run.path
    if outcome.verdict is None:
        if debug and outcome.error is not None:
            traceback.print_exception(outcome.error)
        warn(
            f"the run failed in phase {outcome.failed_phase!r}: {_said(outcome.error)}\n"
            f"What was recorded is in {run_dir}; see harness.log there, and judge it as it is with "
            f"`highwater check {run_dir}`."
        )
    elif as_json:
        print(json.dumps({"run": str(run_dir), **outcome.verdict}))
    else:
        summary.print_verdict(terminal.console(), outcome.verdict, run_dir, outcome.report)
    if outcome.left:
        print("\n".join(outcome.left), file=sys.stderr)
    code = HARNESS_FAILED
    if outcome.verdict is not None:
        code = judge.exit_code(outcome.verdict)
    raise Exit(code)


def _said(error: BaseException | None) -> str:
    return str(error) or type(error).__name__


def _exit_code_of(error: BaseException) -> int:
    """254 when what was asked for is at fault, 255 when we are."""
    from checkers.expectations import BadExpectation
    from harness.admin.errors import BadRequest
    from harness.plans.plan import PlanError
    from harness.recording.store import StoreError

    ours = isinstance(error, PlanError | StoreError | BadRequest | BadExpectation)
    return BAD_ARGUMENTS if ours else HARNESS_FAILED


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Entry point: run the command line and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # The help is drawn with colours, and has no text of a run.
    with nullcontext() if "--help" in arguments or not arguments else terminal.guarded():
        code = _code_of(arguments)
        sys.stdout.flush()
    sys.exit(code)


def _code_of(arguments: list[str]) -> int:
    """Do what is asked for; how to exit."""
    # Typer's own error type of a bad command line; which package defines it depends on its version.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app(arguments, standalone_mode=False)
    except Exit as end:
        code = end.code
    except usage_error as error:
        warn(f"{error.format_message()}\nTry `highwater --help`.")
        code = BAD_ARGUMENTS
    except (KeyboardInterrupt, typer.Abort):
        warn("interrupted; `highwater clean` removes what may be left")
        code = HARNESS_FAILED
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exception(error)
        warn(_said(error) if _is_ours(error) else f"{type(error).__name__}: {_said(error)}")
        code = _exit_code_of(error)
    return code if isinstance(code, int) else 0


def _is_ours(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("harness", "nemesis", "checkers")


if __name__ == "__main__":
    main()

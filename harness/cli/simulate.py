"""`highwater simulate`: plans in a simulated world, a seed at a time. No logic lives here.

Exit codes are those of a run: of the gravest seed.
"""

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.cli.base import BrokerModule, Debug, Exit, Expect, Store, on_signals, warn

if TYPE_CHECKING:
    from harness.simulation.campaign import Result, Task
    from harness.simulation.summary import Sum

DEFAULT_PLAN: Final = "simulation"
KEPT: Final = ("--trace", "--keep-going")
"""Flags that make no other run."""


def simulate(
    plan: Annotated[
        str | None, typer.Argument(help="A TOML file or a packaged plan; none is simulation.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="A..B, one number, or A.. for as long as --time says.")
    ] = "1..20",
    time_s: Annotated[
        float | None, typer.Option("--time", help="Begin no more seeds after so many seconds.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores.")] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first INVALID seed.")
    ] = False,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="Draw cluster, topics, clients and faults per seed.")
    ] = False,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Keep every run directory, with what the nodes said."),
    ] = False,
    replay: Annotated[
        Path | None, typer.Option(help="Repeat the plan, schedule and seed of this run directory.")
    ] = None,
    diagram: Annotated[
        Path | None, typer.Option(help="Of one INVALID seed: a page of who told whom what.")
    ] = None,
    duration: Annotated[float | None, typer.Option(help="Simulated seconds of chaos.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Size of the cluster.")] = None,
    acks: Annotated[list[str] | None, typer.Option(help="Only topics of these modes.")] = None,
    rate: Annotated[float | None, typer.Option(help="Sends per second and producer.")] = None,
    faults: Annotated[
        str | None, typer.Option(help="A random mix of these, with commas, instead of the plan's.")
    ] = None,
    broker_module: BrokerModule = None,
    expect: Expect = None,
    invariants: Annotated[
        bool, typer.Option(help="Look at the nodes' own state after every event.")
    ] = True,
    store: Store = Path("store"),
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per seed.")] = False,
    debug: Debug = False,
) -> None:
    """Run a plan in a simulated world, for many seeds: repeatable, and faster than time."""
    flags: dict[str, Any] = {
        "duration_s": duration,
        "nodes": nodes,
        "acks": acks,
        "rate_per_s": rate,
        "faults": None if faults is None else [f.strip() for f in faults.split(",") if f.strip()],
        "broker_module": broker_module,
        "expect": expect,
    }
    from harness.simulation import summary

    if replay is not None:
        task, wanted = _repeated(replay, plan, flags, store, invariants=invariants)
    else:
        task = _task(plan, flags, store, swarm=swarm, keep=trace, invariants=invariants)
        wanted = summary.seeds(seeds)
    if len(wanted) > summary.ENDLESS // 2 and time_s is None:
        warn("these seeds have no end: it goes on until it is interrupted")
    _check(task, wanted, diagram)
    total = _run(task, wanted, jobs, time_s, keep_going=keep_going, as_json=as_json, plan=plan)
    if not as_json:
        print(total.line())
        print(f"digest of all seeds: {total.digest}")
        print(summary.coverage(total.met))
    _draw(task, wanted[0], total, diagram)
    raise Exit(total.exit_code)


def _draw(task: "Task", seed: int, total: "Sum", path: Path | None) -> None:
    """Write the diagram, where one is wanted."""
    if path is None:
        return
    from harness.recording.store import write_atomic
    from harness.simulation.campaign import INVALID, prepared
    from harness.simulation.diagram.make import drawn

    if not total.outcomes[INVALID]:
        warn(f"seed {seed} is not INVALID: there is nothing to draw")
        return
    repeat = " ".join(_command(seed))
    page = drawn(prepared(task, seed), sign=None, invariants=task.invariants, repeat=repeat)
    write_atomic(path, page)
    warn(f"the diagram of seed {seed} is {path}")


def _task(
    plan: str | None,
    flags: dict[str, Any],
    store: Path,
    *,
    swarm: bool,
    keep: bool,
    invariants: bool,
) -> "Task":
    from harness.plans import plan as plans
    from harness.simulation.campaign import Task

    name = plan or DEFAULT_PLAN
    made = plans.build(plans.load(name), where=f"plan {name}", flags=flags)
    return Task(plan=made, seeds_are_swarms=swarm, root=store, keep=keep, invariants=invariants)


def _repeated(
    replay: Path, plan: str | None, flags: dict[str, Any], store: Path, *, invariants: bool
) -> "tuple[Task, range]":
    from harness.plans import repeat
    from harness.simulation.campaign import Task

    made, schedule = repeat.load(replay, plan, flags)
    task = Task(plan=made, schedule=schedule, root=store, keep=True, invariants=invariants)
    return task, range(made.seed, made.seed + 1)


def _check(task: "Task", seeds: range, diagram: Path | None) -> None:
    """Everything that can be wrong with what was asked for is found before anything starts."""
    from harness.plans.plan import PlanError
    from harness.simulation import campaign

    if diagram is not None and len(seeds) != 1:
        raise PlanError("--diagram shows one seed: give --seeds N, or --replay RUN")
    with campaign.broken_by(campaign.prepared(task, seeds[0]).plan.broker_module):
        pass


def _run(
    task: "Task",
    seeds: range,
    jobs: int | None,
    time_s: float | None,
    *,
    keep_going: bool,
    as_json: bool,
    plan: str | None,
) -> "Sum":
    from harness.simulation import campaign, summary

    running = campaign.Campaign(task, seeds, jobs=min(jobs or os.cpu_count() or 1, len(seeds)))
    on_signals(running.stop)
    until_s = None if time_s is None else time.monotonic() + time_s
    total = summary.Sum()
    with summary.shown(total) as display:
        for result in running.results(until_s):
            total.add(result)
            display.moved()
            if as_json:
                display.say(json.dumps(_as_json(result)))
            elif result.outcome not in (campaign.VALID, campaign.IDLE):
                display.say(summary.failure(result, _command(result.seed)))
            elif task.keep:
                display.say(f"seed {result.seed} VALID, digest {result.digest}, run {result.run}")
            bad = (campaign.INVALID, campaign.UNMET, campaign.FAILED)
            if result.outcome in bad and not keep_going:
                running.stop()
    return total


def _command(seed: int) -> list[str]:
    """What shows this seed again: the command line that is running, for it alone."""
    given, kept = iter(sys.argv[1:]), list[str]()
    for argument in given:
        if argument in ("--seeds", "--time", "--jobs"):
            next(given, None)
        elif argument.split("=")[0] not in ("--seeds", "--time", "--jobs", *KEPT, "--json"):
            kept.append(shlex.quote(argument))
    return ["highwater", *kept, "--seeds", f"{seed}..{seed}", "--trace"]


def _as_json(result: "Result") -> dict[str, Any]:
    return {
        "seed": result.seed,
        "outcome": result.outcome,
        "reasons": list(result.reasons),
        "digest": result.digest,
        "events": result.events,
        "simulated_s": round(result.simulated_s, 3),
        "cpu_s": round(result.cpu_s, 3),
        "screened": result.screened,
        "acked": result.acked,
        "run": None if result.run is None else str(result.run),
        "drawn": result.drawn,
        "met": dict(result.met),
    }

"""`highwater simulate`: runs a plan in a simulated cluster for many seeds.

The exit code is that of a run, for the worst seed. This module has no logic of its own.
"""

import dataclasses
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.cli.base import Exit, on_signals, warn
from harness.cli.options import (
    DEFAULT_STORE,
    Acks,
    BrokerModule,
    Debug,
    Duration,
    Expect,
    Faults,
    Jobs,
    Nodes,
    PlanName,
    Rate,
    Store,
    comma_separated,
)

if TYPE_CHECKING:
    from harness.simulation.campaign import Result, Task
    from harness.simulation.summary import CampaignSummary

DEFAULT_PLAN: Final = "simulation"
WITH_VALUE: Final = ("--seeds", "--time", "--jobs")
WITHOUT_VALUE: Final = ("--trace", "--keep-going", "--json", "--coverage")
"""Options that do not change the run of one seed."""


def simulate(
    plan: PlanName = None,
    seeds: Annotated[
        str,
        typer.Option(
            help="The seeds to run: A..B, one number, or A.. for every seed from A on (give --time "
            "then)."
        ),
    ] = "1..20",
    time_limit: Annotated[
        str | None,
        typer.Option("--time", help="Start no new seed after so long: 90, 90s, 10m, 12h."),
    ] = None,
    jobs: Jobs = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first INVALID seed.")
    ] = False,
    swarm: Annotated[
        bool,
        typer.Option(
            "--swarm", help="Draw the cluster, topics, clients and faults of each seed at random."
        ),
    ] = False,
    guided: Annotated[
        bool,
        typer.Option(
            "--guided",
            help="As --swarm, but most seeds change the plan of an earlier one that reached "
            "something new in the broker's decisions.",
        ),
    ] = False,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Keep the run directory of every seed, with the node logs."),
    ] = False,
    replay: Annotated[
        Path | None, typer.Option(help="Repeat the plan, schedule and seed of this run directory.")
    ] = None,
    diagram: Annotated[
        Path | None,
        typer.Option(
            help="Write a diagram of the messages between the nodes to this HTML file. Needs one "
            "seed, and that it is INVALID."
        ),
    ] = None,
    duration: Duration = None,
    nodes: Nodes = None,
    acks: Acks = None,
    rate: Rate = None,
    faults: Faults = None,
    broker_module: BrokerModule = None,
    expect: Expect = None,
    invariants: Annotated[
        bool, typer.Option(help="Check the nodes' internal state after every event.")
    ] = True,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage", help="Print which of the broker's decisions no seed reached, by module."
        ),
    ] = False,
    store: Store = DEFAULT_STORE,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per seed.")] = False,
    debug: Debug = False,
) -> None:
    """Run a plan in a simulated cluster, for many seeds.

    A simulated run is repeatable, and faster than real time. Without a plan it is the packaged plan
    simulation: half a minute of most faults.
    """
    from nodes.sources import use_sources

    if broker_module is not None or coverage or guided:
        use_sources()  # they change the broker's functions
    from harness.plans.durations import seconds
    from harness.simulation import summary

    time_s = None if time_limit is None else seconds(time_limit)
    flags: dict[str, Any] = {
        "duration_s": None if duration is None else seconds(duration),
        "nodes": nodes,
        "acks": None if acks is None else [each.value for each in acks],
        "rate_per_s": rate,
        "faults": None if faults is None else comma_separated(faults),
        "broker_module": broker_module,
        "expect": expect,
    }

    if guided and (replay is not None or diagram is not None):
        raise typer.BadParameter(
            "--guided searches: it goes with --seeds, not with --replay or --diagram"
        )
    if replay is not None:
        task, wanted = _repeated(replay, plan, flags, store)
    else:
        task = _task(plan, flags, store, swarm=swarm or guided, keep=trace)
        wanted = summary.seeds(seeds)
    task = dataclasses.replace(task, invariants=invariants, coverage=coverage or guided)
    if len(wanted) > summary.ENDLESS // 2 and time_s is None:
        warn("the seeds have no end: the command runs until it is interrupted (--time bounds it)")
    _check(task, wanted, diagram)
    total = _run(task, wanted, jobs, time_s, guided=guided, keep_going=keep_going, as_json=as_json)
    if not as_json:
        print(total.line())
        print(f"digest of all seeds: {total.digest}")
        print(summary.situations(total.met))
    if coverage:
        print(total.reached.text(), file=sys.stderr if as_json else sys.stdout)
    _draw(task, wanted[0], total, diagram)
    raise Exit(total.exit_code)


def _draw(task: "Task", seed: int, total: "CampaignSummary", path: Path | None) -> None:
    """Write the diagram if the user asked for one."""
    if path is None:
        return
    from harness.recording.store import write_atomic
    from harness.simulation.campaign import INVALID, prepared
    from harness.simulation.diagram.make import render_diagram

    if not total.outcomes[INVALID]:
        warn(f"seed {seed} is not INVALID: there is nothing to draw")
        return
    repeat = " ".join(_command_of_seed(seed))
    page = render_diagram(
        prepared(task, seed), sign=None, invariants=task.invariants, repeat=repeat
    )
    write_atomic(path, page)
    warn(f"wrote the diagram of seed {seed} to {path}")


def _task(
    plan: str | None,
    flags: dict[str, Any],
    store: Path,
    *,
    swarm: bool,
    keep: bool,
) -> "Task":
    from harness.plans import plan as plans
    from harness.simulation.campaign import Task

    name = plan or DEFAULT_PLAN
    made = plans.build(plans.load(name), where=f"plan {name}", flags=flags)
    return Task(plan=made, seeds_are_swarms=swarm, root=store, keep=keep)


def _repeated(
    replay: Path, plan: str | None, flags: dict[str, Any], store: Path
) -> "tuple[Task, range]":
    from harness.plans import repeat
    from harness.simulation.campaign import Task

    made, schedule = repeat.load(replay, plan, flags)
    if (warning := repeat.of_another_python(replay)) is not None:
        warn(warning)
    task = Task(plan=made, schedule=schedule, root=store, keep=True)
    return task, range(made.seed, made.seed + 1)


def _check(task: "Task", seeds: range, diagram: Path | None) -> None:
    """Raise PlanError for bad arguments before anything starts."""
    from harness.plans.plan import PlanError
    from harness.simulation import campaign

    if diagram is not None and len(seeds) != 1:
        raise PlanError("--diagram shows one seed: give --seeds N, or --replay RUN")
    with campaign.apply_broker_module(campaign.prepared(task, seeds[0]).plan.broker_module):
        pass


def _run(
    task: "Task",
    seeds: range,
    jobs: int | None,
    time_s: float | None,
    *,
    guided: bool,
    keep_going: bool,
    as_json: bool,
) -> "CampaignSummary":
    from harness.simulation import campaign, summary
    from harness.simulation.guided.search import GuidedSearch

    source = GuidedSearch(task, seeds) if guided else campaign.Seeds(task, seeds)
    running = campaign.Campaign(source, jobs=min(jobs or os.cpu_count() or 1, len(seeds)))

    def stop() -> None:
        running.stop()
        if begun := running.begun:
            warn(f"still running, and finished first: seeds {', '.join(map(str, begun))}")

    on_signals(stop)
    until_s = None if time_s is None else time.monotonic() + time_s
    total = summary.CampaignSummary()
    with summary.live_display(total) as display:
        for result in running.results(until_s):
            total.add(result)
            display.refresh()
            if as_json:
                display.print(json.dumps(_as_json(result)))
            elif result.outcome not in (campaign.VALID, campaign.IDLE):
                display.print(summary.failure(result, _command(result, guided=guided)))
            elif task.keep:
                display.print(f"seed {result.seed} VALID, digest {result.digest}, run {result.run}")
            bad = (campaign.INVALID, campaign.UNMET, campaign.FAILED)
            if result.outcome in bad and not keep_going:
                running.stop()
    return total


def _command(result: "Result", *, guided: bool) -> list[str]:
    """Return the command that repeats a seed. A guided search finds a plan on its way there: its
    run has it."""
    if guided and result.run is not None:
        return ["highwater", "simulate", "--replay", shlex.quote(str(result.run))]
    return _command_of_seed(result.seed)


def _command_of_seed(seed: int) -> list[str]:
    """Return the command that repeats this seed: the present command line, for this seed alone."""
    given, kept = iter(sys.argv[1:]), list[str]()
    for argument in given:
        if argument in WITH_VALUE:
            next(given, None)
        elif argument.split("=")[0] not in (*WITH_VALUE, *WITHOUT_VALUE):
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

"""`highwater shrink`: finds the smallest scenario that fails in the same way as a run.

It shortens the fault schedule, the cluster and the workload. It writes the scenario and, beside it,
a page with the messages between the nodes during the failure; the scenario's run goes to the store.

Exit codes: 0 a scenario was written; 254 the run or seed does not fail.
"""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base import warn
from harness.cli.options import DEFAULT_STORE, BrokerModule, Debug, Jobs, Store
from harness.cli.simulate import DEFAULT_PLAN

if TYPE_CHECKING:
    from harness.plans.plan import Plan
    from harness.simulation.shrinking.trial import Failure

OTHER_SEEDS = 20
"""The number of seeds that are searched for the failure of a run of real processes."""


def shrink(
    what: Annotated[
        str, typer.Argument(help="A failing seed of `highwater simulate`, or a run directory.")
    ],
    plan: Annotated[
        str | None,
        typer.Option(
            help="The plan of the seed: a TOML file or the name of a packaged plan. Default: "
            "simulation."
        ),
    ] = None,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="The seed was run with `highwater simulate --swarm`.")
    ] = False,
    broker_module: BrokerModule = None,
    time_limit: Annotated[
        str, typer.Option("--time", help="Stop reducing after so long: 90, 90s, 10m.")
    ] = "120",
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The TOML file to write. Default: shrunk-SEED.toml."),
    ] = None,
    store: Store = DEFAULT_STORE,
    debug: Debug = False,
) -> None:
    """Reduce a failing run to the smallest scenario that fails.

    The scenario fails in the same way as the run. Its own run goes to the store, with its report.
    """
    from nodes.sources import use_sources

    use_sources()  # the run that is reduced may be that of a mutant
    from harness.judging import judge
    from harness.plans.durations import seconds
    from harness.recording.store import StoreError, write_atomic
    from harness.simulation.shrinking import scenario
    from harness.simulation.shrinking.search import Search
    from harness.simulation.shrinking.trial import first_failure

    began_s, time_s = time.monotonic(), seconds(time_limit)
    given, seeds = _given(what, plan, swarm, broker_module)
    worlds = "a simulated cluster" if len(seeds) == 1 else f"{len(seeds)} simulated clusters"
    warn(f"looking for the failure in {worlds}, for at most {time_s:g} s")
    first = first_failure(given, seeds, began_s + time_s)
    if first is None:
        asked = f"seed {what}" if len(seeds) == 1 else f"{what} in {len(seeds)} simulated clusters"
        if time.monotonic() > began_s + time_s:
            asked += f" (not all were tried within {time_s:g} s; --time gives more)"
        raise StoreError(f"{asked} does not fail: there is nothing to reduce")
    warn(_described(first))
    warn(first.reason)
    search = Search(
        failure=first,
        until_s=began_s + time_s,
        jobs=jobs or os.cpu_count() or 1,
        on_progress=lambda found: warn(_described(found)),
    )
    shrunk = search.run()
    path = out or Path(f"shrunk-{first.plan.seed}.toml")
    write_atomic(path, scenario.text(shrunk.failure, shlex.join(["highwater", *sys.argv[1:]])))
    if not shrunk.failure.visible:
        warn(scenario.UNSEEN)
    end = "nothing more can be left out" if shrunk.finished else "the time is over"
    warn(f"tried {shrunk.tried} plans in {time.monotonic() - began_s:.0f} s; {end}")
    print(f"plan     {path}")
    page = path.with_suffix(".html")
    write_atomic(page, _diagram(shrunk.failure, path))
    print(f"diagram  {page}")
    run = _stored_run(shrunk.failure, store)
    if run is not None:
        print(f"run      {judge.write_report_or_warn(run, warn) or run}")


def _stored_run(failure: "Failure", store: Path) -> Path | None:
    """Run the failure again, into the store."""
    from harness.simulation.campaign import Task, run_seed

    task = Task(plan=failure.plan, root=store, keep=True, invariants=not failure.visible)
    return run_seed(task, failure.plan.seed).run


def _diagram(failure: "Failure", scenario: Path) -> str:
    """Run the failure again and return its space-time diagram."""
    from harness.simulation.campaign import Task, prepared
    from harness.simulation.diagram.make import render_diagram
    from harness.simulation.shrinking.scenario import repeat_command

    return render_diagram(
        prepared(Task(plan=failure.plan, root=Path()), failure.plan.seed),
        sign=failure.signs[0],
        invariants=not failure.visible,
        repeat=repeat_command(failure, str(scenario)),
    )


def _given(
    what: str, plan: str | None, swarm: bool, broker_module: str | None
) -> "tuple[Plan, range]":
    """Return the failing plan, with its faults as events, and the seeds that may show it."""
    from harness.plans import plan as plans
    from harness.plans import repeat
    from harness.simulation.campaign import Task, prepared

    flags = {"broker_module": broker_module}
    if what.isdecimal():
        name = plan or DEFAULT_PLAN
        made = plans.build(plans.load(name), where=f"plan {name}", flags=flags)
        task = Task(plan=made, seeds_are_swarms=swarm, root=Path())
        seeds = range(int(what), int(what) + 1)
    else:
        made, schedule = repeat.load(Path(what), plan, flags)
        task = Task(plan=made, schedule=schedule, root=Path())
        tries = 1 if made.target == "sim" else OTHER_SEEDS
        seeds = range(made.seed, made.seed + tries)
    fixed = prepared(task, seeds[0])
    nemesis = plans.Nemesis(events=fixed.schedule.events)
    return fixed.plan.model_copy(update={"nemesis": nemesis}), seeds


def _described(failure: "Failure") -> str:
    """Return the failure and its size: faults, cluster, clients, seed."""
    plan = failure.plan
    partitions = sum(topic.partitions for topic in plan.topics)
    return (
        f"{failure.signs[0]}: {_count(len(plan.nemesis.events), 'fault')} in "
        f"{plan.duration_s:g} s, {_count(plan.nodes, 'node')}, {_count(partitions, 'partition')}, "
        f"{_count(plan.workload.producers, 'producer')} and "
        f"{_count(plan.workload.consumers, 'consumer')} a topic, "
        f"{plan.workload.rate_per_s:g} sends/s, seed {plan.seed}"
    )


def _count(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"

"""`highwater shrink`: the shortest schedule, smallest cluster and workload that fail the same way.

Writes the scenario, and beside it a page that shows who told whom what when it fails.

Exit codes: 0 when something was written, 254 when what was given does not fail.
"""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base import BrokerModule, Debug, warn
from harness.cli.simulate import DEFAULT_PLAN

if TYPE_CHECKING:
    from harness.plans.plan import Plan
    from harness.simulation.shrinking.trial import Failure

OTHER_SEEDS = 20
"""A run of another target is sought in so many simulated worlds."""


def shrink(
    what: Annotated[
        str, typer.Argument(help="A seed of `highwater simulate`, or a run directory.")
    ],
    plan: Annotated[
        str | None, typer.Option(help="The seed's plan: a TOML file or a packaged one.")
    ] = None,
    swarm: Annotated[bool, typer.Option("--swarm", help="The seed was one of a swarm.")] = False,
    broker_module: BrokerModule = None,
    time_s: Annotated[float, typer.Option("--time", min=1, help="Seconds at the most.")] = 120.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The scenario to write; shrunk-SEED.toml otherwise.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Reduce a failing run to the shortest schedule that fails the same way."""
    from harness.recording.store import StoreError, write_atomic
    from harness.simulation.shrinking import scenario
    from harness.simulation.shrinking.search import Search
    from harness.simulation.shrinking.trial import first_failure

    began_s = time.monotonic()
    given, seeds = _given(what, plan, swarm, broker_module)
    worlds = "a simulated world" if len(seeds) == 1 else f"{len(seeds)} simulated worlds"
    warn(f"looking for the failure in {worlds}, for {time_s:g} s at the most")
    first = first_failure(given, seeds, began_s + time_s)
    if first is None:
        asked = f"seed {what}" if len(seeds) == 1 else f"{what} in {len(seeds)} simulated worlds"
        if time.monotonic() > began_s + time_s:
            asked += f" (as many as {time_s:g} s were enough for; --time gives more)"
        raise StoreError(f"{asked} does not fail: there is nothing to reduce")
    warn(f"{_sized(first)}: {first.reason}")
    search = Search(
        failure=first,
        until_s=began_s + time_s,
        jobs=jobs or os.cpu_count() or 1,
        told=lambda found: warn(_sized(found)),
    )
    shrunk = search.run()
    path = out or Path(f"shrunk-{first.plan.seed}.toml")
    write_atomic(path, scenario.text(shrunk.failure, " ".join(_asked())))
    end = "nothing more can be left out" if shrunk.finished else "time is up"
    warn(f"{shrunk.tried} plans tried in {time.monotonic() - began_s:.0f} s; {end}")
    print(path)
    page = path.with_suffix(".html")
    write_atomic(page, _diagram(shrunk.failure, path))
    print(page)


def _diagram(failure: "Failure", scenario: Path) -> str:
    """The failure's space-time diagram, from a run of its own."""
    from harness.simulation.campaign import Task, prepared
    from harness.simulation.diagram.make import drawn
    from harness.simulation.shrinking.scenario import repeated_by

    return drawn(
        prepared(Task(plan=failure.plan, root=Path()), failure.plan.seed),
        sign=failure.signs[0],
        invariants=not failure.visible,
        repeat=repeated_by(failure, str(scenario)),
    )


def _given(
    what: str, plan: str | None, swarm: bool, broker_module: str | None
) -> "tuple[Plan, range]":
    """The failing plan with its faults as events, and the seeds that may show the failure."""
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


def _sized(failure: "Failure") -> str:
    plan = failure.plan
    partitions = sum(topic.partitions for topic in plan.topics)
    return (
        f"{failure.signs[0]}: {_of(len(plan.nemesis.events), 'fault')} in {plan.duration_s:g} s, "
        f"{_of(plan.nodes, 'node')}, {_of(partitions, 'partition')}, "
        f"{_of(plan.workload.producers, 'producer')} and "
        f"{_of(plan.workload.consumers, 'consumer')} a topic, "
        f"{plan.workload.rate_per_s:g} sends/s, seed {plan.seed}"
    )


def _of(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _asked() -> list[str]:
    return ["highwater", *map(shlex.quote, sys.argv[1:])]

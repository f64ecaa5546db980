"""Checks traces of simulated seeds against the TLA+ specifications, by TLC.

    python -m tests.tools.validate_traces --seeds 1..20 [--swarm] [--broker-module MODULE]

TLC comes with `make tlc`. Faults that the specifications do not describe are left out of the plan.
Each trace that is no behaviour of its specification is printed with the entry that no step of the
specification explains, and the exit code is 1. With a mutant of the zoo as MODULE, that is wanted.
"""

import argparse
import sys
import time
from pathlib import Path

from harness.plans.plan import build, load
from harness.run import prepare
from harness.simulation import summary
from harness.simulation.campaign import Task, prepared
from harness.simulation.validation import tlc
from harness.simulation.validation.observe import described, traces_of


def main() -> int:
    """Run, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1..20")
    parser.add_argument("--plan", default="simulation")
    parser.add_argument("--swarm", action="store_true")
    parser.add_argument("--broker-module", default="nodes")
    asked = parser.parse_args()
    jar = tlc.find_jar()
    plan = build(load(asked.plan), where=asked.plan)
    task = Task(
        plan=plan.model_copy(update={"broker_module": asked.broker_module}),
        seeds_are_swarms=asked.swarm,
        root=Path(),
    )
    began_s = time.monotonic()
    seeds = list(summary.seeds(asked.seeds))
    traces = [
        trace
        for seed in seeds
        for trace in traces_of(
            prepare.prepare(described(prepared(task, seed).plan)), f"seed {seed}"
        )
    ]
    simulated_s = time.monotonic() - began_s
    judged = tlc.judge(traces, jar=jar)
    refused = [each for each in judged if not each.accepted]
    for each in refused:
        print(f"{each.trace.name}: {each.reason}")
    entries = sum(len(each.entries) for each in traces)
    checked_s = time.monotonic() - began_s - simulated_s
    print(
        f"{len(seeds)} seeds, {len(traces)} traces with {entries} entries: {len(refused)} refused; "
        f"{simulated_s:.0f} s to run, {checked_s:.0f} s in TLC"
    )
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())

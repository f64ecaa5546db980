"""Plans as objects: what a run does, as frozen and checked values."""

from __future__ import annotations

import os
from typing import Any

from harness.plans.plan import Nemesis as Nemesis
from harness.plans.plan import Plan as Plan
from harness.plans.plan import Topic as Topic
from harness.plans.plan import Workload as Workload
from harness.plans.plan import build, packaged
from harness.plans.plan import load as load_raw
from highwater._errors import InvalidPlan, translated
from nemesis.schedule import Event as Event

_FLAGS = ("seed", "duration_s", "rotate_s", "nodes", "acks", "client", "bootstrap_servers",
          "rate_per_s", "faults", "schedule", "nemesis", "target", "inventory", "system",
          "kafka_home", "broker_module", "name", "expect")  # fmt: skip


def plan(source: str | os.PathLike[str] = "first-light", /, **changes: Any) -> Plan:
    """Return a plan: a packaged one by its name, or one of a TOML file.

    `changes` go on top, like the flags of `highwater run`: seed, duration_s, rotate_s, nodes, acks
    (keep only the topics of these modes: "0", "1", "all"), client, rate_per_s, faults (a list of
    names: a random mix of them replaces the planned faults), target, system, kafka_home,
    bootstrap_servers, broker_module, name, expect. Raises InvalidPlan.

    Example:
        >>> plan = highwater.plan("first-light", nodes=5, acks=["all"])
        >>> plan.nodes, [topic.name for topic in plan.topics]
        (5, ['acks-all'])
    """
    if unknown := sorted(changes.keys() - set(_FLAGS)):
        raise InvalidPlan(f"plan() has no argument {unknown[0]!r}; it has {', '.join(_FLAGS)}")
    name = os.fspath(source)
    with translated():
        return build(load_raw(name), where=f"plan {name}", flags=changes)


def packaged_plans() -> tuple[str, ...]:
    """Return the names of the plans that come with highwater.

    Example:
        >>> "first-light" in highwater.packaged_plans()
        True
    """
    return packaged()

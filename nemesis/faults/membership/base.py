"""The common parts of the administration faults: each has a layer of its own, and reverts it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.administration import PartitionKey
from nemesis.base import NotApplicable
from nemesis.faults.fault import (
    Ability,
    FaultBase,
    Injection,
    Measurement,
    Option,
    Params,
    node_list,
)
from nemesis.hosts import Hosts

ANY: Final = "any"
STEP_MS: Final = 1_000
"""How often a fault checks the cluster and does its next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminFault(FaultBase):
    """An administration request. Open choices are drawn at the injection, seeded by the layer."""

    needs: frozenset[Ability] = frozenset({Ability.ADMINISTRATION})
    default_selector: str = "all"
    selectable: bool = False

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The parameters, the selected nodes if the fault has a selector, and a layer of its own.

        The nodes are details, not `nodes`: nothing is done to their machines that could delay news
        of decisions, so this fault must not excuse a loss.
        """
        details = {"layer": f"{self.name}/{rng.getrandbits(32):08x}", **params.values}
        if self.default_selector != "all":
            details["nodes"] = ",".join(map(str, sorted(selected)))
        return Injection(details=tuple(sorted(details.items())))

    def label(self, injection: Injection) -> str:
        """For example `config segment.bytes=65536`: the fault and its chosen parameters."""
        nodes = nodes_of(injection)
        parts = [f"{self.name} {node_list(nodes)}" if nodes else self.name]
        for option in self.options:
            value = injection.detail(option.name)
            if value not in (ANY, option.default):
                parts.append(f"{option.name}={value}")
        return " ".join(parts)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Revert the layer."""
        hosts.cluster.undo(layer(injection))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Always confirmed: pending work goes on in the background and is reported, because a
        cluster under other faults may not answer.
        """
        pending = hosts.cluster.pending_work(layer(injection))
        return Measurement(confirmed=True, evidence=pending or "everything was reverted")


def layer(injection: Injection) -> str:
    """The layer of the injection."""
    return injection.detail("layer")


def nodes_of(injection: Injection) -> list[int]:
    """The nodes selected for the injection."""
    return [int(node) for node in dict(injection.details).get("nodes", "").split(",") if node]


def draw(injection: Injection) -> random.Random:
    """A random number generator seeded by the injection."""
    return random.Random(layer(injection))


def with_drawn_change(
    injection: Injection, safe: Mapping[str, Sequence[str]], rng: random.Random
) -> Injection:
    """Draw the open ones of the details `name` and `value`: a configuration and its new value.

    `safe` has the values to choose from, by name. Raises NotApplicable for a name without any.
    """
    details = dict(injection.details)
    if details["name"] == ANY:
        details["name"] = rng.choice(sorted(safe))
    if details["value"] == ANY:
        known = safe.get(details["name"])
        if known is None:
            raise NotApplicable(
                f"{details['name']} has no safe values to choose from: name a value"
            )
        details["value"] = rng.choice(known)
    return Injection(details=tuple(sorted(details.items())))


def count(least: int, most: int) -> Callable[[str], object]:
    """A parser of whole numbers from `least` to `most`."""

    def read(text: str) -> object:
        if not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"it is a whole number from {least} to {most}")
        return int(text)

    return read


def one_of(*allowed: str) -> Callable[[str], object]:
    """A parser of one of these words."""

    def read(text: str) -> object:
        if text not in allowed:
            raise ValueError(f"it is one of {', '.join(allowed)}")
        return text

    return read


TOPIC: Final = Option(name="topic", default=ANY, about="a topic of the run, or any of them")
SCOPE: Final = Option(
    name="scope",
    default="partition",
    about="partition (a random one) or topic (all of its partitions)",
    read=one_of("partition", "topic"),
)


def some_partitions(hosts: Hosts, injection: Injection, rng: random.Random) -> list[PartitionKey]:
    """The partitions that `topic` and `scope` choose. Raises NotApplicable if there is none."""
    named = injection.detail("topic")
    known = [at for at in hosts.view.partitions() if named in (ANY, at[0])]
    if not known:
        raise NotApplicable(f"there is no topic {named} in the run")
    chosen = rng.choice(known)
    if injection.detail("scope") == "partition":
        return [chosen]
    return [at for at in known if at[0] == chosen[0]]


def partition_name(at: PartitionKey) -> str:
    """For example `topic/0`."""
    return f"{at[0]}/{at[1]}"

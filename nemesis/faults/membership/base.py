"""What the faults of administration have in common: a layer of their own, and its undoing."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.administration import At
from nemesis.base import Futile
from nemesis.faults.fault import Ability, Effect, FaultBase, Option, Params, Strike, node_list
from nemesis.hosts import Hosts

ANY: Final = "any"
LOOK_MS: Final = 1_000
"""How often a fault looks at the cluster, and goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Administered(FaultBase):
    """An order to the cluster. What it leaves open is drawn when it is given, from its layer."""

    needs: frozenset[Ability] = frozenset({Ability.ADMINISTRATION})
    default_targets: str = "all"
    aimable: bool = False

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """The parameters, the targets where the fault has any, and a layer of its own.

        The targets are details: nothing is done to these machines that could keep a node from
        hearing what was decided, and so no loss is to be excused by it.
        """
        details = {"layer": f"{self.name}/{rng.getrandbits(32):08x}", **params.values}
        if self.default_targets != "all":
            details["nodes"] = ",".join(map(str, sorted(targets)))
        return Strike(details=tuple(sorted(details.items())))

    def label(self, strike: Strike) -> str:
        """Such as `config segment.bytes=65536`: the fault, and what was not left open."""
        nodes = nodes_of(strike)
        said = [f"{self.name} {node_list(nodes)}" if nodes else self.name]
        for option in self.options:
            value = strike.detail(option.name)
            if value not in (ANY, option.default):
                said.append(f"{option.name}={value}")
        return " ".join(said)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Take back what is left of it."""
        hosts.cluster.undo(layer(strike))

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """What is still owed is done in the background, and said: a cluster that other faults hold
        may answer nobody."""
        owed = hosts.cluster.owed(layer(strike))
        return Effect(took=True, evidence=owed or "all of it was taken back")


def layer(strike: Strike) -> str:
    """The name of what the strike does."""
    return strike.detail("layer")


def nodes_of(strike: Strike) -> list[int]:
    """The nodes that it is aimed at."""
    return [int(node) for node in dict(strike.details).get("nodes", "").split(",") if node]


def draw(strike: Strike) -> random.Random:
    """The same numbers for the same strike."""
    return random.Random(layer(strike))


def count(least: int, most: int) -> Callable[[str], object]:
    """A reader of whole numbers from `least` to `most`."""

    def read(text: str) -> object:
        if not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"it is a whole number from {least} to {most}")
        return int(text)

    return read


def one_of(*allowed: str) -> Callable[[str], object]:
    """A reader of one of these words."""

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


def some_partitions(hosts: Hosts, strike: Strike, rng: random.Random) -> list[At]:
    """The partitions of the run that `topic` and `scope` mean. Raises Futile when there is none."""
    named = strike.detail("topic")
    known = [at for at in hosts.view.partitions() if named in (ANY, at[0])]
    if not known:
        raise Futile(f"there is no topic {named} in the run")
    chosen = rng.choice(known)
    if strike.detail("scope") == "partition":
        return [chosen]
    return [at for at in known if at[0] == chosen[0]]


def told(at: At) -> str:
    """A partition as people read it."""
    return f"{at[0]}/{at[1]}"

"""Connection resets, as by a load balancer or a firewall that lost its state."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.base import NotApplicable
from nemesis.faults.fault import Ability, Fault, FaultBase, Injection, Measurement, Option, Params
from nemesis.faults.network.options import choice, chosen_links, peers
from nemesis.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(FaultBase):
    """Resets every TCP connection between the nodes and their peers."""

    needs: frozenset[Ability] = frozenset({Ability.CONNECTION_RESETS})
    tick_ms: int | None = 1000

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """(node, peer) for every pair."""
        pairs = chosen_links(selected, nodes, Params({**params.values, "direction": "out"}))
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        details = (*sorted(params.values.items()), ("layer", layer))
        return Injection(nodes=tuple(selected), links=pairs, details=details)

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Reset the present connections. Raises NotApplicable without pairs."""
        if not injection.links:
            raise NotApplicable("the nodes have no peers")
        hosts.links.reset(injection.links, injection.detail("layer"))

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Reset new connections, if the event asks for it."""
        if injection.detail("repeat") == "yes":
            hosts.links.reset(injection.links, injection.detail("layer"))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if connections were reset."""
        ended = hosts.links.connections_reset(injection.detail("layer"))
        return Measurement(confirmed=ended > 0, evidence=f"{ended} connections were reset")

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Do nothing: there is nothing to undo."""

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Always confirmed: disconnected machines may reconnect at once."""
        return Measurement(confirmed=True, evidence="a reset needs no undo")


FAULTS: tuple[Fault, ...] = (
    Reset(
        name="reset",
        about="the nodes' TCP connections are reset, once or every second",
        options=(
            peers("all"),
            Option(
                name="repeat",
                default="no",
                about="yes: reset new connections every second",
                read=choice("no", "yes"),
            ),
        ),
    ),
)

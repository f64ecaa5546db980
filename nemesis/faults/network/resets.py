"""Connections that are ended by a reset, as a firewall that forgot them or a load balancer does."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.base import Futile
from nemesis.faults.fault import Ability, Effect, Fault, FaultBase, Option, Params, Strike
from nemesis.faults.network.options import choice, meant, peers
from nemesis.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(FaultBase):
    """Ends every TCP connection of the targets with their peers."""

    needs: frozenset[Ability] = frozenset({Ability.CONNECTION_RESETS})
    pulse_ms: int | None = 1000

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """(target, peer) for every pair."""
        pairs = meant(targets, nodes, Params({**params.values, "direction": "out"}))
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        details = (*sorted(params.values.items()), ("layer", layer))
        return Strike(nodes=tuple(targets), links=pairs, details=details)

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """End what there is now. Raises Futile where there are no pairs."""
        if not strike.links:
            raise Futile("the targets have no peers")
        hosts.links.reset(strike.links, strike.detail("layer"))

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """End what has been connected again, where the event asks for that."""
        if strike.detail("repeat") == "yes":
            hosts.links.reset(strike.links, strike.detail("layer"))

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel ended connections."""
        ended = hosts.links.ended(strike.detail("layer"))
        return Effect(took=ended > 0, evidence=f"{ended} connections ended by a reset")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Nothing is left to be undone."""

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Who was disconnected may connect again at once."""
        return Effect(took=True, evidence="nothing keeps anybody from connecting")


FAULTS: tuple[Fault, ...] = (
    Reset(
        name="reset",
        about="the targets' TCP connections ended by a reset, once or every second",
        options=(
            peers("all"),
            Option(
                name="repeat",
                default="no",
                about="yes to end what has been connected again every second",
                read=choice("no", "yes"),
            ),
        ),
    ),
)

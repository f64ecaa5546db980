"""Collects what faults may act on in a run: the target's machines and the administration."""

from harness.targets.base import Target
from nemesis.administration import Administration
from nemesis.base import ClusterView
from nemesis.hosts import Clocks, Hosts


def hosts_of(
    target: Target, view: ClusterView, cluster: Administration, clocks: Clocks | None = None
) -> Hosts:
    """Return everything that the nemesis of a run may break. `clocks` replace the target's."""
    return Hosts(
        processes=target,
        clients=target.clients,
        links=target.links,
        disks=target.disks,
        clocks=clocks or target.clocks,
        power=target.power,
        cluster=cluster,
        view=view,
    )

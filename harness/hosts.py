"""What faults may act on in a run: the target's machines and the cluster's administration."""

from harness.targets.base import Target
from nemesis.base import ClusterView
from nemesis.hosts import Hosts


class Administrator:
    """See `nemesis.hosts.Administration`."""


def hosts_of(target: Target, view: ClusterView) -> Hosts:
    """Everything that the nemesis of a run may break."""
    return Hosts(
        processes=target,
        clients=target.clients,
        links=target.links,
        disks=target.disks,
        clocks=target.clocks,
        cluster=Administrator(),
        view=view,
    )

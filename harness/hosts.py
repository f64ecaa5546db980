"""What faults may act on in a run: the target's machines and the cluster's administration."""

from harness.targets.base import Target
from nemesis.administration import Administration
from nemesis.base import ClusterView
from nemesis.hosts import Hosts


def hosts_of(target: Target, view: ClusterView, cluster: Administration) -> Hosts:
    """Everything that the nemesis of a run may break."""
    return Hosts(
        processes=target,
        clients=target.clients,
        links=target.links,
        disks=target.disks,
        clocks=target.clocks,
        cluster=cluster,
        view=view,
    )

"""A stalled disk costs the stalled broker its leaderships; it does not hang the partition.

Real nodes on real file systems of their own, frozen by the kernel: whoever writes or syncs there
blocks, and the process stays alive (KAFKA-8733).
"""

from pathlib import Path

import pytest

from tests.support.clusters.disk_cluster import NODES, DiskCluster, disk_cluster, wait_for


@pytest.mark.slow
def test_a_stalled_disk_costs_leadership_and_nothing_else(tmp_path: Path) -> None:
    """Each node in turn, the active controller among them: writes go on elsewhere, all rejoin."""
    with disk_cluster(tmp_path) as cluster:
        cluster.send_to_all(b"before")
        for node in NODES:
            stall(cluster, node)
        cluster.end()


def stall(cluster: DiskCluster, node: int) -> None:
    """Stall the disk of a leader, write through its successors, heal, and wait for its return."""
    cluster.await_leadership(node)
    other = next(each for each in NODES if each != node)
    fault, injection = cluster.plan_injection("disk.stall", [node])
    fault.inject(cluster.hosts, injection)
    try:
        fault.measure_effect(
            cluster.hosts, injection
        )  # which begins the write that is to be held up
        taken_s = cluster.send_to_all(b"during")
        effect = fault.measure_effect(cluster.hosts, injection)
        assert effect.confirmed, effect.evidence
        assert cluster.target.is_running(node)
        seen = cluster.views(other)
        assert all(view.leader not in (node, None) for view in seen.values())
        assert all(node not in view.isr for view in seen.values())
    finally:
        fault.heal(cluster.hosts, injection)
    wait_for(
        lambda: fault.measure_heal(cluster.hosts, injection).confirmed, "the write is still held up"
    )
    print(f"{effect.evidence}; acknowledged everywhere after {taken_s:.2f} s")
    cluster.await_whole()
    cluster.send_to_all(b"after")

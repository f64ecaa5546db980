"""What the broker makes of broken disks: it goes on or ends, and loses nothing it should keep.

Every fault hits a node that leads a partition, in a cluster with acks=all and
min.insync.replicas=2: one replica may lose whatever it has, and nothing that was acknowledged is
lost.
"""

import time
from pathlib import Path

import pytest

from harness.admin.errors import AdminError
from nemesis.faults.fault import Fault, Injection
from tests.support.clusters.disk_cluster import NODES, DiskCluster, disk_cluster, wait_for
from tests.support.tiers import in_turn

LONG_BYTES = 200_000


def broken(cluster: DiskCluster, name: str, node: int, **given: str) -> str:
    """Break a leader's disk, write meanwhile, heal, wait until all is whole; what happened."""
    cluster.await_leadership(node)
    fault, injection = cluster.plan_injection(name, [node], **given)
    began_s = time.monotonic()
    fault.inject(cluster.hosts, injection)
    injected_ms = (time.monotonic() - began_s) * 1000
    try:
        # Larger than what the file system would find room for in the blocks it has given already.
        taken_s = cluster.send_to_all(f"during {name} ".encode().ljust(LONG_BYTES))

        def took() -> bool:
            elapsed_ms = round((time.monotonic() - began_s) * 1000)
            fault.tick(cluster.hosts, injection, elapsed_ms)
            return fault.measure_effect(cluster.hosts, injection).confirmed

        wait_for(took, f"{name} does nothing")
        effect = fault.measure_effect(cluster.hosts, injection).evidence
        state = "runs" if cluster.target.is_running(node) else "is down"
    finally:
        healed_s = time.monotonic()
        fault.heal(cluster.hosts, injection)
        healed_ms = (time.monotonic() - healed_s) * 1000
    wait_for(
        lambda: fault.measure_heal(cluster.hosts, injection).confirmed, f"{name} is not healed"
    )
    cluster.await_whole()
    cluster.send_to_all(f"after {name}".encode())
    return (
        f"{name}: {effect}; acknowledged after {taken_s:.2f} s, the node {state}; "
        f"injected in {injected_ms:.0f} ms, healed in {healed_ms:.0f} ms"
    )


@pytest.mark.slow
def test_a_node_that_lost_its_disk_votes_again(tmp_path: Path) -> None:
    """Two nodes lose theirs, one after the other; the third may then go: the two are a quorum."""
    with disk_cluster(tmp_path) as cluster:
        cluster.send_to_all(b"before")
        for node in (1, 2):
            cluster.await_leadership(node)
            fault, injection = cluster.plan_injection("disk.lost", [node])
            fault.inject(cluster.hosts, injection)
            cluster.send_to_all(b"meanwhile")

            def healed(
                fault: Fault = fault, injection: Injection = injection, node: int = node
            ) -> bool:
                try:
                    fault.heal(cluster.hosts, injection)
                    owed = cluster.administrator.pending_work(
                        f"{injection.detail('key')}/{node}/vote"
                    )
                    voters = list(cluster.administrator.voters())
                except AdminError:
                    return False
                return not owed and voters == list(NODES)

            wait_for(healed, f"node {node} does not vote again")
            cluster.await_whole()
        cluster.target.kill(3)
        cluster.send_to_all(b"without the third")
        cluster.target.start(3)
        cluster.await_whole()
        cluster.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    in_turn(
        "system/test_disk_faults.py::test_a_broken_disk_loses_nothing_that_was_acknowledged",
        [
            (("disk.slow", "disk.full", "disk.read-only", "disk.error"),),
            (("power-loss", "disk.bit-flip", "disk.cut-tail", "disk.misdirected"),),
            (("disk.stale-copy", "disk.lost"),),
        ],
        of=3,
    ),
    ids=lambda names: names[0],
)
def test_a_broken_disk_loses_nothing_that_was_acknowledged(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """A leader's disk, one fault after the other; the node is back in sync after each."""
    with disk_cluster(tmp_path) as cluster:
        cluster.send_to_all(b"before")
        for number, name in enumerate(names):
            given = {"age_ms": "100"} if name == "disk.stale-copy" else {}
            print(broken(cluster, name, NODES[number % len(NODES)], **given))
        cluster.end()

"""Log directories of replicas: known when they are created, and after a disk was replaced."""

from uuid import UUID

from nodes.controller.reassignments import Reassignment, alter_reassignments
from nodes.metadata.records import PartitionChangeRecord
from tests.support.nodes.controller_cluster import Cluster, nodes, state_of

OLD, NEW, OTHER = (UUID(int=number) for number in (71, 72, 73))


def changes(cluster: Cluster) -> list[PartitionChangeRecord]:
    """Of the last append."""
    return [record for record in cluster.written if isinstance(record, PartitionChangeRecord)]


def cluster_of(*log_dirs: tuple[UUID, ...]) -> Cluster:
    """Brokers 1, 2, ... with these directories."""
    cluster = Cluster()
    for number, each in enumerate(log_dirs, 1):
        cluster.register(number, log_dirs=each)
        cluster.beat(number)
    return cluster


def test_a_new_replica_is_in_its_brokers_only_directory() -> None:
    """A broker with several says itself where it creates one."""
    cluster = cluster_of((OLD,), (NEW, OTHER), ())
    cluster.create("t", nodes(2, 1, 3))
    assert cluster.partition().directories == (None, OLD, None)


def test_a_broker_with_another_disk_has_its_replicas_there() -> None:
    """And keeps no leadership by it; brokers whose directory is the same change nothing."""
    cluster = cluster_of((OLD,), (OTHER,))
    cluster.create("t", nodes(1, 2), nodes(2, 1))
    cluster.create("u", nodes(2))
    cluster.wait(10_000, 2)
    cluster.register(1, 11, log_dirs=(NEW,))
    assert cluster.partition("t", 0).directories == (NEW, OTHER)
    assert cluster.partition("t", 1).directories == (OTHER, NEW)
    assert cluster.partition("u").directories == (OTHER,)
    assert state_of(cluster.partition("t", 0)) == (2, nodes(2), 1)
    cluster.wait(10_000, 2)
    cluster.register(1, 12, log_dirs=(NEW,))
    assert not changes(cluster)
    cluster.wait(10_000, 2)
    cluster.register(1, 13, log_dirs=(NEW, OLD))
    assert not changes(cluster)


def test_a_replica_that_a_reassignment_adds_is_in_its_brokers_directory() -> None:
    """The others stay where they are."""
    cluster = cluster_of((OLD,), (NEW,), (OTHER,))
    cluster.create("t", nodes(1, 2))
    wanted = Reassignment(topic="t", partition=0, replicas=nodes(3, 1))
    cluster.take(alter_reassignments(cluster.controller.state, [wanted]))
    replicas, directories = cluster.partition().replicas, cluster.partition().directories
    assert dict(zip(replicas, directories, strict=True)) == dict(
        zip(nodes(1, 2, 3), (OLD, NEW, OTHER), strict=True)
    )


def test_directories_that_were_never_recorded_are_on_the_next_start() -> None:
    """As of a log that an earlier version wrote."""
    cluster = cluster_of((), ())
    cluster.create("t", nodes(1, 2))
    cluster.wait(10_000, 2)
    cluster.register(1, 11, log_dirs=(NEW,))
    assert cluster.partition().directories == (NEW, None)

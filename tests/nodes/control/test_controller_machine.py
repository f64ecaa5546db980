"""Whatever happens in whatever order, the cluster's metadata keeps its invariants."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nodes.control.errors import ControlError
from nodes.control.image import ClusterImage, PartitionImage, PartitionKey
from nodes.ids import NO_NODE
from tests.nodes.control.cluster import SESSION_MS, Cluster, node

BROKERS = st.integers(1, 4)


class ClusterMachine(RuleBasedStateMachine):
    """Random brokers, heartbeats, silences, ISR changes, topics and changes of the controller."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[PartitionKey, PartitionImage] = {}
        self.incarnations = 100
        self.topics = 0

    @initialize(seed=st.integers(0, 1000), unclean=st.booleans())
    def begin(self, seed: int, unclean: bool) -> None:
        """Two brokers in service and one topic, so that something can happen soon."""
        self.unclean = unclean
        self.cluster = Cluster(
            brokers=3,
            seed=seed,
            unclean_leader_election=unclean,
            leader_imbalance_check_interval_ms=3 * SESSION_MS,
        )
        self.cluster.on_batch = self._check_batch
        self.create(3, 2)

    def _try(self, *args: Any, **kwargs: Any) -> None:
        operation, *rest = args
        try:
            operation(*rest, **kwargs)
        except ControlError:
            self.cluster.written = []

    @rule(number=BROKERS, restarted=st.booleans())
    def register(self, number: int, restarted: bool) -> None:
        """A broker starts, or asks again."""
        self.incarnations += 1
        self._try(self.cluster.register, number, self.incarnations if restarted else None)

    @rule(number=BROKERS, lag=st.sampled_from([0, 0, 0, 1, 50]))
    def beat(self, number: int, lag: int) -> None:
        """A broker is alive, more or less up to date."""
        self._try(self.cluster.beat, number, offset=self.cluster.image.offset - lag)

    @rule(number=BROKERS, want_fence=st.booleans())
    def shut_down(self, number: int, want_fence: bool) -> None:
        """A broker wants to go."""
        self._try(self.cluster.beat, number, want_shut_down=True, want_fence=want_fence)

    @rule(number=BROKERS)
    def ask_to_be_fenced(self, number: int) -> None:
        """A broker is not fit for service."""
        self._try(self.cluster.beat, number, want_fence=True)

    @rule(number=BROKERS)
    def unregister(self, number: int) -> None:
        """An operator strikes a broker."""
        self._try(
            lambda: self.cluster.take(self.cluster.controller.unregister_broker(node(number)))
        )

    @rule(ms=st.sampled_from([50, 400, 1000]), alive=st.sets(BROKERS))
    def wait(self, ms: int, alive: set[int]) -> None:
        """Time passes, for some in silence."""
        living = [n for n in sorted(alive) if node(n) in self.cluster.epochs]
        for _ in range(ms // 50):
            self.cluster.now_ms += 50
            for number in living:
                self._try(self.cluster.beat, number)
            self.cluster.tick()

    @rule(
        pick=st.integers(0),
        isr=st.lists(BROKERS, max_size=4),
        by=st.none() | BROKERS,
        stale=st.sampled_from([0, 0, 0, -1, 1]),
    )
    @precondition(lambda self: self.cluster.image.topics)
    def alter(self, pick: int, isr: list[int], by: int | None, stale: int) -> None:
        """A leader, or somebody who thinks so, changes an ISR, under good or bad epochs."""
        every = list(self.cluster.image.partitions())
        key, partition = every[pick % len(every)]
        leader = partition.leader if by is None else by
        if node(leader) not in self.cluster.epochs:
            return
        members = list(dict.fromkeys([leader, *isr])) if by is None else isr
        self._try(
            self.cluster.alter,
            leader,
            members,
            name=key.topic,
            number=key.partition,
            partition_epoch=partition.partition_epoch + stale,
        )

    @rule(partitions=st.integers(1, 3), replicas=st.integers(1, 4))
    def create(self, partitions: int, replicas: int) -> None:
        """A topic, if there are brokers enough."""
        self.topics += 1
        self.cluster.create(
            f"topic{self.topics}", partitions=partitions, replication_factor=replicas
        )

    @rule()
    def fail_over(self) -> None:
        """Another controller takes over from the log."""
        self.cluster.take_over()

    def _check_batch(self) -> None:
        """After every batch: each partition is sound, and follows from what it was."""
        image = self.cluster.image
        for broker in image.brokers.values():
            assert 0 <= broker.epoch <= image.offset
        for key, partition in image.partitions():
            self._check(image, partition)
            before = self.seen.get(key, partition)
            if before != partition:
                self._check_change(before, partition)
            self.seen[key] = partition

    def _check(self, image: ClusterImage, partition: PartitionImage) -> None:
        isr, leader = partition.isr, partition.leader
        assert isr
        assert len(set(isr)) == len(isr)
        assert set(isr) <= set(partition.replicas)
        if leader != NO_NODE:
            assert leader in isr
            assert all(image.active(member) for member in isr)
            return
        assert len(isr) == 1
        able = partition.replicas if self.unclean else isr
        assert not any(image.active(replica) for replica in able)

    def _check_change(self, before: PartitionImage, after: PartitionImage) -> None:
        assert after.replicas == before.replicas
        assert after.partition_epoch == before.partition_epoch + 1
        leader_changed = after.leader != before.leader
        assert after.leader_epoch == before.leader_epoch + leader_changed
        if not self.unclean:
            assert after.leader in (NO_NODE, *before.isr)
            assert set(before.isr) & set(after.isr)


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

"""Whatever happens in whatever order, the cluster's metadata keeps its invariants."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nodes.controller.configs import ConfigChange, ConfigOperation, ResourceChanges, alter_configs
from nodes.controller.deletions import TopicRef, delete_topics
from nodes.controller.elections import elect_leaders
from nodes.controller.reassignments import Reassignment, alter_reassignments, list_reassignments
from nodes.controller.situation import ControllerResult
from nodes.controller.topics import NewPartitions, create_partitions
from nodes.ids import NO_NODE, NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, ConfigResource, PartitionImage, PartitionKey
from nodes.metadata.records import RECOVERING
from tests.support.nodes.controller_cluster import SESSION_MS, Cluster, node, nodes

BROKERS = st.integers(1, 4)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4)


class ClusterMachine(RuleBasedStateMachine):
    """Random brokers, heartbeats, silences, ISR changes, topics, reassignments, elections,
    configurations and changes of the controller.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[PartitionKey, PartitionImage] = {}
        self.origins: dict[PartitionKey, tuple[NodeId, ...]] = {}
        self.targets: dict[PartitionKey, tuple[NodeId, ...]] = {}
        self.restarted: set[NodeId] = set()
        self.proposed: set[NodeId] = set()
        self.incarnations = 100
        self.topics = 0

    @initialize(seed=st.integers(0, 1000), unclean=st.booleans(), min_isr=st.integers(1, 3))
    def begin(self, seed: int, unclean: bool, min_isr: int) -> None:
        """Three brokers in service and one topic, so that something can happen soon."""
        self.unclean = unclean
        self.cluster = Cluster(
            brokers=3,
            seed=seed,
            unclean=unclean,
            min_isr=min_isr,
            leader_imbalance_check_interval_ms=3 * SESSION_MS,
            max_idle_interval_ms=SESSION_MS / 2,
        )
        self.cluster.on_batch = self._check_batch
        self.create(3, 2)

    def _try(self, *args: Any, **kwargs: Any) -> None:
        operation, *rest = args
        try:
            operation(*rest, **kwargs)
        except ControlError:
            self.cluster.written = []

    @property
    def _situation(self) -> Any:
        return self.cluster.controller.state

    def _pick(self, number: int) -> tuple[PartitionKey, PartitionImage]:
        every = list(self.cluster.image.partitions())
        return every[number % len(every)]

    @rule(number=BROKERS, restarted=st.booleans(), clean=st.booleans())
    def register(self, number: int, restarted: bool, clean: bool) -> None:
        """A broker starts, after a clean stop or a crash, or asks again."""
        self.incarnations += 1
        known = self.cluster.image.brokers.get(node(number))
        self.restarted = {node(number)} if restarted and not (clean and known) else set()
        self._try(
            self.cluster.register, number, self.incarnations if restarted else None, clean=clean
        )
        self.restarted = set()

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
        key, partition = self._pick(pick)
        leader = partition.leader if by is None else by
        if node(leader) not in self.cluster.epochs:
            return
        members = list(dict.fromkeys([leader, *isr])) if by is None else isr
        self.proposed = {node(member) for member in members}
        self._try(
            self.cluster.alter,
            leader,
            members,
            name=key.topic,
            number=key.partition,
            partition_epoch=partition.partition_epoch + stale,
        )

    @rule(pick=st.integers(0))
    @precondition(lambda self: self.cluster.image.topics)
    def catch_up(self, pick: int) -> None:
        """All live replicas of a partition are in sync, as far as their leader sees."""
        key, partition = self._pick(pick)
        live = [n for n in partition.replicas if self.cluster.image.active(n)]
        if partition.leader in live:
            self.proposed = {*live}
            self._try(
                self.cluster.alter, partition.leader, live, name=key.topic, number=key.partition
            )

    @rule(partitions=st.integers(1, 3), replicas=st.integers(1, 4))
    def create(self, partitions: int, replicas: int) -> None:
        """A topic, if there are brokers enough."""
        self.topics += 1
        self.cluster.create(
            f"topic{self.topics}", partitions=partitions, replication_factor=replicas
        )

    @rule(pick=st.integers(0), by_name=st.booleans())
    @precondition(lambda self: len(self.cluster.image.topics) > 1)
    def delete(self, pick: int, by_name: bool) -> None:
        """A topic goes; its name may come back as another topic."""
        key, _ = self._pick(pick)
        ref = TopicRef(name=key.topic) if by_name else TopicRef(topic_id=key.topic_id)
        (answer,) = self.cluster.take(delete_topics(self._situation, [ref]))
        assert answer.error is None
        assert (answer.name, answer.topic_id) == (key.topic, key.topic_id)
        assert self.cluster.image.topic(key.topic) is None
        assert self.cluster.image.topic_config(key.topic) == {}
        if not by_name:
            self.cluster.create(key.topic, partitions=1, replication_factor=1)
            again = self.cluster.image.topic(key.topic)
            assert again is None or again.topic_id != key.topic_id

    @rule(pick=st.integers(0), more=st.integers(0, 2))
    @precondition(lambda self: self.cluster.image.topics)
    def grow(self, pick: int, more: int) -> None:
        """A topic gets more partitions."""
        key, _ = self._pick(pick)
        topic = self.cluster.image.topics[key.topic_id]
        count = len(topic.partitions) + more
        wanted = [NewPartitions(name=key.topic, count=count)]
        (answer,) = self.cluster.take(create_partitions(self._situation, wanted))
        after = self.cluster.image.topics[key.topic_id]
        assert len(after.partitions) == (count if answer.error is None else count - more)
        assert (answer.error is None) <= (more > 0)

    @rule(pick=st.integers(0), replicas=st.none() | REPLICAS, same_factor=st.booleans())
    @precondition(lambda self: self.cluster.image.topics)
    def reassign(self, pick: int, replicas: list[int] | None, same_factor: bool) -> None:
        """A partition is to go elsewhere, over what is under way, or not after all."""
        key, before = self._pick(pick)
        target = None if replicas is None else nodes(*replicas)
        origin = tuple(n for n in before.replicas if n not in before.adding_replicas)
        wanted = Reassignment(topic=key.topic, partition=key.partition, replicas=target)
        in_force = self.targets.get(key, origin)
        self.targets[key] = origin if target is None else target
        self.origins.setdefault(key, origin)
        (answer,) = self.cluster.take(
            alter_reassignments(self._situation, [wanted], allow_factor_change=not same_factor)
        )
        after = self.cluster.partition(key.topic, key.partition)
        if answer.error is not None:
            assert after == before
            self.targets[key] = in_force
        elif target is None:
            assert after.replicas == origin
            assert after.adding_replicas == after.removing_replicas == ()
        else:
            assert tuple(n for n in after.replicas if n not in after.removing_replicas) == target
            kept = {n for n in after.replicas if n not in after.adding_replicas}
            assert kept <= set(origin)

    @rule(unclean=st.booleans(), pick=st.none() | st.integers(0))
    @precondition(lambda self: self.cluster.image.topics)
    def elect(self, unclean: bool, pick: int | None) -> None:
        """An operator asks for leaders; unclean elections only as far as the checks allow them."""
        wanted = None
        if pick is not None:
            key, _ = self._pick(pick)
            wanted = [(key.topic, key.partition)]
        found = elect_leaders(
            self.cluster.image, wanted, self._situation.policy, unclean=unclean and self.unclean
        )
        self.cluster.take(ControllerResult(records=found.records, response=None))

    @rule(silent=st.none() | BROKERS)
    def recover(self, silent: int | None) -> None:
        """Brokers are asked for their logs; one may not answer."""
        self.cluster.recover({n: (n % 2, n) for n in range(1, 5) if n != silent})

    @rule(pick=st.none() | st.integers(0), min_isr=st.integers(1, 3), delete=st.booleans())
    @precondition(lambda self: self.cluster.image.topics)
    def configure(self, pick: int | None, min_isr: int, delete: bool) -> None:
        """The minimum of in-sync replicas changes, for one topic or for all."""
        resource = ConfigResource(4, "")
        if pick is not None:
            resource = ConfigResource(2, self._pick(pick)[0].topic)
        operation = ConfigOperation.DELETE if delete else ConfigOperation.SET
        change = ConfigChange(name="min.insync.replicas", operation=operation, value=str(min_isr))
        self.cluster.take(
            alter_configs(self._situation, [ResourceChanges(resource=resource, changes=(change,))])
        )

    @rule()
    def fail_over(self) -> None:
        """Another controller takes over from the log."""
        self.cluster.take_over()

    def _check_batch(self) -> None:
        """After every batch: each partition is sound, and follows from what it was."""
        image = self.cluster.image
        policy = self._situation.policy
        for broker in image.brokers.values():
            assert 0 <= broker.epoch <= image.offset
        for key, partition in image.partitions():
            self._check(image, partition, policy(key.topic).min_isr)
            assert self.restarted.isdisjoint({*partition.isr, *partition.elr})
            before = self.seen.get(key, partition)
            if before != partition:
                self._check_change(key, before, partition)
            self.seen[key] = partition
        self.proposed = set()
        self._check_list(image)

    def _check(self, image: ClusterImage, partition: PartitionImage, min_isr: int) -> None:
        replicas, isr, elr, leader = (
            partition.replicas,
            partition.isr,
            partition.elr,
            partition.leader,
        )
        assert len(set(replicas)) == len(replicas) == len(partition.directories)
        assert len(set(isr) | set(elr)) == len(isr) + len(elr)
        assert set(isr) | set(elr) <= set(replicas)
        assert set(partition.adding_replicas) | set(partition.removing_replicas) <= set(replicas)
        assert not set(partition.adding_replicas) & set(partition.removing_replicas)
        assert all(image.active(member) for member in isr)
        known = partition.last_known_elr
        assert not set(known) & (set(isr) | set(elr))
        assert set(known) <= set(replicas)
        if elr or known:
            assert len(isr) < min(min_isr, len(replicas))
        if partition.leader_recovery_state == RECOVERING and leader != NO_NODE:
            assert isr == (leader,)
        if leader != NO_NODE:
            assert leader in isr
            return
        assert isr == ()
        assert elr or known
        if not self.unclean:
            assert not any(image.active(replica) for replica in elr)
            assert elr or len(known) > 1 or not image.active(known[0])

    def _check_change(
        self, key: PartitionKey, before: PartitionImage, after: PartitionImage
    ) -> None:
        rises = after.partition_epoch - before.partition_epoch
        assert 1 <= rises <= 2
        dropped = not set(before.replicas) <= set(after.replicas)
        assert after.leader_epoch >= before.leader_epoch + (
            after.leader != before.leader or dropped
        )
        assert after.leader_epoch - before.leader_epoch <= rises
        if set(after.replicas) != set(before.replicas):
            final = after.adding_replicas == after.removing_replicas == ()
            assert not final or after.replicas in (self.targets[key], self.origins[key])
        if set(before.replicas) - set(after.replicas) - set(before.adding_replicas):
            assert set(after.replicas) <= set(after.isr)
        # The ISR that the leader proposes may complete a reassignment, and a new member lead.
        in_sync = set(before.isr) | set(before.elr) | self.proposed
        was_known = in_sync | set(before.last_known_elr)
        if not self.unclean and after.leader not in (NO_NODE, before.leader):
            assert after.leader in was_known
            clean = after.leader in in_sync
            assert clean != (after.leader_recovery_state == RECOVERING) or (
                before.leader_recovery_state == RECOVERING
            )
        if not self.unclean and not self.restarted and not dropped:
            # Whoever may hold every committed record is never forgotten altogether.
            assert was_known & (set(after.isr) | set(after.elr) | set(after.last_known_elr))

    def _check_list(self, image: ClusterImage) -> None:
        listed = {(each.topic, each.partition): each for each in list_reassignments(image)}
        for key, partition in image.partitions():
            each = listed.get((key.topic, key.partition))
            assert (each is not None) == bool(
                partition.adding_replicas or partition.removing_replicas
            )
            if each is not None:
                assert each.replicas == partition.replicas


TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_refused_cancellation_leaves_the_reassignment_in_force() -> None:
    """The one live replica is the added one: a cancellation would need an unclean election."""
    machine = ClusterMachine()
    machine.begin(seed=1, unclean=True, min_isr=1)
    machine.ask_to_be_fenced(number=1)
    machine.ask_to_be_fenced(number=2)
    machine.reassign(pick=0, replicas=[3], same_factor=False)
    machine.reassign(pick=0, replicas=None, same_factor=False)
    machine.catch_up(pick=0)
    ((_, partition), *_) = machine.cluster.image.partitions()
    assert partition.replicas == nodes(3)

"""The cluster's administration for faults; implements `nemesis.administration`.

Requests go from the clients' machine over Kafka's protocol, first to the brokers that most likely
know the answer. Before a request is sent, its undo is noted, so that a request whose answer was
lost is undone too. Work that cannot be done at once becomes a background job.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from harness.admin import configs, inspection, reassignments, records, topics, voters
from harness.admin.client import Address, AdminClient
from harness.admin.errors import AdminError
from harness.run.administration.background import BackgroundJob, BackgroundJobs, Step
from harness.run.administration.broker_removal import BrokerRemoval, give_vote
from harness.run.administration.layered_configs import ALL_BROKERS, LayeredConfigs
from harness.run.administration.requests import BoundedAdmin, BrokerStatus
from harness.systems.base import ClusterNodes
from nemesis.administration import NO_CONFIGS, PartitionKey, Placement
from nemesis.concurrency import TaskRunner, ThreadTaskRunner
from nemesis.hosts import Processes
from nodes.ids import TopicPartition

_ELECTED: Final = (ErrorCode.none, ErrorCode.election_not_needed)


class WatchedBrokers(BrokerStatus, Protocol):
    """The watcher of the brokers, which must know of every new and removed broker."""

    def add_broker(self, node: int, address: Address) -> None:
        """Watch a new broker."""
        ...

    def remove_broker(self, node: int) -> None:
        """Watch a broker no longer: it is removed for good."""
        ...


class Administrator:
    """Implements `nemesis.administration.Administration`. Any task may call it."""

    def __init__(
        self,
        system: ClusterNodes,
        processes: Processes,
        watched: WatchedBrokers,
        task_runner: TaskRunner | None = None,
    ) -> None:
        self._system, self._processes, self._watched = system, processes, watched
        self._task_runner = task_runner or ThreadTaskRunner()
        self._ask = BoundedAdmin(system, watched)
        self._jobs = BackgroundJobs(self._task_runner)
        self._mutex = self._task_runner.mutex()
        self._undo: dict[str, list[BackgroundJob]] = {}
        self._accepted: dict[str, dict[PartitionKey, tuple[int, ...]]] = {}
        self._joined: dict[str, int] = {}
        self._removals: dict[int, BrokerRemoval] = {}
        self._configs = LayeredConfigs(self._ask, self._task_runner)

    # -- queries

    def brokers(self) -> Sequence[int]:
        """Return the brokers in service that are not being removed, ascending."""
        found = self._ask(topics.cluster).live
        return sorted(each.node_id for each in found if each.node_id not in self._removals)

    def voters(self) -> Sequence[int]:
        """Return the voters of the metadata quorum, ascending."""
        return sorted(each.node_id for each in self._ask(inspection.quorum).voters)

    def topics(self) -> Mapping[str, int]:
        """Return the number of partitions of every topic, in the order of their names."""
        return {each.name: len(each.partitions) for each in self._ask(topics.describe)}

    def placement(self, topics: Sequence[str]) -> Mapping[PartitionKey, Placement]:
        """Return the placement of every partition of these topics, in order; unknown topics have
        none."""
        found = self._ask(_placement)
        return {at: each for at, each in found.items() if at[0] in topics}

    def accepted_moves(self, layer: str) -> Mapping[PartitionKey, Sequence[int]]:
        """Return the moves of the layer that the cluster accepted."""
        return dict(self._accepted.get(layer, {}))

    def topic_config(self, topic: str, name: str) -> str | None:
        """Return the value of a topic's config that is in force."""
        return self._configs.current(configs.topic(topic), name)[0]

    def brokers_config(self, name: str) -> str | None:
        """Return the value of a config that all brokers have by default."""
        return self._configs.current(ALL_BROKERS, name)[0]

    def joined(self, layer: str) -> int:
        """Return the number of the broker that joined. Raises LookupError when none did."""
        return self._joined[layer]

    def is_removed(self, node: int) -> bool:
        """Return whether a broker that was to leave is stopped, unregistered and empty."""
        return node in self._removals and self._removals[node].done

    # -- changes

    def move(
        self, layer: str, targets: Mapping[PartitionKey, Sequence[int]]
    ) -> Mapping[PartitionKey, str]:
        """Reassign partitions to these replicas; return the refused partitions, and why."""
        wanted = {TopicPartition(*at): tuple(replicas) for at, replicas in targets.items()}
        self._note_undo(layer, "moves are to be cancelled", lambda: self._cancel(wanted))
        failed = self._ask(lambda admin: reassignments.alter(admin, wanted))
        accepted = {(n.topic, n.partition): wanted[n] for n in wanted if n not in failed}
        self._accepted[layer] = {**self._accepted.get(layer, {}), **accepted}
        return {(n.topic, n.partition): text or code.name for n, (code, text) in failed.items()}

    def elect(
        self, partitions: Sequence[PartitionKey], *, unclean: bool
    ) -> Mapping[PartitionKey, str]:
        """Elect leaders; return the failures by partition, with an empty text for a success."""
        names = [TopicPartition(*at) for at in partitions]
        kind = reassignments.UNCLEAN if unclean else reassignments.PREFERRED
        results = self._ask(lambda admin: reassignments.elect(admin, kind, names))
        return {
            (n.topic, n.partition): "" if code in _ELECTED else text or code.name
            for n, (code, text) in results.items()
        }

    def set_topic_config(self, layer: str, topics: Sequence[str], name: str, value: str) -> None:
        """Change a config of topics, on top of the values that other layers set."""
        text = f"{name} of {', '.join(topics)} is to be restored"
        self._note_undo(layer, text, lambda: self._configs.restore(layer))
        self._configs.change(layer, list(map(configs.topic, topics)), name, value)

    def set_brokers_config(self, layer: str, name: str, value: str) -> None:
        """Change a config that all brokers have by default, on top of what other layers set."""
        text = f"{name} of all brokers is to be restored"
        self._note_undo(layer, text, lambda: self._configs.restore(layer))
        self._configs.change(layer, [ALL_BROKERS], name, value)

    def extend_topic_config(self, layer: str, topic: str, name: str, items: Sequence[str]) -> None:
        """Append items to a topic's config that is a list."""
        changes = {configs.topic(topic): {name: ",".join(items)}}

        def shorten() -> bool:
            self._ask(lambda admin: configs.alter(admin, changes, configs.SUBTRACT))
            return True

        self._note_undo(layer, f"{name} of {topic} is to be shortened", shorten)
        self._ask(lambda admin: configs.alter(admin, changes, configs.APPEND))

    def create_topic(
        self,
        layer: str,
        name: str,
        *,
        partitions: int,
        replicas: int,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """Create a topic."""
        self._note_undo(layer, f"{name} is to be deleted", lambda: self._delete(name))
        self._ask(
            lambda admin: topics.create(
                admin,
                name,
                partitions=partitions,
                replication_factor=replicas,
                configs=configs,
                exist_ok=True,
            )
        )

    def write_records(self, partition: PartitionKey, timestamps_ms: Sequence[int]) -> bool:
        """Write a record for each timestamp; return whether a broker confirms it."""
        at = TopicPartition(*partition)
        return self._answer(lambda admin: records.write(admin, at, timestamps_ms)) is not None

    def find_offset(self, partition: PartitionKey, timestamp_ms: int) -> int | None:
        """Return the first offset at or after a time; -1 if there is none, None without an
        answer."""
        at = TopicPartition(*partition)
        return self._answer(lambda admin: records.find(admin, at, timestamp_ms))

    def delete_records(self, partition: PartitionKey, before: int) -> bool:
        """Delete the records below an offset; return whether a broker confirms it."""
        at = TopicPartition(*partition)
        return self._answer(lambda admin: records.delete(admin, at, before)) is not None

    def _answer(self, work: Callable[[AdminClient], Awaitable[int]]) -> int | None:
        """Return what `work` returns; None if the cluster does not answer or refuses it."""
        try:
            return self._ask(work)
        except AdminError:
            return None

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions."""
        self._ask(lambda admin: topics.grow(admin, name, partitions))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, if it exists."""
        self._delete(name)

    # -- nodes

    def join(self, layer: str, *, voter: bool = False) -> int:
        """Start a broker on a new machine; it joins by itself. Return its number."""
        with self._mutex:
            node = self._system.start_broker(controller=voter)
        self._joined[layer] = node
        self._watched.add_broker(node, self._system.brokers[node])
        removal = self._removal(node, remove_machine=self._remove_machine)
        self._note_undo(layer, f"broker {node} is to leave", self._begin(removal))
        if voter:
            self._do(layer, f"node {node} is to get a vote", lambda: self._add_vote(node))
        return node

    def leave(self, layer: str, node: int) -> None:
        """Begin to remove a broker from the cluster."""
        removal = self._removal(node)
        text = f"broker {node} is to come back"
        self._note_undo(layer, text, lambda: self._bring_back(removal))
        self._removals[node] = removal
        self._do(layer, f"broker {node} is to leave", removal.step)

    def remove_voter(self, layer: str, node: int) -> None:
        """Remove a controller's vote."""
        text = f"node {node} is to get its vote back"
        self._note_undo(layer, text, lambda: self._add_vote(node))
        directory = self._ask(lambda admin: voters.directory(admin, node))
        if directory is not None:
            self._ask(lambda admin: voters.remove(admin, node, directory))

    # -- undo

    def keep(self, layer: str) -> None:
        """Keep the changes of the layer."""
        with self._mutex:
            self._undo.pop(layer, None)

    def undo(self, layer: str) -> None:
        """Undo the changes of the layer, if there are any."""
        with self._mutex:
            undo = self._undo.pop(layer, [])
        if undo:
            self._jobs.drop(layer)
        for job in reversed(undo):
            if not job.try_once():
                self._jobs.add(job)

    def pending_work(self, layer: str) -> str:
        """Return what is still to be done or undone for the layer, and why; empty if nothing."""
        return "; ".join(self._jobs.pending(layer))

    def finish(self, timeout_s: float) -> Sequence[str]:
        """Undo all layers that are left, and wait for the jobs; return the jobs that are not done.

        The wait goes on as long as at least one job is done every `timeout_s`.
        """
        with self._mutex:
            layers = list(self._undo)
        for layer in layers:
            self.undo(layer)
        left = self._jobs.finish(timeout_s)
        self._jobs.close()
        return left

    # -- inside

    def _note_undo(self, layer: str, text: str, step: Step) -> None:
        with self._mutex:
            job = BackgroundJob(layer=layer, text=text, step=step)
            self._undo.setdefault(layer, []).append(job)

    def _do(self, layer: str, text: str, step: Step) -> None:
        self._jobs.add(BackgroundJob(layer=layer, text=text, step=step))

    def _cancel(self, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> bool:
        """Cancel the moves that are still going on, unless another request has changed them."""

        async def cancel(admin: AdminClient) -> None:
            ongoing = await reassignments.ongoing(admin)
            unchanged = [n for n, to in wanted.items() if n in ongoing and ongoing[n].target == to]
            await reassignments.alter(admin, dict.fromkeys(unchanged))

        self._ask(cancel)
        return True

    def _delete(self, name: str) -> bool:
        async def delete(admin: AdminClient) -> None:
            if name in await topics.names(admin):
                await topics.delete(admin, [name])

        self._ask(delete)
        return True

    def _add_vote(self, node: int) -> bool:
        return give_vote(node, self._ask, self._system)

    def _removal(
        self, node: int, remove_machine: Callable[[int], None] | None = None
    ) -> BrokerRemoval:
        return BrokerRemoval(
            node,
            ask=self._ask,
            system=self._system,
            processes=self._processes,
            now_s=self._task_runner.now_s,
            leaving=self._removals.keys(),
            remove_machine=remove_machine,
        )

    def _begin(self, removal: BrokerRemoval) -> Step:
        def step() -> bool:
            self._removals[removal.node] = removal
            return removal.step()

        return step

    def _bring_back(self, removal: BrokerRemoval) -> bool:
        if not removal.step_back():
            return False
        self._removals.pop(removal.node, None)
        return True

    def _remove_machine(self, node: int) -> None:
        self._watched.remove_broker(node)
        with self._mutex:
            self._system.remove_node(node)
            del self._removals[node]  # a later broker may get the same number


async def _placement(admin: AdminClient) -> dict[PartitionKey, Placement]:
    """Return the placement of every partition: moves by the controller, the rest by a broker."""
    ongoing = await reassignments.ongoing(admin)
    return {
        (each.name.topic, each.name.partition): Placement(
            leader=each.leader,
            replicas=each.replicas,
            assignment=ongoing[each.name].target if each.name in ongoing else each.replicas,
        )
        for topic in await topics.describe(admin)
        for each in topic.partitions
    }

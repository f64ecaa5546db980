"""The cluster's administration, as far as faults use it: see `nemesis.administration`.

Orders are given from the clients' machine over Kafka's protocol, to the brokers that are likeliest
to know best first. Before an order is given, it is noted how it is taken back: an order whose
answer was lost is taken back too. What cannot be done at once is an errand.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from harness.admin import inspection, reassignments, topics, voters
from harness.admin.client import Address, AdminClient
from harness.run.administration.background import Errand, Errands, Step
from harness.run.administration.broker_removal import Leaving, give_vote
from harness.run.administration.requests import Asker, Knows
from harness.run.administration.topic_configs import Settings
from harness.systems.base import Members
from nemesis.administration import At, Placed
from nemesis.concurrency import Strands, Threads
from nemesis.hosts import Processes
from nodes.ids import TopicPartition

_ELECTED: Final = (ErrorCode.none, ErrorCode.election_not_needed)


class Roster(Knows, Protocol):
    """Who watches the brokers, too."""

    def add_broker(self, node: int, address: Address) -> None:
        """A broker has come."""
        ...

    def remove_broker(self, node: int) -> None:
        """A broker has gone for good."""
        ...


class Administrator:
    """See `nemesis.administration.Administration`. Any strand may call."""

    def __init__(
        self,
        system: Members,
        processes: Processes,
        roster: Roster,
        strands: Strands | None = None,
    ) -> None:
        self._system, self._processes, self._roster = system, processes, roster
        self._strands = strands or Threads()
        self._ask = Asker(system, roster)
        self._errands = Errands(self._strands)
        self._mutex = self._strands.mutex()
        self._ways_back: dict[str, list[Errand]] = {}
        self._ordered: dict[str, dict[At, tuple[int, ...]]] = {}
        self._joined: dict[str, int] = {}
        self._leaving: dict[int, Leaving] = {}
        self._settings = Settings(self._ask, self._strands)

    # -- questions

    def brokers(self) -> Sequence[int]:
        """The brokers in service that are not about to leave, ascending."""
        found = self._ask(topics.cluster).live
        return sorted(each.node_id for each in found if each.node_id not in self._leaving)

    def voters(self) -> Sequence[int]:
        """The voters of the metadata quorum, ascending."""
        return sorted(each.node_id for each in self._ask(inspection.quorum).voters)

    def topics(self) -> Mapping[str, int]:
        """The number of partitions of every topic, in the order of their names."""
        return {each.name: len(each.partitions) for each in self._ask(topics.describe)}

    def placement(self, topics: Sequence[str]) -> Mapping[At, Placed]:
        """Where every partition of these topics is, in their order; none of an unknown topic."""
        found = self._ask(_placement)
        return {at: each for at, each in found.items() if at[0] in topics}

    def ordered(self, layer: str) -> Mapping[At, Sequence[int]]:
        """The moves of the layer that the cluster took."""
        return dict(self._ordered.get(layer, {}))

    def setting(self, topic: str, name: str) -> str | None:
        """The value of a topic's configuration that is in force."""
        return self._settings.now(topic, name)[0]

    def joined(self, layer: str) -> int:
        """The number of the broker that joined. Raises LookupError when none did."""
        return self._joined[layer]

    def has_left(self, node: int) -> bool:
        """Whether a broker that was let go is stopped, unregistered and empty."""
        return node in self._leaving and self._leaving[node].gone

    # -- orders

    def move(self, layer: str, targets: Mapping[At, Sequence[int]]) -> Mapping[At, str]:
        """Order that partitions get these replicas; returns who was refused, and why."""
        wanted = {TopicPartition(*at): tuple(replicas) for at, replicas in targets.items()}
        self._note_way_back(layer, "moves are to be cancelled", lambda: self._cancel(wanted))
        failed = self._ask(lambda admin: reassignments.alter(admin, wanted))
        taken = {(n.topic, n.partition): wanted[n] for n in wanted if n not in failed}
        self._ordered[layer] = {**self._ordered.get(layer, {}), **taken}
        return {(n.topic, n.partition): said or code.name for n, (code, said) in failed.items()}

    def elect(self, partitions: Sequence[At], *, unclean: bool) -> Mapping[At, str]:
        """See `nemesis.administration`."""
        names = [TopicPartition(*at) for at in partitions]
        kind = reassignments.UNCLEAN if unclean else reassignments.PREFERRED
        results = self._ask(lambda admin: reassignments.elect(admin, kind, names))
        return {
            (n.topic, n.partition): "" if code in _ELECTED else said or code.name
            for n, (code, said) in results.items()
        }

    def configure(self, layer: str, topics: Sequence[str], name: str, value: str) -> None:
        """Change a configuration of topics, on top of what other layers set."""
        text = f"{name} of {', '.join(topics)} is to be restored"
        self._note_way_back(layer, text, lambda: self._settings.restore(layer))
        self._settings.change(layer, topics, name, value)

    def create_topic(self, layer: str, name: str, *, partitions: int, replicas: int) -> None:
        """Create a topic."""
        self._note_way_back(layer, f"{name} is to be deleted", lambda: self._deleted(name))
        self._ask(
            lambda admin: topics.create(
                admin, name, partitions=partitions, replication_factor=replicas, exist_ok=True
            )
        )

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions."""
        self._ask(lambda admin: topics.grow(admin, name, partitions))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; nothing happens where there is none."""
        self._deleted(name)

    # -- members

    def join(self, layer: str, *, voter: bool = False) -> int:
        """Start a broker on a new machine, which joins by itself; returns its number."""
        with self._mutex:
            node = self._system.start_broker(controller=voter)
        self._joined[layer] = node
        self._roster.add_broker(node, self._system.brokers[node])
        leaving = self._leave(node, retire=self._retire)
        self._note_way_back(layer, f"broker {node} is to leave", self._begin(leaving))
        if voter:
            self._do(layer, f"node {node} is to get a vote", lambda: self._vote(node))
        return node

    def leave(self, layer: str, node: int) -> None:
        """Let a broker leave."""
        leaving = self._leave(node)
        text = f"broker {node} is to come back"
        self._note_way_back(layer, text, lambda: self._returned(leaving))
        self._leaving[node] = leaving
        self._do(layer, f"broker {node} is to leave", leaving.step)

    def remove_voter(self, layer: str, node: int) -> None:
        """Take a controller's vote."""
        text = f"node {node} is to get its vote back"
        self._note_way_back(layer, text, lambda: self._vote(node))
        voted_on = self._ask(lambda admin: voters.directory(admin, node))
        if voted_on is not None:
            self._ask(lambda admin: voters.remove(admin, node, voted_on))

    # -- the way back

    def keep(self, layer: str) -> None:
        """What the layer did stays."""
        with self._mutex:
            self._ways_back.pop(layer, None)

    def undo(self, layer: str) -> None:
        """Take back what the layer did; nothing happens where nothing is left of it."""
        with self._mutex:
            ways_back = self._ways_back.pop(layer, [])
        if ways_back:
            self._errands.drop(layer)
        for errand in reversed(ways_back):
            if not errand.try_it():
                self._errands.add(errand)

    def owed(self, layer: str) -> str:
        """What of it is still to be taken back or done, and why, in words; empty when nothing."""
        return "; ".join(self._errands.owed(layer))

    def finish(self, timeout_s: float) -> Sequence[str]:
        """Take back what nobody has, and wait for all errands while some are done within the bound;
        returns what is not."""
        with self._mutex:
            layers = list(self._ways_back)
        for layer in layers:
            self.undo(layer)
        left = self._errands.finish(timeout_s)
        self._errands.close()
        return left

    # -- inside

    def _note_way_back(self, layer: str, text: str, step: Step) -> None:
        with self._mutex:
            errand = Errand(layer=layer, text=text, step=step)
            self._ways_back.setdefault(layer, []).append(errand)

    def _do(self, layer: str, text: str, step: Step) -> None:
        self._errands.add(Errand(layer=layer, text=text, step=step))

    def _cancel(self, wanted: Mapping[TopicPartition, tuple[int, ...]]) -> bool:
        """Cancel what still moves as it was ordered, not what others have ordered since."""

        async def cancel(admin: AdminClient) -> None:
            ongoing = await reassignments.ongoing(admin)
            ours = [n for n, to in wanted.items() if n in ongoing and ongoing[n].target == to]
            await reassignments.alter(admin, dict.fromkeys(ours))

        self._ask(cancel)
        return True

    def _deleted(self, name: str) -> bool:
        async def delete(admin: AdminClient) -> None:
            if name in await topics.names(admin):
                await topics.delete(admin, [name])

        self._ask(delete)
        return True

    def _vote(self, node: int) -> bool:
        return give_vote(node, self._ask, self._system)

    def _leave(self, node: int, retire: Callable[[int], None] | None = None) -> Leaving:
        return Leaving(
            node,
            ask=self._ask,
            system=self._system,
            processes=self._processes,
            now_s=self._strands.now_s,
            leaving=self._leaving.keys(),
            retire=retire,
        )

    def _begin(self, leaving: Leaving) -> Step:
        def step() -> bool:
            self._leaving[leaving.node] = leaving
            return leaving.step()

        return step

    def _returned(self, leaving: Leaving) -> bool:
        if not leaving.step_back():
            return False
        self._leaving.pop(leaving.node, None)
        return True

    def _retire(self, node: int) -> None:
        self._roster.remove_broker(node)
        with self._mutex:
            self._system.remove_node(node)
            del self._leaving[node]  # the next one may get its number


async def _placement(admin: AdminClient) -> dict[At, Placed]:
    """Every partition: what the controller says of its moves, and a broker of the rest."""
    ongoing = await reassignments.ongoing(admin)
    return {
        (each.name.topic, each.name.partition): Placed(
            leader=each.leader,
            replicas=each.replicas,
            target=ongoing[each.name].target if each.name in ongoing else each.replicas,
        )
        for topic in await topics.describe(admin)
        for each in topic.partitions
    }

"""Where the replicas of a broker go that leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest

from harness.admin import inspection, reassignments, topics, voters
from harness.admin.client import AdminClient
from harness.admin.descriptions import Partition, Reassignment, Topic
from harness.admin.errors import AdminError, Unreachable
from harness.run.administration.broker_removal import BrokerRemoval, give_vote, reassigned_away
from nodes.ids import TopicPartition

T = TypeVar("T")


def topic(*placed: tuple[int, ...]) -> Topic:
    """Topic t with these replicas."""
    return Topic(
        name="t",
        topic_id=None,
        internal=False,
        partitions=tuple(
            Partition(name=TopicPartition("t", n), leader=r[0], replicas=r, isr=r)
            for n, r in enumerate(placed)
        ),
    )


def test_emptiest_broker_replaces_the_removed_one() -> None:
    """It gets the same place in the order; other partitions stay as they are."""
    found = reassigned_away(1, [2, 3, 4], [topic((1, 2), (2, 1), (3, 4))], {})
    assert found == {TopicPartition("t", 0): (3, 2), TopicPartition("t", 1): (2, 4)}


def test_ongoing_reassignments_count() -> None:
    """A move away from the broker is not requested twice; a move to it is redirected."""
    at = [TopicPartition("t", n) for n in (0, 1)]
    ongoing = {
        at[0]: Reassignment(replicas=(2, 3, 1), adding=(3,), removing=(1,)),
        at[1]: Reassignment(replicas=(2, 1, 3), adding=(1,), removing=(3,)),
    }
    known = [topic((2, 3, 1), (2, 1, 3))]
    assert reassigned_away(1, [2, 3, 4], known, ongoing) == {at[1]: (2, 4)}


def test_partition_on_every_broker_cannot_be_moved() -> None:
    """That is an error, and nothing is requested."""
    with pytest.raises(AdminError, match="t-0 on broker 1 has nowhere to go"):
        reassigned_away(1, [2, 3], [topic((1, 2, 3))], {})


def test_no_replica_moves_to_a_broker_that_is_being_removed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two such brokers would move replicas to each other for ever."""
    ordered: list[Any] = []

    async def alter(admin: Any, targets: Any) -> dict[Any, Any]:
        ordered.append(targets)
        return {}

    async def said(answer: Any) -> Any:
        return answer

    live = SimpleNamespace(live=[SimpleNamespace(node_id=each) for each in (1, 2, 3, 4)])
    monkeypatch.setattr(topics, "cluster", lambda admin: said(live))
    monkeypatch.setattr(topics, "describe", lambda admin: said([topic((2, 1))]))
    monkeypatch.setattr(reassignments, "ongoing", lambda admin: said({}))
    monkeypatch.setattr(reassignments, "alter", alter)
    processes: Any = SimpleNamespace(is_running=lambda node: True)
    nowhere: Any = None
    removal = BrokerRemoval(
        1,
        ask=lambda work: asyncio.run(work(nowhere)),  # type: ignore[arg-type]
        system=nowhere,
        processes=processes,
        now_s=lambda: 0.0,
        leaving={1: None, 3: None}.keys(),
    )
    assert not removal.step()
    assert ordered == [{TopicPartition("t", 0): (2, 4)}]


async def said(answer: T) -> T:
    """An answer, later."""
    return answer


def removal_of(
    node: int, monkeypatch: pytest.MonkeyPatch, *, placed: tuple[int, ...], **parts: Any
) -> BrokerRemoval:
    """The removal of a broker that has no replica: topic t is on others. parts: system, processes,
    and perhaps remove_machine."""
    live = SimpleNamespace(
        live=[SimpleNamespace(node_id=each) for each in (1, 2)],
        brokers=[SimpleNamespace(node_id=each) for each in placed],
    )
    monkeypatch.setattr(topics, "cluster", lambda admin: said(live))
    monkeypatch.setattr(topics, "describe", lambda admin: said([topic(placed)]))
    monkeypatch.setattr(reassignments, "ongoing", lambda admin: said({}))
    return BrokerRemoval(
        node,
        ask=lambda work: asyncio.run(work(None)),  # type: ignore[arg-type]
        now_s=lambda: 0.0,
        leaving=(),
        **parts,
    )


def test_broker_beside_zookeeper_has_neither_vote_nor_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no quorum to ask, and the znode of the broker ends with its session."""
    monkeypatch.setattr(inspection, "log_dirs", lambda admin, node: said([]))
    running, wiped = [1], list[int]()
    processes = SimpleNamespace(is_running=running.__contains__, terminate=running.remove)
    system = SimpleNamespace(controllers={}, wipe=wiped.append)
    removal = removal_of(1, monkeypatch, placed=(2,), system=system, processes=processes)
    assert removal.step()
    assert (running, wiped, removal.lost_vote) == ([], [1], False)


class Quorum:
    """The leader's word on one vote, and who of those that ask for a change of it is answered."""

    def __init__(self, known: list[UUID | None], answers: list[bool]) -> None:
        self.known, self.answers, self.asked = known, answers, list[UUID]()

    def ask(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Only the stand-ins below are called."""
        return work(None)  # type: ignore[arg-type,return-value]

    def directory(self, admin: Any, node: int) -> UUID | None:
        """What the leader knows now."""
        return self.known.pop(0)

    def quorum(self, admin: Any) -> Any:
        """The voters that the leader knows now: the node, if it has a vote."""
        disk = self.known.pop(0)
        return SimpleNamespace(
            voters=[] if disk is None else [SimpleNamespace(node_id=2, directory_id=disk)]
        )

    def change(self, admin: Any, node: int, directory_id: UUID, address: object = None) -> None:
        """Taken, or given; but whoever is not answered cannot know."""
        self.asked.append(directory_id)
        if not self.answers.pop(0):
            raise Unreachable("nobody answers")


def test_vote_is_removed_when_the_removal_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader may lose an uncommitted removal, so it is asked until it has answered."""
    disk = UUID(int=1)
    quorum = Quorum([disk, None, None], [False, True])
    monkeypatch.setattr(voters, "directory", quorum.directory)
    monkeypatch.setattr(voters, "remove", quorum.change)
    nowhere: Any = None
    removal = BrokerRemoval(
        2, ask=quorum.ask, system=nowhere, processes=nowhere, now_s=lambda: 0.0, leaving=()
    )
    with pytest.raises(Unreachable):
        removal._had_vote()
    assert removal._had_vote()
    assert not removal._had_vote()
    assert quorum.asked == [disk, disk]
    assert removal.lost_vote


def test_node_whose_process_is_down_loses_its_vote_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the quorum keeps a voter that never comes back (seed 109459)."""
    disk = UUID(int=1)
    known, removed, machines = [disk, None], list[UUID](), list[int]()

    async def remove(admin: Any, node: int, directory_id: UUID) -> None:
        removed.append(directory_id)

    monkeypatch.setattr(voters, "directory", lambda admin, node: said(known.pop(0)))
    monkeypatch.setattr(voters, "remove", remove)
    removal = removal_of(
        2,
        monkeypatch,
        placed=(1,),
        system=SimpleNamespace(controllers={1: None, 2: None}),
        processes=SimpleNamespace(is_running=lambda node: False),
        remove_machine=machines.append,
    )
    assert not removal.step()
    assert (removed, machines) == ([disk], [])
    assert removal.step()
    assert (removed, machines) == ([disk], [2])


def test_vote_is_given_when_the_new_voter_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader may lose an uncommitted voter, so it is asked until it has answered."""
    disk = UUID(int=1)
    quorum = Quorum([None, disk, disk], [False, False, True])
    monkeypatch.setattr(inspection, "quorum", quorum.quorum)
    monkeypatch.setattr(voters, "add", quorum.change)
    system: Any = SimpleNamespace(directory_id=lambda node: disk, controllers={2: ("h", 9093)})
    for _ in range(2):
        with pytest.raises(Unreachable):
            give_vote(2, quorum.ask, system)
    assert give_vote(2, quorum.ask, system)
    assert quorum.asked == [disk] * 3

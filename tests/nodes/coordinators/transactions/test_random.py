"""Random requests, failures and leader changes: what is remembered is the log, and it is safe."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Effects, ProducerStamp
from nodes.coordinators.records import CoordinatorRecord, RecordError
from nodes.coordinators.transactions import records
from nodes.coordinators.transactions.coordinator import Marker, TransactionCoordinator
from nodes.coordinators.transactions.state import (
    LARGEST_EPOCH,
    PREPARED,
    PREVIOUS_STATES,
    RESTING,
    State,
    Transaction,
)
from nodes.ids import Offset, TopicPartition
from tests.support.nodes.machine_driver import Appended
from tests.support.nodes.transaction_driver import TIMEOUT_MS, Transactions

PARTITIONS = [TopicPartition(topic, at) for topic in ("in", "out") for at in range(3)]
NAMES = ["a", "b"]
STEPS = 400
Identity = tuple[str, int, int]


class Client:
    """A producer: it acts by the identity that it was told last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stamp: ProducerStamp | None = None


class Run:
    """Clients of one coordinator whose log is committed with delay, and loses what is not."""

    def __init__(self, seed: int, version: int) -> None:
        self.rng = random.Random(seed)
        self.all_of = Transactions(version)
        self.driver = self.all_of.driver
        self.clients = [Client(self.rng.choice(NAMES)) for _ in range(5)]
        self.committed = 0
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self.owners: dict[Identity, Client] = {}
        self.commits: list[tuple[str, int]] = []
        """Transactional id, and the log's length when the client was told "committed"."""
        self.sent: list[Marker] = []

    def step(self) -> None:
        """One random event."""
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.init, 2),
            (self.add, 6),
            (self.end, 4),
            (self.confirm, 5),
            (self.commit, 8),
            (self.fail_over, 1),
            (self.fail_append, 1),
            (self.pass_time, 2),
            (self.replace_client, 1),
        ]
        self.rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()
        self.check()

    def init(self) -> None:
        client = self.rng.choice(self.clients)
        expected = client.stamp if self.rng.random() < 0.4 else None
        found = self.all_of.init(client.name, expected)
        self.later(lambda: self.told(client, found))

    def add(self) -> None:
        client = self.rng.choice(self.clients)
        partitions = self.rng.sample(PARTITIONS, self.rng.randint(1, 3))
        if client.stamp is not None:
            self.all_of.add(client.stamp, *partitions, name=client.name)

    def end(self) -> None:
        client, commit = self.rng.choice(self.clients), self.rng.random() < 0.6
        if client.stamp is None:
            return
        found = self.all_of.end(client.stamp, commit=commit, name=client.name)
        at = len(self.driver.log)

        def answered() -> None:
            self.told(client, found)
            if commit and isinstance(found, ProducerStamp):
                self.commits.append((client.name, at))

        self.later(answered)

    def confirm(self) -> None:
        """Some markers arrive; also old ones, again."""
        due = list(self.driver.machine.pending_markers(Offset(self.committed)))
        self.sent += due
        if self.sent:
            marker = self.rng.choice((due or self.sent) if self.rng.random() < 0.8 else self.sent)
            size = self.rng.randint(0, len(marker.partitions))
            self.all_of.confirm(marker, *self.rng.sample(marker.partitions, size))

    def commit(self) -> None:
        """The high watermark moves; answers are given."""
        self.committed = self.rng.randint(self.committed, len(self.driver.log))
        given = [answer for needed, answer in self.waiting if needed <= self.committed]
        self.waiting = [each for each in self.waiting if each[0] > self.committed]
        for answer in given:
            if self.rng.random() < 0.9:  # or it is lost, and the client tries again
                answer()

    def fail_over(self) -> None:
        """The next leader may have none of what is not committed."""
        del self.driver.log[self.rng.randint(self.committed, len(self.driver.log)) :]
        self.waiting = []
        self.driver.fail_over()

    def fail_append(self) -> None:
        """A decision whose record is not appended changes nothing."""
        client = self.rng.choice(self.clients)
        before = dict(self.driver.machine.transactions)
        self.driver.machine.init_producer_id(
            0,  # type: ignore[arg-type]
            self.driver.now,
            transactional_id=client.name,
            timeout_ms=TIMEOUT_MS,
            expected=client.stamp,
        )
        assert self.driver.machine.transactions == before
        self.fail_over()

    def pass_time(self) -> None:
        self.driver.advance(self.rng.choice([10, 5_000, TIMEOUT_MS]))

    def replace_client(self) -> None:
        """A new process; sometimes its id is almost out of epochs."""
        name = self.rng.choice(NAMES)
        self.clients[self.rng.randrange(len(self.clients))] = Client(name)
        known = self.driver.machine.transactions.get(name)
        if known is not None and known.state in RESTING and known.epoch < LARGEST_EPOCH - 9:
            self.all_of.at_epoch(LARGEST_EPOCH - self.rng.randint(2, 6), name)

    def later(self, answer: Callable[[], None]) -> None:
        self.waiting.append((len(self.driver.log), answer))

    def told(self, client: Client, found: ProducerStamp | ErrorCode) -> None:
        """An epoch belongs to one producer. Before level 2, the end of a transaction keeps it."""
        if isinstance(found, ProducerStamp):
            owner = self.owners.setdefault((client.name, *found), client)
            assert owner is client, f"{found} was given to two producers"
            assert found.epoch < LARGEST_EPOCH
            client.stamp = found

    def check(self) -> None:
        live = self.driver.machine
        rebuilt, compacted = self.driver.rebuilt(), self.driver.rebuilt(compacted=True)
        assert live.transactions == rebuilt.transactions == compacted.transactions
        end = Offset(len(self.driver.log))
        assert list(rebuilt.pending_markers(end)) == list(compacted.pending_markers(end))

    def settle(self) -> None:
        """Time passes, markers are written: nothing stays open."""
        for _ in range(2):
            self.driver.advance(TIMEOUT_MS + 20_000)
            self.all_of.finish()
        assert all(each.state in RESTING for each in self.driver.machine.transactions.values())

    def history(self, name: str) -> list[tuple[int, Transaction]]:
        """What the log says of an id, with the offsets."""
        found = []
        for at, entry in enumerate(self.driver.log):
            assert isinstance(entry, Appended)
            decoded = records.decode(entry.record)
            assert decoded is not None
            if decoded[0] == name and decoded[1] is not None:
                found.append((at, decoded[1]))
        return found


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_random_runs_are_safe(seed: int, version: int) -> None:
    """State is the log; epochs have one owner; commits stay commits; nothing stays open."""
    run = Run(seed, version)
    for _ in range(STEPS):
        run.step()
    run.settle()
    for name in NAMES:
        history = run.history(name)
        for (_, before), (_, after) in pairwise(history):
            assert before.state in PREVIOUS_STATES[after.state]
        for at in (at for told, at in run.commits if told == name):
            decided = [each.state for offset, each in history if offset < at]
            committed = [s for s in decided if s in PREPARED | RESTING - {State.EMPTY}]
            assert committed[-1] in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    decisions = {offset: each for name in NAMES for offset, each in run.history(name)}
    for marker in run.sent:
        decided_state = State.PREPARE_COMMIT if marker.commit else State.PREPARE_ABORT
        assert decisions[marker.decided].state is decided_state


@pytest.mark.parametrize("seed", range(5))
def test_no_request_raises(seed: int) -> None:
    """Whatever numbers and names it has."""
    rng = random.Random(seed)
    all_of = Transactions()

    def number(bits: int) -> int:
        edge: int = 1 << (bits - 1)
        return rng.choice([0, 1, -1, edge - 1, edge - 2, -edge, rng.randrange(-edge, edge)])

    def stamp() -> ProducerStamp:
        known = list(all_of.machine.transactions.values())
        if known and rng.random() < 0.7:
            some = rng.choice(known)
            return ProducerStamp(some.producer_id, some.epoch + rng.choice([-1, 0, 0, 0, 1]))
        return ProducerStamp(number(64), number(16))

    def request(machine: TransactionCoordinator, token: Any, now: Any) -> Effects:
        name = rng.choice(["", "a", "b", "é\U0001f600", "x" * 40_000])
        partitions = [
            TopicPartition(rng.choice(["t", "", "x" * 300]), number(32))
            for _ in range(rng.randrange(4))
        ]
        match rng.randrange(5):
            case 0:
                return machine.init_producer_id(
                    token,
                    now,
                    transactional_id=name,
                    timeout_ms=number(32) if rng.random() < 0.3 else 1000,
                    expected=rng.choice([None, stamp()]),
                )
            case 1:
                return machine.add_partitions(
                    token,
                    now,
                    transactional_id=name,
                    producer=stamp(),
                    partitions=partitions,
                    client_version=rng.choice([0, 2]),
                )
            case 2:
                return machine.verify_partitions(
                    token, now, transactional_id=name, producer=stamp(), partitions=partitions
                )
            case 3:
                return machine.end(
                    token,
                    now,
                    transactional_id=name,
                    producer=stamp(),
                    commit=rng.random() < 0.5,
                    client_version=rng.choice([0, 2]),
                )
            case _:
                return machine.describe(token, now, transactional_id=name)

    for _ in range(2_000):
        all_of.version = rng.randrange(3)
        all_of.driver.ask(request)
        if rng.random() < 0.2:
            all_of.finish()
        if rng.random() < 0.05:
            all_of.driver.advance(rng.choice([1, 11_000, 3_600_000]))
    assert all_of.driver.rebuilt().transactions == all_of.machine.transactions


@pytest.mark.parametrize("seed", range(5))
def test_damaged_records_raise_record_errors_only(seed: int) -> None:
    """The shell then knows what happened."""
    rng = random.Random(seed)
    all_of = Transactions()
    all_of.add(all_of.producer(), *PARTITIONS)
    for entry in list(all_of.driver.log):
        assert isinstance(entry, Appended)
        value = entry.record.value
        assert value is not None
        for _ in range(300):
            data = bytearray(value)
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            damaged = CoordinatorRecord(entry.record.key, bytes(data[: rng.randint(0, len(data))]))
            try:
                all_of.driver.rebuilt().replay(damaged, entry.position)
            except RecordError:
                continue

"""Groups and transactions in simulated runs: sound brokers pass, broken coordinators are found."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.commits import Commits
from harness.simulation.invariants.kept_offsets import KeptOffsets
from harness.simulation.invariants.transactions import End, Transactions
from harness.simulation.later_draws import GROUP_TIMES, OFFSETS_EXPIRE, TRANSACTION_TIMES
from harness.simulation.run import Simulation
from harness.workloads.clients.own.transactions import TransactionalProducer
from nodes.coordinators.groups import composition
from nodes.coordinators.groups.classic import checks
from nodes.coordinators.groups.expiry import OffsetExpiry
from nodes.coordinators.groups.offsets import OffsetKey, Offsets
from nodes.coordinators.groups.records import OFFSET_COMMIT
from nodes.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from nodes.coordinators.machine import Machine, Position
from nodes.coordinators.partitioning import partition_for
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from nodes.coordinators.transactions import decisions
from nodes.coordinators.transactions.state import State, change
from nodes.ids import Offset
from nodes.log.log import Log
from nodes.log.transactions.verification import Verifications
from nodes.server.coordinators import shard
from nodes.server.requests.transaction_markers import TransactionMarkersHandler
from tests.support.simulation.plans import prepared

KILLS = {
    "events": [
        {"at_ms": at_ms, "fault": "kill", "targets": f"node:{node}", "duration_ms": 1500}
        for at_ms, node in ((1500, 1), (3500, 2), (5500, 3))
    ]
}

LOST_ANSWERS = {
    "events": [
        {
            "at_ms": 1500,
            "fault": "link.lossy",
            "targets": "all",
            "params": {"lost_percent": 15, "direction": "out", "peers": "nodes"},
            "duration_ms": 5500,
        }
    ]
}


def simulation(
    groups: int = 2,
    producers: int = 2,
    nemesis: Any = KILLS,
    impatient: int = 0,
    invariants: bool = True,
    broker: dict[str, str] | None = None,
    **simulated: Any,
) -> Simulation:
    """A run in which each node is killed once, or the faults of `nemesis` happen. The coordinators
    of `impatient` producers wait for no follower.
    """
    return Simulation(
        prepared(
            duration_s=7,
            nemesis=nemesis,
            simulated={
                "group_members": groups,
                "transactional_producers": producers,
                "impatient_producers": impatient,
                **simulated,
            },
            broker={
                **GROUP_TIMES,
                **TRANSACTION_TIMES,
                "broker.session.timeout.ms": "1000",
                "offsets.topic.num.partitions": "2",
                "transaction.state.log.num.partitions": "2",
                **({"transaction.state.log.replication.factor": "1"} if impatient else {}),
                **(broker or {}),
            },
        ),
        invariants=invariants,
    )


def broken_by(made: Simulation) -> str:
    """The invariant that the run breaks."""
    failure = made.run().failure
    assert isinstance(failure, InvariantBroken), failure
    return failure.name


def test_sound_coordinators_pass_with_every_kind_of_work() -> None:
    """Both protocols commit, transactions commit and abort, and nothing is judged wrong."""
    made = simulation()
    recording = made.run()
    assert recording.failure is None
    unrecorded = made._unrecorded
    assert [commits.count > 10 for commits in unrecorded.commits] == [True, True]
    assert unrecorded.transactions.count(End.COMMITTED) > 10
    assert unrecorded.transactions.count(End.ABORTED) > 3


def test_a_coordinator_that_does_not_load_loses_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next coordinator knows nothing, and the members are told so."""

    async def load_nothing(machine: Machine, log: Log) -> Offset:
        return log.end_offset

    monkeypatch.setattr(shard, "load", load_nothing)
    assert broken_by(simulation(producers=0)) == "commits-stay"


def test_a_coordinator_that_remembers_something_else_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody would notice before the next coordinator loads the log."""
    append: Callable[..., None] = shard.Shard._append
    replay = Offsets.replay
    live = False

    def appended(self: Any, *arguments: Any) -> None:
        nonlocal live
        live = True
        append(self, *arguments)
        live = False

    def replayed(self: Offsets, record: CoordinatorRecord, position: Position) -> None:
        if live:
            position = position._replace(offset=Offset(position.offset + 1))
        replay(self, record, position)

    monkeypatch.setattr(shard.Shard, "_append", appended)
    monkeypatch.setattr(Offsets, "replay", replayed)
    assert broken_by(simulation(producers=0)) == "coordinators-replay"


@pytest.mark.parametrize("invariants", [True, False])
def test_markers_that_always_commit_show_aborted_transactions(
    monkeypatch: pytest.MonkeyPatch, invariants: bool
) -> None:
    """A reader of committed records sees what its producer aborted."""
    append = TransactionMarkersHandler._append

    def committing(self: Any, partition: Any, marker: Any, version: int) -> Any:
        return append(self, partition, marker._replace(committed=True), version)

    monkeypatch.setattr(TransactionMarkersHandler, "_append", committing)
    made = simulation(groups=0, invariants=invariants)
    assert broken_by(made) == "transactions-are-whole"


def test_a_coordinator_that_remembers_a_superseded_record_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its log says the same, until compaction removes the earlier record."""
    replay = Offsets.replay

    def replayed(self: Offsets, record: CoordinatorRecord, position: Position) -> None:
        decoded = RecordTypes([OFFSET_COMMIT]).decode(record)
        known = None
        if decoded is not None:
            key = OffsetKey(decoded.key.group, decoded.key.topic, decoded.key.partition)
            known = self.committed(key)
        if known is not None:
            position = position._replace(offset=known.record_offset)
        replay(self, record, position)

    monkeypatch.setattr(Offsets, "replay", replayed)
    failure = simulation(producers=0).run().failure
    assert isinstance(failure, InvariantBroken)
    assert failure.name == "coordinators-replay"
    assert "compacted" in failure.sentence


def test_faults_hit_the_coordinators() -> None:
    """A selector names the group or the transactional id; its coordinator is hit."""
    events = [
        {"at_ms": 2000, "fault": "kill", "targets": "group-coordinator:classic"},
        {"at_ms": 4500, "fault": "kill", "targets": "transaction-coordinator:writer-0"},
    ]
    made = simulation(nemesis={"events": [{**each, "duration_ms": 1000} for each in events]})
    recording = made.run()
    assert recording.failure is None
    hit = {row["planned_ms"]: row for row in recording.faults.named()}
    assert all(row["took_effect"] for row in hit.values())
    chosen = {at_ms: json.loads(row["targets"]) for at_ms, row in hit.items()}
    assert chosen[2000]["resolved"] == "group coordinator of classic"
    assert chosen[4500]["resolved"] == "transaction coordinator of writer-0"
    for at_ms, topic, key in (
        (2000, OFFSETS_TOPIC, "classic"),
        (4500, TRANSACTIONS_TOPIC, "writer-0"),
    ):
        led = led_by(made, topic, partition_for(key, 2))
        assert led & set(chosen[at_ms]["nodes"]), (topic, led, chosen[at_ms])


def led_by(made: Simulation, topic: str, partition: int) -> set[int]:
    """The nodes that led the partition at some time."""
    assert made.invariants is not None
    images = made.invariants.images
    found = [topic_id for topic_id, each in images.newest.topics.items() if each.name == topic]
    return set(images.partitions[found[0], partition].history.leaders.values())


def test_sound_coordinators_pass_with_unusual_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """They repeat requests and pause, and a group's only client commits and deletes."""
    met: Counter[str] = Counter()

    def counting(owner: Any, name: str) -> None:
        judge = getattr(owner, name)

        def judged(*arguments: Any, **more: Any) -> Any:
            met[f"{owner.__name__}.{name}"] += 1
            return judge(*arguments, **more)

        monkeypatch.setattr(owner, name, judged)

    for owner, name in (
        (Commits, "repeated"),
        (Transactions, "repeated"),
        (TransactionalProducer, "mark_again"),
        *((KeptOffsets, each) for each in ("read", "deleted", "ended", "sent")),
    ):
        counting(owner, name)
    made = simulation(groups=3, repeats=True, pauses=True, offset_keepers=2)
    assert made.run().failure is None
    assert len(met) == 7, met
    assert met["KeptOffsets.read"] > 30


def test_a_commit_of_an_earlier_generation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator looks only whether it knows the member."""
    check = checks.check_commit

    def lax(group: Any, committer: Any) -> Any:
        return check(group, committer._replace(generation=group.generation))

    monkeypatch.setattr(checks, "check_commit", lax)
    made = simulation(groups=3, producers=0, repeats=True)
    assert broken_by(made) == "old-generations-are-refused"


def test_an_end_that_is_refused_when_it_is_repeated_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer would believe that its transaction was aborted."""
    refused = decisions.EndDecision(ErrorCode.invalid_txn_state)
    monkeypatch.setattr(decisions, "_already_ended", lambda state, *, commit: refused)
    assert broken_by(simulation(groups=0, repeats=True)) == "repeated-ends-agree"


def test_a_producer_that_is_not_fenced_by_a_time_out_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It pauses, and commits the rest of a transaction that was aborted."""

    def abort(transaction: Any, now_ms: int, **_: Any) -> Any:
        return change(transaction, State.PREPARE_ABORT, now_ms, client_version=0)

    monkeypatch.setattr(decisions, "prepare_fence", abort)
    made = simulation(groups=0, producers=4, pauses=True, nemesis={"faults": []})
    assert broken_by(made) == "transactions-are-whole"


def impatient_producers() -> Simulation:
    """Producers of the first version give batches up, while brokers get answers late."""
    return simulation(groups=0, producers=0, impatient=8, nemesis=LOST_ANSWERS)


def test_sound_brokers_pass_with_batches_that_arrive_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some batches are refused because their transaction ended after it was confirmed."""
    late = []
    marked = Verifications.marked

    def noting(self: Verifications, producer_id: int, marker_epoch: int) -> None:
        late.append(self.get(producer_id))
        marked(self, producer_id, marker_epoch)

    monkeypatch.setattr(Verifications, "marked", noting)
    made = impatient_producers()
    assert made.run().failure is None
    assert sum(guard is not None for guard in late) > 3
    transactions = made._unrecorded.transactions
    assert transactions.count(End.COMMITTED) > 10
    assert transactions.count(End.ABORTED) > 10


def test_a_batch_that_is_appended_after_its_transaction_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A marker leaves the old confirmation valid, and a batch that was given up counts."""
    monkeypatch.setattr(Verifications, "marked", lambda self, producer_id, marker_epoch: None)
    assert broken_by(impatient_producers()) in {"transactions-end", "transactions-are-whole"}


@pytest.mark.parametrize("invariants", [True, False])
def test_offsets_of_a_deleted_group_are_found(
    monkeypatch: pytest.MonkeyPatch, invariants: bool
) -> None:
    """The group's client reads them, and so would another group of its name."""
    monkeypatch.setattr(composition, "tombstones", lambda keys: ())
    made = simulation(groups=0, producers=0, offset_keepers=2, invariants=invariants)
    assert broken_by(made) == "commits-stay"


@pytest.mark.parametrize("clock_changed", [False, True])
def test_offsets_that_expire_early_are_found(
    clock_changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that nobody could know to be older than their retention, unless a clock changed."""
    is_old = OffsetExpiry._is_old

    def early(self: Any, key: OffsetKey, kind: Any, retention: Any, now_wall_ms: int) -> bool:
        return is_old(self, key, kind, retention, now_wall_ms + self.retention_ms)

    monkeypatch.setattr(OffsetExpiry, "_is_old", early)
    made = simulation(
        groups=0, producers=0, offset_keepers=2, nemesis={"events": []}, broker=OFFSETS_EXPIRE
    )
    if clock_changed:
        made.cluster.nodes[1].clock.skew("test", 0)
        assert made.run().failure is None
    else:
        assert broken_by(made) == "commits-stay"


def test_what_a_client_saw_excuses_a_broker_that_lost_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows without invariants what may be missing then."""
    monkeypatch.setattr(composition, "tombstones", lambda keys: ())
    event = {"at_ms": 5500, "fault": "power-loss", "targets": "node:1", "duration_ms": 1400}
    made = simulation(
        groups=0, producers=0, offset_keepers=2, nemesis={"events": [event]}, invariants=False
    )
    assert made.run().failure is None
    assert made._seen

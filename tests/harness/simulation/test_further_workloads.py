"""Groups, copies and transactions in simulated runs: what they record, and how it is judged."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from harness.judging import judge
from harness.plans.plan import Plan, build
from harness.run import prepare
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation
from harness.workloads.clients.own.subscribed import Subscribed
from harness.workloads.clients.own.transactions import TransactionalProducer
from harness.workloads.clients.payload import client_of
from nodes.ids import TopicPartition
from tests.support.tiers import in_turn

SHORT = {
    "group.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 2000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
MEMBERS = {"member_life_s": 2.5, "session_timeout_ms": 1000}
PRODUCERS = {"producers": 1, "consumers": 0, "rate_per_s": 60}
GROUP = {"kind": "group", "topic": "in", **MEMBERS}
COPY = {"kind": "copy", "input": "in", **MEMBERS}
WIDE = {"kind": "group", "topics": ["in", "more"], **MEMBERS}
"""A group that reads two topics, with partitions of the same numbers."""
DURATION_S = 7
SHORTER_S = 4.5
DURATIONS_S = {
    **dict.fromkeys(("transactions", "copies", "wide", "wide-once"), SHORTER_S), "wide-copies": 3,
}  # fmt: skip
"""Of kinds with transactions or many partitions, of which a second costs most."""
TRANSACTIONS = {"kind": "transactions", "topics": ["txn"], "rate_per_s": 20, "open_share": 0.1}

Row = Mapping[str, Any]


def plan_with(*workloads: Mapping[str, Any], **changes: Any) -> Plan:
    """A short plan without faults, with the topics that the workloads need."""
    topics = {"in": bool([w for w in workloads if "kind" not in w])}
    topics |= {str(w["output"]): True for w in workloads if "output" in w}
    several = ("topics", "inputs")
    topics |= {name: True for w in workloads for each in several for name in w.get(each, ())}
    raw = {
        "seed": 3,
        "name": "further",
        "target": "sim",
        "topics": [
            {"name": n, "acks": "all", "partitions": 3 if n == "more" else 2}
            for n, is_in in topics.items()
            if is_in
        ],
        "workload": list(workloads),
        "broker": SHORT,
        "warmup_s": 0,
        "duration_s": DURATION_S,
        "nemesis": {"faults": []},
        **changes,
    }
    return build(raw, where="plan further")


def run(plan: Plan) -> Recording:
    """What a simulated run of the plan records."""
    recording = Simulation(prepare.prepare(plan)).run()
    assert recording.failure is None
    assert recording.troubles == []
    return recording


@cache
def recorded(*kinds: str) -> Recording:
    """The recording of a plan with these workloads, made once."""
    known = {
        "produce": PRODUCERS,
        "read": {**PRODUCERS, "consumers": 1},
        "readers": {**GROUP, "group": "readers"},
        "once": {**GROUP, "group": "once", "processing": "at-most-once", "protocol": "consumer"},
        "copies": {**COPY, "group": "copiers", "output": "out"},
        "plain": {
            **COPY, "group": "plain", "output": "out", "processing": "at-least-once",
            "protocol": "consumer",
        },
        "transactions": TRANSACTIONS,
        "wide": {**WIDE, "group": "wide"},
        "wide-once": {
            **WIDE, "group": "wide-once", "processing": "at-most-once", "protocol": "consumer",
        },
        "wide-copies": {
            "kind": "copy", "group": "wide-copies", "inputs": ["in", "more"], "output": "out",
            **MEMBERS,
        },
    }  # fmt: skip
    duration_s = min(DURATIONS_S.get(kind, DURATION_S) for kind in kinds)
    return run(plan_with(*(known[kind] for kind in kinds), duration_s=duration_s))


def rows_of(recording: Recording, f: str, type_: str | None = None) -> list[Row]:
    """The rows of one kind of operation, and maybe of one type, in order."""
    rows = [row for history in recording.histories for row in history.named()]
    return [row for row in rows if row["f"] == f and type_ in (None, row["type"])]


def verdict_of(recording: Recording, root: Path) -> Mapping[str, Any]:
    """What the checkers say of a recording."""
    return judge.check(recording.store(root, versions={}, commit=None).path)


def forbidden(verdict: Mapping[str, Any]) -> set[str]:
    """The kinds of anomalies that the contract forbids."""
    found = json.loads(json.dumps(verdict))["anomalies"]
    return {each["kind"] for each in found if each["judgement"] == "forbidden"}


def final_values(recording: Recording, topic: str) -> set[int]:
    """The values in the final log of a topic."""
    return {row["value"] for row in rows_of(recording, "final-read") if row["topic"] == topic}


@pytest.mark.parametrize(
    "version",
    in_turn(
        "harness/simulation/test_further_workloads.py"
        "::test_transactions_write_to_several_topics_or_to_none",
        [1, 2],
        of=2,
    ),
)
def test_transactions_write_to_several_topics_or_to_none(version: int, tmp_path: Path) -> None:
    """Each transaction has records in as many topics as the plan says, and what is committed is in
    all of their logs."""
    wide = {**TRANSACTIONS, "topics": ["a", "b", "c"], "topics_each": 2, "producers": 1}
    broker = {**SHORT, "transaction.version": str(version)}
    recording = run(plan_with(wide, broker=broker, duration_s=SHORTER_S))
    written: dict[tuple[int, str], set[tuple[str, int]]] = defaultdict(set)
    for row in rows_of(recording, "send"):
        written[row["txn"], row["type"]].add((row["topic"], row["value"]))
    committed = [places for (_, type_), places in written.items() if type_ == "ok"]
    assert len(committed) > 50
    assert {len({topic for topic, _ in places}) for places in committed} == {2}
    final = {topic: final_values(recording, topic) for topic in ("a", "b", "c")}
    for (_, type_), places in written.items():
        kept = [value in final[topic] for topic, value in places]
        assert all(kept) or (type_ != "ok" and not any(kept))
    assert verdict_of(recording, tmp_path)["verdict"] == "VALID"


def values_below_commits(recording: Recording) -> set[int]:
    """The values of the topic `in` below the final committed offsets of its only group."""
    final = {row["partition"]: row["offset"] or 0 for row in rows_of(recording, "final-committed")}
    read = [row for row in rows_of(recording, "final-read") if row["topic"] == "in"]
    below = {row["value"] for row in read if row["offset"] < final[row["partition"]]}
    assert len(below) > 100
    return below


def test_sends_of_a_transaction_share_its_outcome_and_the_log_has_the_committed_ones() -> None:
    """Aborted transactions, and transactions that were left open, leave nothing that is read."""
    recording = recorded("read", "transactions")
    types = defaultdict(set)
    sends = [row for row in rows_of(recording, "send") if row["topic"] == "txn"]
    for row in sends:
        types[row["txn"]].add(row["type"])
    assert {len(each) for each in types.values()} == {1}
    sent = {row["value"] for row in sends if row["type"] == "ok"}
    assert final_values(recording, "txn") == sent
    assert rows_of(recording, "abort-transaction", "ok")
    polls = [row for row in rows_of(recording, "poll") if row["topic"] == "txn"]
    ends = [row for row in rows_of(recording, "final-read") if row["topic"] == "txn"]
    assert {row["isolation"] for row in polls + ends} == {1}
    assert {row["value"] for row in polls} <= sent


@pytest.mark.slow
def test_a_producer_that_left_a_transaction_open_comes_back_fenced() -> None:
    """Another producer has taken over its transactional id."""
    recording = recorded("read", "transactions")
    inits = defaultdict(set)
    for row in rows_of(recording, "init-producer", "ok"):
        inits[row["transactional_id"]].add(row["client"])
    assert max(len(clients) for clients in inits.values()) > 1
    failed = [row for row in rows_of(recording, "send", "fail") if row["topic"] == "txn"]
    fenced = [row for row in failed if row["error"] is not None]
    assert {row["error"] for row in fenced} <= {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
    assert fenced


def test_members_record_assignments_commits_and_polls_of_their_generation() -> None:
    """Together they read all that is committed. The last commits are the final ones."""
    recording = recorded("produce", "readers")
    assigned = rows_of(recording, "assigned")
    assert len({row["client"] for row in assigned}) > 2
    generations = {(row["client"], row["generation"]) for row in assigned}
    polls = rows_of(recording, "poll")
    assert {(row["client"], row["generation"]) for row in polls} <= generations
    assert {row["group"] for row in polls} == {"readers"}
    assert values_below_commits(recording) <= {row["value"] for row in polls}
    assert rows_of(recording, "revoked")
    assert rows_of(recording, "lost")
    last = {row["partition"]: row["offset"] for row in rows_of(recording, "offset-commit", "ok")}
    final = {row["partition"]: row["offset"] for row in rows_of(recording, "final-committed")}
    assert final == last


def test_at_most_once_gets_a_record_only_behind_its_commit() -> None:
    """No record is delivered twice, also when members vanish."""
    recording = recorded("produce", "once")
    polls = rows_of(recording, "poll")
    places = [(row["partition"], row["offset"]) for row in polls]
    assert len(places) == len(set(places)) > 100
    committed = defaultdict(list)
    for row in rows_of(recording, "offset-commit", "ok"):
        committed[row["partition"]].append((row["offset"], row["complete_ns"]))
    for row in polls:
        ends = [at for offset, at in committed[row["partition"]] if offset > row["offset"]]
        assert min(ends) <= row["complete_ns"]


@pytest.mark.parametrize("kind", ["wide", "wide-once", "wide-copies"])
def test_group_reads_and_commits_the_partitions_of_all_its_topics(kind: str) -> None:
    """One member at a time has each partition of each topic. What is committed in the end is what
    the members committed last there, although both topics have partitions of the same numbers."""
    recording = recorded("produce", kind)
    wanted = {("in", 0), ("in", 1), ("more", 0), ("more", 1), ("more", 2)}
    last: dict[tuple[str, int], int] = {}
    for row in sorted(rows_of(recording, "offset-commit", "ok"), key=itemgetter("complete_ns")):
        last[row["topic"], row["partition"]] = row["offset"]
    final = {
        (row["topic"], row["partition"]): row["offset"]
        for row in rows_of(recording, "final-committed", "ok")
    }
    assert final == last
    assert final.keys() == wanted
    assert len(set(final.values())) > 1
    polls = rows_of(recording, "poll")
    got = {(row["topic"], row["partition"], row["offset"]) for row in polls}
    for topic, partition in wanted:
        read = {offset for t, p, offset in got if (t, p) == (topic, partition)}
        assert read >= set(range(final[topic, partition])) > set()
    assigned = rows_of(recording, "assigned")
    assert {(row["topic"], row["partition"]) for row in assigned} - {(None, None)} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copies", "plain"])
def test_each_committed_record_has_a_copy_that_names_it(kind: str) -> None:
    """The producers of copies are no members, and the values of copies are their own."""
    recording = recorded("produce", kind)
    group = {"copies": "copiers", "plain": "plain"}[kind]
    copies = [row for row in rows_of(recording, "send", "ok") if row["topic"] == "out"]
    assert {row["group"] for row in copies} == {group}
    assert {row["value"] for row in copies} == final_values(recording, "out")
    assert all(client_of(row["value"]) == row["client"] for row in copies)
    assert values_below_commits(recording) <= {row["copies"] for row in copies}


def test_offsets_of_copies_are_committed_in_their_transactions() -> None:
    """Each has the outcome of its transaction."""
    recording = recorded("produce", "copies")
    outcomes = {row["txn"]: row["type"] for row in rows_of(recording, "commit-transaction")}
    commits = rows_of(recording, "offset-commit")
    assert {row["type"] for row in commits} == {"ok", "fail"}
    assert all(row["type"] == outcomes.get(row["txn"], "fail") for row in commits)


@pytest.mark.slow
def test_equal_seeds_give_equal_runs() -> None:
    """Groups and transactions are a function of the seed, too."""
    copies = {**COPY, "group": "copiers", "output": "out"}
    again = run(plan_with(PRODUCERS, copies, duration_s=SHORTER_S))
    assert again.digest == recorded("produce", "copies").digest


SLOWER = ("once", "copies", "plain", "wide-once", "wide-copies")


@pytest.mark.parametrize(
    "kinds",
    [
        ("produce", "readers"),
        ("read", "transactions"),
        ("produce", "wide"),
        *in_turn(
            "harness/simulation/test_further_workloads.py::test_checkers_find_nothing_forbidden",
            [(("produce", kind),) for kind in SLOWER],
            of=2,
        ),
    ],
    ids="+".join,
)
def test_checkers_find_nothing_forbidden(kinds: Sequence[str], tmp_path: Path) -> None:
    """The unmodified broker keeps the contract."""
    verdict = verdict_of(recorded(*kinds), tmp_path)
    assert verdict["verdict"] == "VALID", verdict["reasons"]


@pytest.mark.slow
def test_checkers_notice_commits_that_the_client_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that commits beyond the records which it copied has records without copies."""
    commit = Subscribed.commit

    async def too_far(self: Subscribed, offsets: Mapping[int, int]) -> Any:
        return await commit(self, {partition: n + 3 for partition, n in offsets.items()})

    monkeypatch.setattr(Subscribed, "commit", too_far)
    copy = {**COPY, "group": "g", "output": "out", "processing": "at-least-once"}
    verdict = verdict_of(run(plan_with(PRODUCERS, copy)), tmp_path)
    assert "uncopied" in forbidden(verdict)


@pytest.mark.slow
def test_checkers_notice_offsets_that_are_committed_to_the_other_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that knew partitions by their numbers alone would do the same."""
    commit = Subscribed.commit

    async def confused(self: Subscribed, offsets: Mapping[TopicPartition, int]) -> Any:
        others = {"in": "more", "more": "in"}
        told = {TopicPartition(others[t], p): n for (t, p), n in offsets.items()}
        results = await commit(self, told)
        return {TopicPartition(others[t], p): result for (t, p), result in results.items()}

    monkeypatch.setattr(Subscribed, "commit", confused)
    verdict = verdict_of(run(plan_with(PRODUCERS, {**WIDE, "group": "g"})), tmp_path)
    assert forbidden(verdict) & {"skipped-record", "lost-commit"}


@pytest.mark.slow
def test_checkers_notice_a_commit_that_is_an_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledged transactions are lost then."""
    end = TransactionalProducer.end

    async def abort(self: TransactionalProducer, *, commit: bool) -> None:
        await end(self, commit=commit and self.epoch % 4 != 0)

    monkeypatch.setattr(TransactionalProducer, "end", abort)
    verdict = verdict_of(run(plan_with(TRANSACTIONS)), tmp_path)
    assert "lost-write" in forbidden(verdict)

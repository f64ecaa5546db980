"""A plan may have several workloads: which topics each one uses, and what is refused."""

from typing import Any

import pytest

from checkers.history.settings import topic_settings
from harness.plans import workload_topics
from harness.plans.plan import Plan, PlanError, build
from harness.plans.workloads import CopyWorkload, GroupWorkload, TransactionWorkload
from harness.run.prepare import prepare
from harness.workloads.further_config import FurtherConfig

TOPICS = [{"name": name, "acks": "all"} for name in ("in", "out", "txn")]
COPY = {"kind": "copy", "group": "copiers", "input": "in", "output": "out"}
GROUP = {"kind": "group", "group": "readers", "topic": "in"}
TRANSACTIONS = {"kind": "transactions", "topics": ["txn"]}

KEYS = {"name": "keys", "acks": "all", "configs": {"cleanup.policy": "compact"}}
COMPACTED = {"kind": "compacted", "topics": ["keys"]}


def compacted(*workloads: dict[str, Any], topic: dict[str, Any] = KEYS) -> Plan:
    """Return a plan with a topic that is compacted, one that is not, and these workloads beside
    the one of the compacted topic."""
    topics = [TOPICS[0], topic]
    raw = {"seed": 1, "topics": topics, "workload": [*workloads, COMPACTED]}
    return build(raw, where="plan p")


def plan_with(*workloads: dict[str, Any]) -> Plan:
    """Return a plan with the three topics and these entries of `[[workload]]`."""
    raw = {"seed": 1, "topics": TOPICS, "workload": list(workloads)}
    return build(raw, where="plan p")


def names(topics: tuple[Any, ...]) -> list[str]:
    """Return the names of topics."""
    return [topic.name for topic in topics]


def test_each_entry_of_the_list_becomes_a_workload_of_its_kind() -> None:
    """The producers and consumers are apart from the others, which keep their order."""
    plan = plan_with(COPY, {"kind": "produce", "producers": 7}, GROUP, TRANSACTIONS)
    assert plan.workload.producers == 7
    assert [type(each) for each in plan.more_workloads] == [
        CopyWorkload,
        GroupWorkload,
        TransactionWorkload,
    ]
    assert prepare(plan).plan == plan


def test_a_table_and_a_list_of_one_table_mean_the_same() -> None:
    """`[workload]` stays what it was, and an entry needs no kind."""
    one = build({"seed": 1, "workload": {"producers": 3}}, where="plan p")
    assert build({"seed": 1, "workload": [{"producers": 3}]}, where="plan p") == one
    assert one.more_workloads == ()


def test_a_plan_with_several_workloads_survives_a_round_trip() -> None:
    """plan.json has the further workloads beside the first one."""
    plan = plan_with({}, COPY, GROUP, TRANSACTIONS)
    assert Plan.from_json(plan.to_json(), "plan.json") == plan


def test_producers_leave_topics_alone_that_others_write_to() -> None:
    """By default. A list of topics may also name such a topic."""
    plan = plan_with({}, COPY, TRANSACTIONS)
    assert names(workload_topics.of_producers(plan)) == ["in"]
    plan = plan_with({"topics": ["in", "txn"]}, COPY, TRANSACTIONS)
    assert names(workload_topics.of_producers(plan)) == ["in", "txn"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"topics_each": 2},
            "workload transactions: topics_each is 2, and the workload has 1 topics",
        ),
        ({"topics_each": 3, "records": 2}, "topics_each is 3, and a transaction has 2 records"),
    ],
)
def test_transactions_that_cannot_have_as_many_topics_are_refused(
    changes: dict[str, Any], said: str
) -> None:
    """The error names the topics."""
    with pytest.raises(PlanError) as refused:
        prepare(plan_with({}, {**TRANSACTIONS, **changes}))
    assert said in str(refused.value)
    several = {**TRANSACTIONS, "topics": ["in", "txn"], "topics_each": 2}
    prepare(plan_with({}, several, COPY))


def test_compacted_topics_are_left_to_their_producers() -> None:
    """Neither the ordinary producers nor transactions in all topics write to them."""
    plan = compacted({}, {"kind": "transactions"})
    assert names(workload_topics.of_producers(plan)) == ["in"]
    assert workload_topics.transactional(plan) == {"in"}
    assert workload_topics.compacted(plan) == {"keys"}
    assert workload_topics.written(plan) == {"in", "keys"}
    assert prepare(plan).plan == plan


def test_a_flag_changes_the_client_of_a_compacted_workload() -> None:
    """All libraries write keys. A program that does not is refused when it is asked."""
    raw = {"seed": 1, "topics": [TOPICS[0], KEYS], "workload": [{}, COMPACTED]}
    plan = build(raw, where="plan p", flags={"client_command": ["./mine"], "rate_per_s": 5})
    assert [plan.workload.client, plan.more_workloads[0].client] == ["program", "program"]
    assert plan.more_workloads[0].client_command == ("./mine",)
    assert plan.more_workloads[0].rate_per_s == 100
    for client in ("own", "java", "aiokafka", "kafka-python"):
        plan = build(raw, where="plan p", flags={"client": client})
        assert [plan.workload.client, plan.more_workloads[0].client] == [client, client]


@pytest.mark.parametrize(
    ("changes", "workloads", "said"),
    [
        ({"configs": {}}, [{}], 'topic keys has cleanup.policy delete; set configs = {"cleanup.po'),
        (
            {"configs": {"cleanup.policy": "compact,delete"}},
            [{}],
            "topic keys has cleanup.policy compact,delete; set configs",
        ),
        ({"acks": 0}, [{}], "topic keys has acks = 0, so no write of it is known to be there; set"),
        ({}, [{"topics": ["in", "keys"]}], "another workload uses topic keys, too; give the"),
        ({}, [{}, {**GROUP, "topic": "keys"}], "another workload uses topic keys, too; give the"),
        ({}, [{}, COMPACTED], "another workload uses topic keys, too; give the"),
    ],
)
def test_compacted_topics_that_make_no_sense_are_refused(
    changes: dict[str, Any], workloads: list[dict[str, Any]], said: str
) -> None:
    """The error says what to do."""
    with pytest.raises(PlanError) as refused:
        prepare(compacted(*workloads, topic={**KEYS, **changes}))
    assert f"workload compacted: {said}" in str(refused.value)


def test_without_an_entry_for_them_there_are_no_producers() -> None:
    """A list of transactions only has transactions only, in all topics."""
    plan = plan_with({"kind": "transactions"})
    assert workload_topics.of_producers(plan) == ()
    assert workload_topics.written(plan) == {"in", "out", "txn"}


def test_topics_are_transactional_if_somebody_writes_transactions_to_them() -> None:
    """Transactions leave the output of copies alone; copies at least once are no transactions."""
    every = {"kind": "transactions"}
    assert workload_topics.transactional(plan_with(every, COPY)) == {"in", "out", "txn"}
    plain = {**COPY, "processing": "at-least-once"}
    assert workload_topics.transactional(plan_with(every, plain)) == {"in", "txn"}


@pytest.mark.parametrize(
    ("topic", "isolation", "level"),
    [
        ("in", "read_committed", None),
        ("in", "read_uncommitted", None),
        ("txn", "read_committed", 1),
        ("txn", "read_uncommitted", 0),
    ],
)
def test_members_have_the_isolation_of_their_group(
    topic: str, isolation: str, level: int | None
) -> None:
    """Without transactions in the topic there is no level to record."""
    group = {**GROUP, "topic": topic, "isolation": isolation}
    plan = plan_with({}, group, TRANSACTIONS)
    config = FurtherConfig(
        run_id="r", base_ns=0, history_dir="", first_client=1, bootstrap="", name="group",
        workload=plan.more_workloads[0].model_dump(mode="json"), partitions={topic: 1},
        transactional=sorted(workload_topics.transactional(plan)),
    )  # fmt: skip
    assert config.isolation(topic) == level


def test_group_of_several_topics_reads_all_of_them() -> None:
    """Its final commits are asked for in each, and the promise of the group is that of each."""
    wide = {"kind": "group", "group": "wide", "topics": ["in", "txn"], "processing": "at-most-once"}
    copies = {"kind": "copy", "group": "copiers", "inputs": ["in", "txn"], "output": "out"}
    plan = plan_with({}, wide, copies, TRANSACTIONS)
    assert workload_topics.read_by_groups(plan) == {"wide": ("in", "txn"), "copiers": ("in", "txn")}
    assert names(workload_topics.of(plan, plan.more_workloads[0])) == ["in", "txn"]
    assert names(workload_topics.of(plan, plan.more_workloads[1])) == ["in", "out", "txn"]
    for topic in ("in", "txn"):
        assert topic_settings(plan.to_json(), topic).processing == "at-most-once"
    assert build(plan.to_json(), where="plan p") == plan


def test_a_flag_changes_the_producers_in_a_list() -> None:
    """The client of other workloads changes, too, if the named one can run them."""
    raw = {"seed": 1, "topics": TOPICS, "workload": [{}, COPY, TRANSACTIONS]}
    plan = build(raw, where="plan p", flags={"client": "own", "rate_per_s": 5})
    assert (plan.workload.client, plan.workload.rate_per_s) == ("own", 5)
    assert [each.client for each in plan.more_workloads] == ["own", "own"]
    assert plan.more_workloads[1].rate_per_s == 10
    plan = build(raw, where="plan p", flags={"client": "aiokafka"})
    clients = [each.client for each in plan.more_workloads]
    assert (plan.workload.client, clients) == ("aiokafka", ["librdkafka", "librdkafka"])


def test_a_flag_gives_all_workloads_a_program() -> None:
    """A command means client `program`; another client has no command."""
    raw = {"seed": 1, "topics": TOPICS, "workload": [{}, COPY, TRANSACTIONS]}
    plan = build(raw, where="plan p", flags={"client_command": ["./c", "-v"]})
    every = (plan.workload, *plan.more_workloads)
    assert {(each.client, each.client_command) for each in every} == {("program", ("./c", "-v"))}
    again = build(plan.to_json(), where="plan p", flags={"client": "java"})
    assert (again.workload.client, again.workload.client_command) == ("java", ())
    one = build({"seed": 1}, where="plan p", flags={"client_command": ["./c"]})
    assert one.workload.client == "program"


def test_a_program_needs_a_command_and_nothing_else_has_one() -> None:
    """In every kind of workload."""
    for kind in ({}, GROUP, COPY, TRANSACTIONS):
        with pytest.raises(PlanError, match="client program: client_command is missing; name the"):
            plan_with({}, {**kind, "client": "program"}) if kind else plan_with(
                {"client": "program"}
            )
        with pytest.raises(PlanError, match="client_command is only for client program, and the "):
            plan_with({**kind, "client_command": ["./c"]})


def test_transactions_and_copies_need_acks_of_all_replicas() -> None:
    """Their producers cannot have another setting."""
    for workload, name in ((TRANSACTIONS, "txn"), (COPY, "out")):
        topics = [{**topic, "acks": 1} if topic["name"] == name else topic for topic in TOPICS]
        raw = {"seed": 1, "topics": topics, "workload": [{}, workload]}
        with pytest.raises(PlanError, match=f'topic {name}: .* acks = "all", not 1; set it so'):
            prepare(build(raw, where="plan p"))


@pytest.mark.parametrize(
    ("workloads", "said"),
    [
        ([{"kind": "grop"}], "there is no kind 'grop'; did you mean group? (kinds: produce, "),
        ([{}, {"kind": "produce"}], "2 entries have kind produce (or no kind), and a plan has one"),
        ([{"kind": "group", "topic": "in"}], "more_workloads.0.group: is missing"),
        ([{}, {**GROUP, "topic": "inn"}], "workload group: there is no topic inn; did you mean in"),
        ([{"topics": ["out", "x"]}], "workload: there is no topic x (topics: in, out, txn)"),
        ([{}, GROUP, {**COPY, "group": "readers"}], "two workloads have group readers"),
        ([{"topics": ["in", "out"]}, COPY], "workload copy: its output out is an input, or"),
        ([{}, {**COPY, "output": "in"}], "workload copy: its output in is an input, or"),
        ([{}, {**COPY, "input": "", "inputs": ["txn", "out"]}], "output out is an input, or"),
        ([{}, {**GROUP, "topics": ["in"]}], "topic and topics are both given: write one of them"),
        ([{}, {**GROUP, "topic": ""}], "topic is missing: name the topic that the group reads"),
        ([{}, {**GROUP, "topic": "", "topics": ["in", "in"]}], "topics names a topic twice"),
        ([{}, {**GROUP, "topic": "", "topics": ["in", "inn"]}], "there is no topic inn; did you"),
        ([{}, COPY, {**COPY, "group": "g"}], "something else writes to it; give the copies a"),
        (
            [{}, {**GROUP, "session_timeout_ms": 2_000}],
            "workload group: brokers refuse session_timeout_ms 2000, which is below group.min.sess",
        ),
        (
            [{}, {**GROUP, "client": "aiokafka", "protocol": "consumer"}],
            'client aiokafka does not speak protocol consumer: write protocol = "classic", or cho',
        ),
        (
            [{}, {**COPY, "client": "aiokafka"}],
            "client aiokafka cannot send the member with its offsets (KIP-447): write group_metad",
        ),
        ([{"topics": ["in"]}, COPY], "topic txn: no workload writes to it; remove it, or add it"),
    ],
)
def test_workloads_that_make_no_sense_are_refused(workloads: list[Any], said: str) -> None:
    """The error names the workload or the topic, and says what to do."""
    with pytest.raises(PlanError) as refused:
        prepare(plan_with(*workloads))
    assert said in str(refused.value)

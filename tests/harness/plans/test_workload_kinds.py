"""Kinds of workloads of other packages in plans: their keys, their topics, and what is refused."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from harness.plans import plugged, workload_kinds, workload_topics
from harness.plans.plan import Plan, PlanError, build
from harness.plans.plugged import WORKLOADS
from harness.run.prepare import prepare
from harness.workloads.further_config import FurtherConfig
from tests.support.workload_kinds import DECLARED, Echo

TOPICS = [{"name": name, "acks": "all"} for name in ("a", "b")]


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entry points of a package that is not installed."""
    points = [EntryPoint(name, what, WORKLOADS) for name, what in DECLARED.items()]
    monkeypatch.setattr(plugged, "entry_points", lambda group: points if group == WORKLOADS else [])
    for each in (plugged._declared, plugged._points):
        each.cache_clear()
    yield
    for each in (plugged._declared, plugged._points):
        each.cache_clear()


def plan(*workloads: dict[str, Any], **changes: Any) -> Plan:
    """A plan with two topics and these workloads."""
    made = {"seed": 1, "name": "p", "topics": TOPICS, "workload": list(workloads), **changes}
    return build(made, where="p")


def echo(**keys: Any) -> dict[str, Any]:
    """An entry of the kind `echo`."""
    return {"kind": "echo", "there": "a", **keys}


def test_entry_becomes_the_class_of_the_package() -> None:
    """With its keys, and the topics that verdicts need without the package."""
    (found,) = plan({}, echo(sends=3)).more_workloads
    assert isinstance(found, Echo)
    assert (found.sends, found.topics) == (3, ("a",))


def test_plan_survives_a_round_trip() -> None:
    """plan.json has every key of the kind."""
    made = plan({}, echo(sends=3))
    stored = made.to_json()
    assert stored["more_workloads"][0] == {
        "kind": "echo", "client": "librdkafka", "value_bytes": 128, "topics": ["a"], "there": "a",
        "also": [], "sends": 3,
    }  # fmt: skip
    assert Plan.from_json(stored, "plan.json") == made
    assert prepare(made).plan == made


def test_other_producers_leave_its_topics_alone() -> None:
    """Topics that it only reads are theirs."""
    made = plan({}, echo(also=["b"]))
    assert [topic.name for topic in workload_topics.of_producers(made)] == ["b"]
    assert [topic.name for topic in workload_topics.of(made, made.more_workloads[0])] == ["a", "b"]
    assert workload_topics.written(made) == {"a", "b"}


def test_another_client_of_the_plan_is_not_for_it() -> None:
    """`--client` changes the producers and consumers."""
    made = build(plan_of(echo()), where="p", flags={"client": "own"})
    assert (made.workload.client, made.more_workloads[0].client) == ("own", "librdkafka")


def plan_of(*workloads: dict[str, Any]) -> dict[str, Any]:
    """The raw data of a plan."""
    return {"seed": 1, "name": "p", "topics": TOPICS, "workload": [{}, *workloads]}


def test_process_has_producers_if_the_kind_writes() -> None:
    """A run waits for the first acknowledgement of such processes only."""
    values = {"run_id": "r", "base_ns": 0, "history_dir": "", "first_client": 1, "bootstrap": "b"}
    stored = plan({}, echo()).to_json()["more_workloads"][0]
    made = FurtherConfig(
        **values, name="n", workload=stored, partitions={"a": 1}, topic_acks={"a": 1}
    )
    assert made.writes
    assert made.acks_of("a") == 1


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (echo(sends=0), "more_workloads.0: sends: input should be greater than or equal to 1, not"),
        (echo(send=1), "more_workloads.0: send: there is no such key; did you mean sends?"),
        ({"kind": "echo"}, "more_workloads.0: there: is missing"),
        (echo(topics=["b"]), "topics: remove it; this workload writes to a"),
        (echo(there="c"), "workload echo: there is no topic c"),
        ({"kind": "eco"}, "there is no kind 'eco'; did you mean echo?"),
        ({"kind": "half"}, "half (highwater.workloads) of package ? cannot be used: Half has no"),
        ({"kind": "mute", "there": "a"}, "cannot be used: RuntimeError: not today"),
        ({"kind": "grouped", "there": "a"}, "the key group of Grouped has a fixed meaning in plan"),
        ({"kind": "longer", "there": "a"}, "Longer changes the key value_bytes of WorkloadKind"),
        ({"kind": "object"}, "is no subclass of WorkloadKind (harness.plans.workload_kind)"),
    ],
)
def test_wrong_entry_is_refused_with_one_sentence(entry: dict[str, Any], said: str) -> None:
    """It names the key, or what is wrong with the package."""
    with pytest.raises(PlanError) as refused:
        prepare(plan({"topics": ["b"]}, entry))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_simulated_world_cannot_have_it() -> None:
    """Its clients are real processes."""
    with pytest.raises(PlanError, match="a simulated cluster cannot run; choose another target"):
        prepare(plan({}, echo(), target="sim"))


def test_topic_that_loses_records_by_itself_is_refused() -> None:
    """Records that compaction removes would look lost, and copies have their output for
    themselves."""
    compacted = [{**TOPICS[0], "configs": {"cleanup.policy": "compact"}}, TOPICS[1]]
    with pytest.raises(PlanError, match="topic a is compacted"):
        prepare(plan({}, echo(), topics=compacted))
    copy = {"kind": "copy", "group": "g", "input": "b", "output": "a"}
    with pytest.raises(PlanError, match="writes to a, which is the output of copies"):
        prepare(plan({}, echo(), copy))


def test_kinds_are_listed_with_their_keys_and_problems() -> None:
    """What is wrong with each is said once."""
    found, problems = workload_kinds.kinds_of_others()
    assert list(found) == ["echo", "mute", "vague"]
    assert workload_kinds.keys_of(found["echo"]) == {
        "there": "Where the records are. (required)",
        "also": "Topics that are only read. (default [])",
        "sends": "How many sends. (default 5)",
    }
    assert len(problems) == 5
    assert "there is a group of highwater's own; give it another name" in problems[0]

"""The form that describes a test of a program, and the plan that it becomes."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.plans import plan as plans
from harness.plans import workload_topics
from harness.plans.app_plan import FAULTS, load, plan_of
from harness.plans.errors import PlanError
from harness.plans.plan import External, Plan
from harness.run.prepare import prepare

TEN_LINES = """
[app]
command = ["python", "app.py"]
instances = 2
[input]
topic = "orders"
[output]
topic = "bills"
[claims]
delivery = "exactly-once"
"""


def raw(text: str = TEN_LINES, **more: Any) -> dict[str, Any]:
    """The form, with other tables."""
    return {**tomllib.loads(text), **more}


def plan(form: dict[str, Any], **flags: Any) -> Plan:
    """The plan of a form in /work/bills.toml."""
    made = plan_of(form, Path("/work/bills.toml"), "bills.toml")
    return plans.build(made, where="bills.toml", flags=flags)


def test_ten_lines_make_a_whole_plan() -> None:
    """The rest has defaults that make sense, and the plan can be run."""
    made = plan(raw(), seed=1)
    assert made.name == "bills"
    [program] = workload_topics.programs(made)
    assert (program.directory, program.processing) == ("/work", "exactly-once")
    assert (program.sink.topic, program.sink.replication_factor) == ("bills", 3)
    assert made.workload.payload == "text"
    [topic] = made.topics
    assert (topic.name, topic.acks, topic.idempotence) == ("orders", -1, True)
    assert made.nemesis.faults == FAULTS
    prepared = prepare(made)
    hit = {e.params["instance"] for e in prepared.schedule.events if e.fault.startswith("app.")}
    assert hit == {"1", "2"}


def test_plan_can_be_stored_and_read_again() -> None:
    """As a replay does."""
    made = plan(raw(), seed=1)
    assert Plan.from_json(made.to_json(), "plan.json") == made


def test_one_node_has_one_replica() -> None:
    """Of the output, too."""
    made = plan(raw(cluster={"nodes": 1}, chaos={"faults": ["app.kill"]}), seed=1)
    [program] = workload_topics.programs(made)
    assert program.sink.replication_factor == 1
    assert (made.topics[0].replication_factor, made.topics[0].min_insync_replicas) == (1, 1)
    assert made.nodes == 1


def test_flags_replace_what_the_form_says() -> None:
    """Duration, system and faults."""
    made = plan(raw(), seed=1, duration_s=5.0, system="kafka", faults=["kill"])
    assert (made.duration_s, made.system, made.nemesis.faults) == (5.0, "kafka", ("kill",))


def test_paths_begin_at_the_form() -> None:
    """The program's directory; a file begins there."""
    form = raw(output={"file": "out.txt"})
    form["app"]["directory"] = "service"
    [program] = workload_topics.programs(plan(form))
    assert program.directory == "/work/service"
    assert program.sink.file == "/work/service/out.txt"


def test_scripted_faults_replace_the_mix() -> None:
    """All keys of a plan's [nemesis] may be given."""
    event = {"at_ms": 100, "fault": "app.kill", "duration_ms": 50, "params": {"instance": "2"}}
    made = plan(raw(chaos={"seconds": 9, "events": [event]}))
    assert made.duration_s == 9
    assert [each.fault for each in prepare(made).schedule.events] == ["app.kill"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"app": {"command": []}}, "app: command: give the program and its arguments, as in"),
        ({"app": {"image": "-v"}}, "app.image: "),
        ({"app": {"comand": ["x"]}}, "did you mean command"),
        ({"output": {}}, "give one of topic, file, sql and http, not none"),
        ({"output": {"topic": "a", "http": True}}, "not topic and http"),
        ({"output": {"sql": "sqlite:///a.db"}}, "sql and query go together"),
        ({"output": {"file": "a", "pattern": "("}}, "is no regular expression"),
        ({"claims": {"delivery": "twice"}}, "claims.delivery: "),
        ({"chaos": {"second": 3}}, "chaos.second: there is no such key"),
        ({"input": {"topic": "bills"}}, "its output bills is a topic of the plan"),
        (
            {"claims": {"delivery": "exactly-once", "ordered_by": "key"},
             "output": {"sql": "sqlite:///a.db", "query": "SELECT 1"}},
            "add ORDER BY",
        ),
        ({"chaos": {"faults": ["app.kil"]}}, "did you mean app.kill"),
    ],
)  # fmt: skip
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    """With the place, and what to do."""
    with pytest.raises(PlanError, match="bills") as caught:
        prepare(plan(raw(**change), seed=1))
    assert message in str(caught.value)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or no TOML."""
    with pytest.raises(PlanError, match=r"gone.toml: cannot be read .*docs/test-app.md"):
        load(tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("[app")
    with pytest.raises(PlanError, match="is no valid TOML"):
        load(tmp_path / "bad.toml")


def test_fault_of_a_program_needs_a_program() -> None:
    """Named, it is an error; a pattern leaves it out."""
    with pytest.raises(PlanError, match="the plan tests no program"):
        prepare(Plan(seed=1, nemesis=plans.Nemesis(faults=("app.kill",))))
    everything = prepare(Plan(seed=1, nodes=5, nemesis=plans.Nemesis(faults=("*",))))
    assert not any(e.fault.startswith("app.") for e in everything.schedule.events)


def test_external_cluster_is_not_broken_by_default() -> None:
    """Only the program is. The form's keys become those of a plan."""
    servers = {"bootstrap_servers": "a:1", "properties": {"sasl.password": "env:SECRET"}}
    made = plan(raw(cluster={"system": "external", "nodes": 1, **servers}), seed=1)
    assert made.external == External(**servers)
    assert made.nemesis.faults == ("app.kill", "app.pause")
    assert {event.fault for event in prepare(made).schedule.events} == {"app.kill", "app.pause"}


def test_cluster_may_have_its_control_plane_in_zookeeper() -> None:
    """With as many ZooKeeper nodes as the form says, and these are targets of faults."""
    chaos = {"mix": {"kill": {"targets": ["zookeeper:leader"]}}}
    made = plan(raw(cluster={"control_plane": "zookeeper", "zookeepers": 1}, chaos=chaos), seed=1)
    assert (made.control_plane, made.zookeepers) == ("zookeeper", 1)
    assert {e.targets for e in prepare(made).schedule.events} == {"zookeeper:leader"}
    assert plan(raw(), seed=1).control_plane == "quorum"
    with pytest.raises(PlanError, match="ZooKeeper nodes run only on target local"):
        prepare(plan(raw(cluster={"control_plane": "zookeeper", "target": "docker"}), seed=1))


def test_program_may_be_an_image() -> None:
    """Its directory and that of its output are in the container, too. Its clock stays right."""
    made = plan(raw(app={"image": "bills:1"}, output={"file": "/var/out/bills.txt"}), seed=1)
    [program] = workload_topics.programs(made)
    assert (program.image, program.command) == ("bills:1", ())
    assert program.shared == (Path("/work"), Path("/var/out"))
    assert workload_topics.image_of_program(made) == "bills:1"
    [inner] = workload_topics.programs(plan(raw(output={"file": "out.txt"}), seed=1))
    assert (inner.image, inner.shared) == (None, (Path("/work"),))
    faults = {"faults": ["app.kill", "app.clock"]}
    with pytest.raises(PlanError, match=r"app\.clock: the program runs in a container"):
        prepare(plan(raw(app={"image": "bills:1"}, chaos=faults), seed=1))
    prepare(plan(raw(chaos=faults), seed=1))


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"system": "external"}, 'system = "external" and bootstrap_servers go together'),
        ({"bootstrap_servers": "a:1"}, "go together: give both, or neither"),
        ({"properties": {"client.id": "x"}}, 'cluster.properties are for system = "external"'),
    ],
)
def test_external_cluster_and_its_address_go_together(cluster: dict[str, Any], said: str) -> None:
    """As in a plan, but in the words of the form."""
    with pytest.raises(PlanError) as refused:
        plan(raw(cluster=cluster))
    assert said in str(refused.value)
    assert str(refused.value).startswith("bills.toml: cluster")

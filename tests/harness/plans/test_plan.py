"""Plans: which ones are refused, with which error, and that all others survive a round trip."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.plans import plan as plans
from harness.plans.plan import Plan, PlanError, build, load, packaged
from harness.run.prepare import prepare
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability
from nemesis.schedule import from_json

BASE: dict[str, Any] = {"name": "test", "seed": 1, "duration_s": 20}
ZOOKEEPER = {"control_plane": "zookeeper"}
KILL = {"at_ms": 0, "fault": "kill", "duration_ms": 1_000}


def made(**changes: Any) -> Plan:
    """A small plan with some values replaced."""
    return build(BASE | changes, where="plan test")


def topic(**changes: Any) -> list[dict[str, Any]]:
    """The topics of a plan: one."""
    return [{"name": "t", "acks": "all"} | changes]


@pytest.mark.parametrize("name", packaged())
def test_packaged_plans_can_be_run_and_survive_a_round_trip(name: str) -> None:
    """Every plan that we ship passes its own checks and comes back from its JSON unchanged."""
    prepared = prepare(build(load(name), where=name))
    stored = json.loads(json.dumps(prepared.plan.to_json()))
    again = Plan.from_json(stored, "plan.json")
    assert again == prepared.plan
    assert prepare(again).schedule.to_json() == prepared.schedule.to_json()
    assert prepared.notes == ()


def test_first_light_is_the_default_and_has_what_it_shows() -> None:
    """Two kills of different leaders, one cut from its followers, a pause; one topic a mode."""
    prepared = prepare(build(load(None), where="first-light"))
    assert prepared.plan.name == "first-light"
    assert [(t.acks, t.idempotence) for t in prepared.plan.topics] == [
        (0, False),
        (1, False),
        (-1, True),
    ]
    kills = [e.targets for e in prepared.schedule.events if e.fault == "kill"]
    assert len(set(kills)) == len(kills) >= 2
    assert all(target.startswith("leader:") for target in kills)
    rest = {event.fault for event in prepared.schedule.events}
    assert {"partition.isolate-leader", "pause"} <= rest


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 0}, "nodes: input should be greater than or equal to 1, not 0"),
        ({"nodez": 3}, "nodez: there is no such key"),
        ({"target": "moon"}, "target: input should be 'local', "),
        (
            {"system": "moon"},
            "system: input should be 'nodes', 'kafka' or 'external'",
        ),
        ({"system": "kafka", "target": "sim"}, "system kafka cannot run in a simulated cluster"),
        (
            {"system": "kafka", "broker_module": "mine"},
            "broker_module mine is for the built-in broker",
        ),
        ({"topics": topic(acks=2)}, 'topics.0.acks: acks is 0, 1 or "all", not 2'),
        ({"topics": [{"acks": 1}]}, "topics.0.name: is missing"),
        ({"topics": []}, "topics: "),
        ({"topics": topic() * 2}, "topic t is there twice"),
        ({"nodes": 2}, "replication_factor 3 is more than the 2 nodes; lower it, or raise nodes"),
        ({"topics": topic(min_insync_replicas=4)}, "min_insync_replicas 4 is more than"),
        ({"topics": topic(acks=1, idempotence=True)}, 'idempotence needs acks = "all", not 1'),
        ({"workload": {"value_bytes": 8}}, "workload.value_bytes: "),
        ({"nemesis": {"faults": ["kil"]}}, "no fault 'kil' (did you mean kill?); faults are "),
        ({"nemesis": {"faults": ["kill"], "events": [KILL]}}, "keep the list of events or the"),
        (
            {"nemesis": {"faults": ["kill"], "targets": ["some"]}},
            "'some' is not a selector; sel",
        ),
        (
            {"nemesis": {"interval_ms": [5, 4]}},
            "nemesis.interval_ms: the range 5..4 runs back",
        ),
        ({"nemesis": {"burst": [3, 2], "faults": ["kill"]}}, "nemesis.burst: the range 3..2 runs"),
        ({"nemesis": {"faults": ["melt.*"]}}, "no fault matches 'melt.*'; faults are "),
        ({"nemesis": {"overlap": 0}}, "nemesis.overlap: input should be greater than or equal to"),
        ({"nemesis": {"quiet": {"every_ms": 9}}}, "nemesis.quiet.for_ms: is missing"),
        (
            {"nemesis": {"faults": ["kill"], "quiet": {"every_ms": 900, "for_ms": 1}}},
            "nemesis.quiet.every_ms 900 leaves no time for a fault of at least 2000 ms",
        ),
        ({"nemesis": {"mix": {"kil": {}}}}, "no fault 'kil' (did you mean kill?)"),
        (
            {"nemesis": {"mix": {"kill": {"weigth": 2}}}},
            "mix.kill.weigth: there is no such key",
        ),
        ({"nemesis": {"mix": {"kill": {"targets": ["some"]}}}}, "'some' is not a selector"),
        (
            {"nemesis": {"mix": {"kill": {"params": {"signal": 9}}}}},
            "mix.kill: there is no parameter 'signal'; parameters are none",
        ),
        (
            {"nemesis": {"mix": {"clock.drift": {"params": {"rate": [0.001, 2.0]}}}}},
            "mix.clock.drift: parameter rate is '0.001': it is clock seconds",
        ),
        (
            {"nemesis": {"mix": {"clock.jump": {"params": {"offset_ms": []}}}}},
            "mix.clock.jump.params.offset_ms: the list is empty; give it values",
        ),
        ({"nemesis": {"mix": {"kill": {}}, "events": [KILL]}}, "keep the list of events or the"),
        ({"nemesis": {"events": [KILL | {"name": "a"}] * 2}}, "two events are called a"),
        ({"nemesis": {"events": [KILL | {"until": "after:b"}]}}, "no other event is called b"),
        ({"nemesis": {"events": [KILL | {"nodes": [4]}]}}, "no node 4, only 1 to 3"),
        ({"nemesis": {"events": [KILL | {"at_ms": 19_500}]}}, "after the chaos phase"),
        ({"nemesis": {"events": [KILL | {"targets": "node:4"}]}}, "no node 4, only 1 to 3"),
        ({"nemesis": {"events": [KILL | {"targets": "leader:x/0"}]}}, "no partition x/0"),
        (
            {"nemesis": {"events": [KILL | {"until": "isr:acks-1/3 size 1"}]}},
            "no partition acks-1/",
        ),
        ({"nemesis": {"events": [KILL | {"until": "when ready"}]}}, "is not a condition"),
        ({"nemesis": {"events": [KILL | {"duration_ms": 0}]}}, "nemesis.events.0.duration_ms: "),
        ({"control_plane": "raft"}, "control_plane: "),
        ({"control_plane": "zookeeper", "zookeepers": 0}, "zookeepers: "),
        ({"control_plane": "zookeeper", "target": "sim"}, "cannot run in a simulated cluster"),
        ({"control_plane": "zookeeper", "target": "docker"}, "run only on target local"),
        (
            {"nemesis": {"events": [KILL | {"targets": "zookeeper:1"}]}},
            "there are no ZooKeeper nodes",
        ),
        (
            ZOOKEEPER | {"nemesis": {"events": [KILL | {"targets": "zookeeper:4"}]}},
            "no ZooKeeper node 4, only 1 to 3",
        ),
        (
            ZOOKEEPER | {"nemesis": {"events": [KILL | {"targets": "node:104"}]}},
            "no ZooKeeper node 4, only 1 to 3",
        ),
        (
            ZOOKEEPER | {"nemesis": {"mix": {"disk.bit-flip": {"targets": ["zookeeper:random"]}}}},
            "disk.bit-flip is for brokers and cannot hit a ZooKeeper node",
        ),
        (
            ZOOKEEPER | {"nemesis": {"faults": ["quorum.remove-voter"]}},
            "there is no metadata quorum",
        ),
    ],
)
def test_plan_with_one_mistake_is_refused_with_one_line(changes: dict[str, Any], said: str) -> None:
    """The error names the plan, the place, and what is wrong there."""
    with pytest.raises(PlanError) as caught:
        prepare(made(**changes))
    message = str(caught.value)
    assert message.startswith("plan test")
    assert said in message
    assert "\n" not in message


def test_a_fault_that_the_target_cannot_inject_is_refused_by_capability() -> None:
    """A strict plan is refused and the missing ability named; `auto` leaves the fault out."""
    asked = {"faults": ["kill", "partition.halves", "pause"]}
    lacks = {Ability.PACKET_DROPS: "nftables: modprobe nf_tables"}
    why = "it lacks packet-drops (nftables: modprobe nf_tables)"
    with pytest.raises(PlanError, match=re.escape(f"cannot inject partition.halves: {why}")):
        prepare(made(nemesis=asked), lacks=lacks)
    lenient = prepare(made(nemesis=asked | {"mode": "auto"}), lacks=lacks)
    assert lenient.notes == (f"partition.halves was left out: {why}",)
    assert {event.fault for event in lenient.schedule.events} <= {"kill", "pause"}


def test_settings_of_a_random_mix_are_read_from_toml(tmp_path: Path) -> None:
    """Weights, ranges of parameters, overlap, bursts and quiet periods come from the file."""
    path = tmp_path / "mix.toml"
    path.write_text(
        """
        name = "mix"
        seed = 3
        nodes = 5
        duration_s = 300

        [nemesis]
        faults = ["partition.*", "pause"]
        rate_per_min = 30
        overlap = 2
        burst = [1, 3]
        quiet = { every_ms = 60000, for_ms = 15000 }
        duration_ms = [1000, 4000]

        [nemesis.mix.kill]
        weight = 5
        targets = ["leader", "controller"]

        [nemesis.mix."clock.strobe"]
        params = { offset_ms = [50, 60], period_ms = 400 }
        """
    )
    plan = build(load(str(path)), where="mix")
    events = prepare(plan).schedule.events
    assert Plan.from_json(json.loads(json.dumps(plan.to_json())), "again") == plan
    names = [event.fault for event in events]
    assert names.count("kill") > 3 * names.count("pause") > 0
    assert {e.targets for e in events if e.fault == "kill"} == {"leader", "controller"}
    strobes = [event.params for event in events if event.fault == "clock.strobe"]
    assert {params["period_ms"] for params in strobes} == {"400"}
    assert all(50 <= int(params["offset_ms"]) <= 60 for params in strobes)
    assert not [e for e in events if e.at_ms % 75_000 >= 60_000]
    fewer = build(load(str(path)), where="mix", flags={"faults": ["kill", "pause"]})
    assert list(fewer.nemesis.mix) == ["kill"]


WRITTEN = """
end_ms = 8000

[[events]]
name = "first"
at_ms = 1000
fault = "pause"
duration_ms = 500

[[events]]
at_ms = 1000
fault = "clock.jump"
duration_ms = 500
params = { offset_ms = -3000 }
until = "after:first"
"""


def test_schedule_may_be_a_separate_file(tmp_path: Path) -> None:
    """The plan or a flag names the file; it is TOML, or the schedule.json of a run."""
    (tmp_path / "steps.toml").write_text(WRITTEN)
    (tmp_path / "plan.toml").write_text(
        'name = "mine"\nseed = 9\n[nemesis]\nschedule = "steps.toml"\n'
    )
    named = prepare(build(load(str(tmp_path / "plan.toml")), where="mine"))
    assert [event.name for event in named.schedule.events] == ["first", None]
    assert named.schedule.events[1].params == {"offset_ms": "-3000"}
    assert (named.plan.duration_s, named.schedule.seed) == (8.0, 9)
    stored = tmp_path / "schedule.json"
    stored.write_bytes(named.schedule.to_json())
    given = build(load("random"), where="random", flags={"schedule": stored, "nodes": 3})
    assert prepare(given).schedule.to_json() == stored.read_bytes()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("events = 3", "events: "),
        ("[[events]]\nfault = 'kill'\nat_ms = 0", "events.0.duration_ms: is missing"),
        ("[[events]]\nfualt = 'kill'", "events.0.fualt: there is no such key"),
        ("{", "the schedule is neither JSON nor TOML"),
        (None, "cannot be read (No such file"),
    ],
)
def test_schedules_that_cannot_be_read_are_refused(
    tmp_path: Path, content: str | None, said: str
) -> None:
    """The error names the file and the place."""
    path = tmp_path / "steps.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PlanError) as caught:
        build(load("quick"), where="quick", flags={"schedule": path})
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_fault_that_needs_more_nodes_is_refused() -> None:
    """A bridge between two nodes would be no fault."""
    changes = {
        "nodes": 2,
        "topics": topic(replication_factor=2),
        "nemesis": {"faults": ["partition.bridge"]},
    }
    with pytest.raises(PlanError, match="needs 3 nodes and there are 2"):
        prepare(made(**changes))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"\xff\xfe", "cannot be read (it is no text)"),
        (b"nodes = ", "is no valid TOML"),
    ],
)
def test_unreadable_files_are_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    """The error names the file and the reason."""
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PlanError) as caught:
        load(str(path))
    assert str(caught.value).startswith(f"plan {path}: ")
    assert said in str(caught.value)


def test_flags_replace_values_of_the_plan() -> None:
    """A flag that was not given changes nothing."""
    plan = build(
        load("first-light"),
        where="first-light",
        flags={
            "seed": 7,
            "duration_s": 10.0,
            "rate_per_s": 50.0,
            "faults": ["kill"],
            "acks": ["1", "all"],
            "nemesis": "auto",
            "nodes": None,
        },
    )
    assert (plan.seed, plan.duration_s, plan.workload.rate_per_s) == (7, 10.0, 50.0)
    assert plan.workload.producers == 2
    assert [topic.acks for topic in plan.topics] == [1, -1]
    assert plan.nemesis.mode == "auto"
    assert {event.fault for event in prepare(plan).schedule.events} == {"kill"}
    with pytest.raises(PlanError, match="no topic has the acks"):
        build({**BASE, "topics": topic()}, where="x", flags={"acks": ["0"]})


def test_a_plan_without_a_seed_gets_one() -> None:
    """Plans without a seed get different ones."""
    seeds = {build({"name": "x"}, where="x").seed for _ in range(5)}
    assert len(seeds) > 1


CLUSTER_FAULTS = sorted(name for name in FAULTS if not name.startswith("app."))


@given(st.integers(0, 2**40), st.sets(st.sampled_from(CLUSTER_FAULTS), min_size=1))
def test_a_replayed_schedule_is_the_stored_one(seed: int, faults: set[str]) -> None:
    """plan.json and schedule.json reproduce a run: same bytes, whatever the generator does."""
    plan = made(seed=seed, nodes=5, nemesis={"faults": sorted(faults)})
    stored = prepare(plan).schedule.to_json()
    again = prepare(Plan.from_json(plan.to_json(), "plan.json"), schedule=from_json(stored))
    assert again.schedule.to_json() == stored == prepare(plan).schedule.to_json()


def test_acks_minus_one_is_called_all() -> None:
    """-1 is the protocol's number for it."""
    assert [plans.acks_name(acks) for acks in (0, 1, -1)] == ["0", "1", "all"]


def test_expectations_are_part_of_the_plan() -> None:
    """They are validated and stored in one form; earlier plans' bounds become expectations."""
    raw = {"seed": 1, "expect": {"lost": {"acks-all": 0}, "stale_ms": "<= 9"}}
    made = build(raw, where="p", flags={"expect": ["lost.acks-1<=10"]})
    assert made.expect == ("lost.acks-all = 0", "stale_ms <= 9", "lost.acks-1 <= 10")
    assert Plan.from_json(made.to_json(), "p") == made
    once = {"seed": 1, "bounds": {"unavailable_ms": 900, "stale_ms": None}}
    assert build(once, where="p").expect == ("unavailable_ms <= 900",)


def test_expectations_of_topics_that_a_flag_leaves_out_are_removed() -> None:
    """An expectation that a flag adds stays, and is refused when no topic has its acks mode."""
    raw = {"seed": 1, "expect": ["lost.acks-all = 0", "lost.acks-1 <= 5", "failed = 0"]}
    made = build(raw, where="p", flags={"acks": ["1"]})
    assert made.expect == ("lost.acks-1 <= 5", "failed = 0")
    asked = build(raw, where="p", flags={"acks": ["1"], "expect": ["lost.acks-0 = 0"]})
    with pytest.raises(PlanError, match=r"expect lost.acks-0 = 0: no topic .* only acks=1"):
        prepare(asked)


@pytest.mark.parametrize(
    ("raw", "flags", "said"),
    [
        ({"expect": ["lots = 0"]}, {}, "p: expect: 'lots = 0': there is no quantity 'lots'"),
        ({"expect": 3}, {}, "p: expect: expected a table of quantities or a list"),
        ({"bounds": {"unavailable_ms": "long"}}, {}, "is not a number from 0 on"),
        ({"bounds": 3}, {}, "p: "),
        ({}, {"expect": ["lost"]}, "--expect 'lost' is not an expectation"),
    ],
)
def test_bad_expectations_are_refused_with_the_quantities(
    raw: dict[str, Any], flags: dict[str, Any], said: str
) -> None:
    """They are refused before anything starts."""
    with pytest.raises(PlanError) as caught:
        build({"seed": 1, **raw}, where="p", flags=flags)
    assert said in str(caught.value)


def test_only_the_own_client_sends_zombie_batches() -> None:
    """Other clients do not give their bytes away; in a simulated world every client is ours."""
    raw = {"seed": 1, "workload": {"zombie_batches": True}}
    with pytest.raises(PlanError, match=r"zombie_batches is only for client own.*librdkafka"):
        build(raw, where="plan")
    for changes in ({"target": "sim"}, {"workload": {"zombie_batches": True, "client": "own"}}):
        assert build({**raw, **changes}, where="plan").workload.zombie_batches


def test_plan_beside_the_quorum_is_written_as_before() -> None:
    """So its run has the same id and digest as in earlier versions."""
    assert not {"control_plane", "zookeepers"} & made().to_json().keys()
    assert not {"control_plane", "zookeepers"} & made(zookeepers=5).to_json().keys()
    written = made(**ZOOKEEPER, zookeepers=5).to_json()
    assert (written["control_plane"], written["zookeepers"]) == ("zookeeper", 5)
    assert Plan.from_json(written, "plan") == made(**ZOOKEEPER, zookeepers=5)


def test_cluster_of_others_has_its_own_control_plane() -> None:
    """What the harness does not start, it cannot put beside ZooKeeper."""
    external = {"system": "external", "external": {"bootstrap_servers": "k:9092"}}
    with pytest.raises(PlanError, match="system external has a control plane of its own"):
        prepare(made(**external, **ZOOKEEPER))


def test_zookeeper_nodes_take_part_in_a_random_mix() -> None:
    """They count for nothing in the majority of the brokers."""
    mix = {"kill": {"targets": ["zookeeper:random"]}, "pause": {"targets": ["zookeeper:leader"]}}
    events = prepare(made(**ZOOKEEPER, nemesis={"mix": mix, "overlap": 3})).schedule.events
    assert {event.targets for event in events} == {"zookeeper:random", "zookeeper:leader"}


def test_racks_are_names_and_not_for_clusters_of_others() -> None:
    """A rack name goes into a property of the node."""
    assert build({"seed": 1, "racks": ["a", "b"]}, where="plan").racks == ("a", "b")
    with pytest.raises(PlanError, match=r"racks\.0"):
        build({"seed": 1, "racks": ["a b"]}, where="plan")
    external = {"system": "external", "external": {"bootstrap_servers": "k:9092"}}
    with pytest.raises(PlanError, match="racks: whoever runs an external cluster"):
        build({"seed": 1, "racks": ["a"], **external}, where="plan")

"""Any data is either a valid plan or is refused with an error that names the key."""

import copy
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.plans.plan import Plan, PlanError, build, load
from harness.run.prepare import prepare

SCRIPTED: dict[str, Any] = {
    "name": "any",
    "seed": 1,
    "target": "local",
    "inventory": "machines.toml",
    "system": "nodes",
    "kafka_home": "/kafka",
    "nodes": 3,
    "broker_module": "nodes",
    "broker": {"num.network.threads": 3, "log.retention.ms": 60_000},
    "warmup_s": 1.0,
    "duration_s": 30.0,
    "start_timeout_s": 30.0,
    "settle_timeout_s": 30.0,
    "rotate_s": 10.0,
    "topics": [
        {
            "name": "orders",
            "acks": "all",
            "partitions": 3,
            "replication_factor": 3,
            "min_insync_replicas": 2,
            "idempotence": True,
            "configs": {"retention.ms": "60000"},
        }
    ],
    "workload": {
        "client": "own",
        "producers": 1,
        "consumers": 1,
        "rate_per_s": 100.0,
        "value_bytes": 100,
        "max_in_flight": 5,
        "linger_ms": 1.0,
        "message_timeout_ms": 1000,
        "insists": True,
    },
    "expect": {"lost.acks-all": 0},
    "simulated": {"latency_ms": [0.1, 0.2], "jitter_ms": [0.1, 0.2], "sync_ms": [0.1, 0.2]},
    "nemesis": {
        "mode": "auto",
        "events": [
            {"name": "first", "at_ms": 1, "fault": "kill", "targets": "one", "duration_ms": 5},
            {
                "at_ms": 2,
                "fault": "clock.jump",
                "targets": "nodes:1",
                "duration_ms": 5,
                "params": {"offset_ms": "10"},
                "until": "fault:first took and isr:orders/0 size 2",
                "until_timeout_ms": 10,
                "nodes": [1],
            },
        ],
    },
}
MIXED = {
    **SCRIPTED,
    "nemesis": {
        "faults": ["kill", "partition.*"],
        "mix": {"kill": {"weight": 2, "targets": ["one"], "duration_ms": [1, 2], "params": {}}},
        "targets": ["one"],
        "interval_ms": [1000, 2000],
        "rate_per_min": 10.0,
        "duration_ms": [1000, 2000],
        "overlap": 1,
        "burst": [1, 1],
        "quiet": {"every_ms": 10_000, "for_ms": 1000},
        "majority": False,
    },
}
EXTERNAL = {
    **{name: value for name, value in SCRIPTED.items() if name not in ("nemesis", "broker")},
    "system": "external",
    "external": {"bootstrap_servers": "127.0.0.1:9092", "properties": {"client.id": "x"}},
}

Path_ = tuple[str | int, ...]


def places(found: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every key and every index of a list."""
    if isinstance(found, dict | list):
        for key, value in found.items() if isinstance(found, dict) else enumerate(found):
            yield (*path, key)
            yield from places(value, (*path, key))


def bent(raw: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """The plan with another value at that path."""
    made = copy.deepcopy(raw)
    within: Any = made
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = value
    return made


PLANS = (SCRIPTED, MIXED, EXTERNAL)
PLACES = [(raw, path) for raw in PLANS for path in places(raw)]
ODD = (
    0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e-300, 1e300,
    float("inf"), float("-inf"), float("nan"), True, False, "", "all", "abc", "x" * 100_000,
    "a\nlog.dirs=/etc", "\x00", "\x1b[31m", "[/red]", "../..", "*", "\ud800", [], [[]], [1], {},
    {"a": 1}, {"": {}}, [{}], [0, 0], ["one", 2], [float("inf"), float("inf")], [1e300, 1e301],
    [2**63, 2**64],
)  # fmt: skip

scalars = (
    st.integers()
    | st.floats()
    | st.booleans()
    | st.text()
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.sampled_from(ODD)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


def judge(raw: dict[str, Any], path: Path_, flags: dict[str, Any] | None = None) -> Plan | None:
    """The plan, or None when it is refused and the error names the key."""
    refusal, named = "", str(path[0])
    try:
        plan = build(raw, where="plan any", flags=flags)
        named = "plan"
        prepare(plan, lacks={})
    except PlanError as error:
        refusal = str(error)
    if refusal:
        assert named in refusal
        return None
    assert Plan.from_json(json.loads(json.dumps(plan.to_json())), "again").name == plan.name
    return plan


@pytest.mark.parametrize("raw", PLANS)
def test_plans_before_the_changes_are_valid(raw: dict[str, Any]) -> None:
    """Otherwise the other tests would show nothing."""
    raw = {name: value for name, value in raw.items() if name not in ("inventory", "kafka_home")}
    assert judge(raw, ("",)) is not None


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:30])
def test_odd_value_at_any_key_gives_a_plan_or_an_error_that_names_the_key(value: object) -> None:
    """Each odd value is tried at each key."""
    for raw, path in PLACES:
        judge(bent(raw, path, value), path)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), values)
def test_any_value_at_any_key_gives_a_plan_or_an_error_that_names_the_key(
    place: tuple[dict[str, Any], Path_], value: object
) -> None:
    """This holds with flags on top of the plan, too."""
    raw, path = place
    judge(bent(raw, path, value), path)
    flags = {"rate_per_s": 5.0, "faults": ["kill"], "bootstrap_servers": "localhost:9092"}
    judge(bent(raw, path, value), ("plan",), flags)


EVENT = {"at_ms": 0, "fault": "kill", "targets": "one", "duration_ms": 5}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {
                "nemesis": {
                    "events": [
                        {**EVENT, "name": "a", "until": "fault:b took"},
                        {**EVENT, "name": "b", "until": "controller is 1 and after:a"},
                    ]
                }
            },
            "event 0 (a), which waits for event 1 (b), which waits for event 0 (a)",
        ),
        (
            {"nemesis": {"events": [{**EVENT, "until": "isr:orders/0 size 99"}]}},
            "waits for 99 replicas of orders/0, which has replication_factor 3",
        ),
        (
            {"topics": [{"name": "orders", "acks": 1, "configs": {"retention.ms": "abc"}}]},
            "configs.retention.ms: Invalid value abc",
        ),
        (
            {"topics": [{"name": "orders", "acks": 1, "configs": {"retention.msec": "1"}}]},
            "configs.retention.msec: Unknown topic config",
        ),
        ({"broker": {"replica.lag.time.max.ms": "soon"}}, "replica.lag.time.max.ms"),
        ({"duration_s": 1e300}, "duration_s"),
        ({"duration_s": float("inf")}, "duration_s"),
        ({"nemesis": 3}, "nemesis: is a table"),
        ({"system": "external"}, "external.bootstrap_servers"),
    ],
)
def test_plan_that_could_never_work_is_refused_before_a_start(
    changes: dict[str, Any], said: str
) -> None:
    """The cluster is not started first."""
    raw = {
        "name": "any",
        "seed": 1,
        "duration_s": 10,
        "topics": [{"name": "orders", "acks": "all"}],
        **changes,
    }
    with pytest.raises(PlanError) as caught:
        prepare(build(raw, where="plan any"))
    assert said in str(caught.value)


def test_events_may_wait_for_one_another_in_a_chain() -> None:
    """A condition on a fault's name, which other events may meet, makes no circle."""
    events = [
        {**EVENT, "name": "a"},
        {**EVENT, "name": "b", "until": "fault:a took"},
        {**EVENT, "name": "c", "until": "after:b and after:kill"},
    ]
    raw = {"name": "any", "seed": 1, "duration_s": 10, "nemesis": {"events": events}}
    assert len(prepare(build(raw, where="plan any")).schedule.events) == 3


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "content", [f"x = {DEEP}", "x = " + "{a = " * 20_000, DEEP, "a." * 2_000 + "b = 1", "\x00"]
)
def test_files_nested_too_deeply_are_refused(tmp_path: Path, content: str) -> None:
    """This holds for plans and schedules, whatever else is wrong with them."""
    path = tmp_path / "deep.toml"
    path.write_text(content)
    with pytest.raises(PlanError, match=r"deep\.toml"):
        build(load(str(path)), where=f"plan {path}")
    with pytest.raises(PlanError, match=r"deep\.toml"):
        build(load("quick"), where="quick", flags={"schedule": path})


def exit_code(*arguments: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("name", ["plan.json", "run.json", "schedule.json"])
@pytest.mark.parametrize("content", [DEEP, "{" * 9, "1e999", "\x00", '{"topics": [[]]}'])
@pytest.mark.parametrize("command", [("check",), ("run", "--dry-run", "--replay"), ("report",)])
def test_stored_run_with_broken_files_is_refused_or_judged_without_a_crash(
    tmp_path: Path, name: str, content: str, command: tuple[str, ...]
) -> None:
    """The exit code is 254, or the one of the verdict on the rest of the run."""
    for each in ("plan.json", "run.json", "schedule.json"):
        (tmp_path / each).write_text("{}")
    (tmp_path / name).write_text(content)
    assert exit_code(*command, str(tmp_path)) in (0, 2, 254)


@pytest.mark.parametrize(
    "place", ["history/a.parquet", "history/a.arrows", "cluster.parquet", "plan.json", "run.json"]
)
def test_named_pipe_in_a_run_is_refused_without_waiting(tmp_path: Path, place: str) -> None:
    """A program that opens a pipe without a writer waits for ever."""
    (tmp_path / "history").mkdir()
    told = {"run_id": "r", "started_wall_ns": 1, "monotonic_base_ns": 1}
    for name, content in {"plan.json": {}, "run.json": told}.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / place).unlink(missing_ok=True)
    os.mkfifo(tmp_path / place)
    for command in ("check", "report", "analyze"):
        assert exit_code(command, str(tmp_path)) == 254


def test_stored_plan_with_millions_of_partitions_is_refused_at_once(tmp_path: Path) -> None:
    """The number is checked before anything of that size is made."""
    plan = {"topics": [{"name": "t", "acks": 1, "partitions": 99_999_999}]}
    told = {"run_id": "r", "started_wall_ns": 1, "monotonic_base_ns": 1}
    for name, content in {"plan.json": plan, "run.json": told}.items():
        (tmp_path / name).write_text(json.dumps(content))
    began_s = time.process_time()
    assert exit_code("check", str(tmp_path)) == 254
    assert time.process_time() - began_s < 30

"""Repeating a run: byte for byte, or on the nodes that the stored run hit."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from harness.plans import repeat
from harness.plans.plan import PlanError, build
from harness.recording import store
from harness.run.prepare import Prepared, prepare

NOTHING: dict[str, Any] = {"seed": None, "broker_module": None}


def stored(tmp_path: Path, rows: list[dict[str, Any]] | None) -> tuple[Path, Prepared]:
    """Store a run with a schedule of three events, and the records of its faults."""
    kill = {"fault": "kill", "targets": "leader:t/0", "duration_ms": 100}
    raw = {
        "name": "then",
        "seed": 1,
        "topics": [{"name": "t", "acks": 1}],
        "nemesis": {"events": [kill | {"at_ms": at_ms} for at_ms in (0, 1_000, 2_000)]},
    }
    prepared = prepare(build(raw, where="then"))
    run = store.create(tmp_path, "then", versions={}, commit=None)
    run.write_json("plan.json", prepared.plan.to_json())
    (run.path / "schedule.json").write_bytes(prepared.schedule.to_json())
    if rows is not None:
        run.write_table("faults", rows)
    return run.path, prepared


def row(number: int, **targets: object) -> dict[str, Any]:
    """The record of one fault."""
    return {
        "fault_id": number,
        "fault": "kill",
        "targets": json.dumps({"asked": "leader:t/0", **targets}),
        "took_effect": True,
    }


def test_run_is_repeated_byte_for_byte(tmp_path: Path) -> None:
    """Plan and schedule are the same; a flag may name another broker."""
    path, then = stored(tmp_path, None)
    plan, schedule = repeat.load(path, None, NOTHING)
    assert plan == then.plan
    assert schedule.to_json() == then.schedule.to_json()
    other, _ = repeat.load(path, None, NOTHING | {"broker_module": "harness.zoo.mutants.one"})
    assert other == plan.model_copy(update={"broker_module": "harness.zoo.mutants.one"})
    with pytest.raises(PlanError, match="takes no other plan; leave out the flag for seed"):
        repeat.load(path, None, NOTHING | {"seed": 4})


def test_a_run_of_another_python_may_take_another_course(tmp_path: Path) -> None:
    """A warning names both versions; the third number makes no difference."""
    here, minor = platform.python_version(), ".".join(platform.python_version_tuple()[:2])
    for number, then in enumerate((here, f"{minor}.99", None)):
        versions = {} if then is None else {"python": then}
        run = store.create(tmp_path / str(number), "then", versions=versions, commit=None)
        assert repeat.of_another_python(run.path) is None
    run = store.create(tmp_path, "then", versions={"python": "3.10.4"}, commit=None)
    warning = repeat.of_another_python(run.path)
    assert warning is not None
    assert f"with Python 3.10.4. This is {here}" in warning
    assert warning.endswith("use Python 3.10")
    assert repeat.of_another_python(tmp_path / "nowhere") is None


def test_resolved_hits_the_nodes_of_the_stored_run(tmp_path: Path) -> None:
    """The record of faults names them; an event that hit no node is left out."""
    rows = [row(0, meant=[2], nodes=[2]), row(1), row(2, meant=[3, 1], nodes=[3])]
    path, then = stored(tmp_path, rows)
    _, schedule = repeat.load(path, None, NOTHING, resolved=True)
    assert [(event.id, event.nodes) for event in schedule.events] == [(0, (2,)), (2, (3, 1))]
    assert prepare(then.plan, schedule=schedule).schedule == schedule


@pytest.mark.parametrize(
    ("rows", "said"), [(None, "it has no record of faults"), ([row(0)], "no fault hit a node")]
)
def test_resolved_without_recorded_nodes_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]] | None, said: str
) -> None:
    """The error says what to do instead."""
    path, _ = stored(tmp_path, rows)
    with pytest.raises(PlanError, match=said) as caught:
        repeat.load(path, None, NOTHING, resolved=True)
    assert "leave out --resolved" in str(caught.value)

"""Plans in simulated worlds: whole runs, repeatable, stored as any other."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judging import judge
from harness.plans.plan import Plan
from harness.run import prepare
from harness.simulation.recording import Recording
from harness.simulation.run import ADDED_LATER, MAX_MORE_TIMES, Simulation
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability
from tests.support.simulation.plans import KILLS, prepared, quiet, small
from tests.support.tiers import in_turn, share

PHASES = [
    "deploy",
    "create topics",
    "warm up",
    "chaos",
    "heal",
    "recover",
    "stop workload",
    "settle",
    "final reads",
    "collect",
]


def test_run_without_faults_finishes_all_phases() -> None:
    """Each send is acknowledged and read back."""
    recording = quiet()
    assert (recording.failure, recording.notes, recording.troubles) == (None, [], [])
    assert recording.finished == PHASES
    assert recording.facts["settled"]
    assert recording.facts["final_reads_complete"]
    rows = [row for history in recording.histories for row in history.rows]
    sent = {row[8] for row in rows if row[2] == "send" and row[3] == "ok"}
    read = {row[8] for row in rows if row[2] == "final-read"}
    assert len(sent) > 40
    assert sent == read
    assert {row[2] for row in rows} >= {"poll", "watermark", "start", "end"}


def test_stored_run_is_judged_from_its_directory(tmp_path: Path) -> None:
    """The verdict has the fault, its cause and the metadata decisions."""
    recording = Simulation(prepared(nemesis=KILLS), keep_logs=True).run()
    run = recording.store(tmp_path, versions={}, commit=None)
    verdict = judge.check(run.path)
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    assert judge.write_report(run.path).is_file()
    [fault] = recording.faults.named()
    assert fault["took_effect"]
    assert "runs" in fault["healing"]
    assert (run.node_dir(1) / "server.properties").is_file()
    assert any("metadata-log" in str(row) for row in verdict["detectors"]) or verdict["detectors"]
    said = (run.node_dir(1) / "node.log").read_text()
    assert "INFO nodes" in said


def everything_of(recording: Recording) -> tuple[object, ...]:
    return (
        recording.digest,
        recording.events,
        [history.rows for history in recording.histories],
        recording.cluster.rows,
        recording.faults.rows,
    )


def test_equal_seeds_give_equal_runs() -> None:
    """An earlier run in the process changes nothing; another seed gives another run."""
    one = Simulation(prepared(nemesis=KILLS)).run()
    other = Simulation(prepared(nemesis=KILLS, seed=2)).run()
    again = Simulation(prepared(nemesis=KILLS)).run()
    assert everything_of(one) == everything_of(again)
    assert one.digest != other.digest


def test_digest_is_equal_with_and_without_invariants() -> None:
    """A run has the same trace whether anybody looks at its nodes or not."""
    assert Simulation(prepared(), invariants=False).run().digest == quiet().digest


def test_digest_is_equal_with_and_without_kept_logs() -> None:
    """With the nodes' logs or without."""
    assert Simulation(prepared(), keep_logs=True).run().digest == quiet().digest


@pytest.mark.parametrize("hash_seed", [1, 77])
def test_run_does_not_depend_on_the_hash_seed(hash_seed: int) -> None:
    """In another process strings hash differently, and objects have other addresses."""
    code = "from tests.support.simulation.plans import quiet; print(quiet().digest)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PADDING": "x" * hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == quiet().digest


@pytest.mark.parametrize(("grows", "settled"), [(2, True), (0, False), (9, False)])
def test_time_to_settle_begins_anew_while_replicas_catch_up(
    monkeypatch: pytest.MonkeyPatch, grows: int, settled: bool
) -> None:
    """Once it took longer than the plan's time over a slow network, and was called stuck."""
    simulation, asked = Simulation(prepared()), list[bool]()

    def problems(*, quiet: bool) -> list[str]:
        asked.append(quiet)
        return [] if settled and len(asked) > grows else ["out of sync"]

    monkeypatch.setattr(simulation, "_cluster_problems", problems)
    at = (0, "log/t-0")
    monkeypatch.setattr(simulation, "_log_ends", lambda: {at: (5, min(len(asked), grows))})
    assert (simulation._problems_at_rest() == []) is settled
    assert len(asked) == min(grows, MAX_MORE_TIMES) + 1


def test_failed_phase_is_named_in_the_recording() -> None:
    """What was recorded until then stays."""
    topics = [{"name": "t", "acks": -1, "configs": {"no.such.config": "1"}}]
    ready = replace(prepared(), plan=small(topics=topics))
    recording = Simulation(ready).run()
    assert recording.failure is not None
    assert recording.facts["failed_phase"] == "create topics"
    assert recording.finished == ["deploy"]


ABSENT = {Ability.MACHINE_POWER, Ability.PROGRAM_SIGNALS}
POSSIBLE = {name: fault for name, fault in FAULTS.items() if not fault.needs & ABSENT}
"""A world has no hypervisor, and no program of a user."""
PARAMS = {"request-delayed": {"api": "Produce"}, "elect": {"topic": "acks-all"}}
LASTING = {"disk.stale-copy": 6_000, "cut.flapping": 5_000, "crash-loop": 5_000}
APART_MS = 14_000


PARTS = 4


def script(names: Sequence[str]) -> Plan:
    """These faults, one after the other; leaders move before one is elected."""
    events: list[dict[str, object]] = [
        {
            "at_ms": 1_000 + number * APART_MS,
            "fault": name,
            "duration_ms": LASTING.get(name, 3_000),
            "targets": "node:4" if POSSIBLE[name].selectable else POSSIBLE[name].default_selector,
            "params": PARAMS.get(name, {}),
        }
        for number, name in enumerate(names)
    ]
    if "elect" in names:
        moves_ms = max(0, APART_MS * names.index("elect") - 4_000)
        leader = "leader:acks-all/1"
        events.append({"at_ms": moves_ms, "fault": "kill", "duration_ms": 2_500, "targets": leader})
    return small(
        nodes=5,
        duration_s=len(names) * APART_MS / 1000,
        settle_timeout_s=60,
        nemesis={"events": events},
        workload={"client": "own", "producers": 1, "rate_per_s": 2},
        simulated={"compacting_producers": 1},
        broker={"log.cleaner.backoff.ms": "300"},
    )


@pytest.mark.parametrize(
    "part",
    in_turn(
        "harness/simulation/test_run.py::test_each_simulated_fault_takes_effect_and_is_healed",
        range(PARTS),
        of=PARTS,
    ),
)
def test_each_simulated_fault_takes_effect_and_is_healed(part: int) -> None:
    """The proofs are those of real machines: the world's counts."""
    names = share(list(POSSIBLE), PARTS, part)
    recording = Simulation(prepare.prepare(script(names)), invariants=False).run()
    assert recording.failure is None
    rows = {row["fault"]: row for row in recording.faults.named()}
    assert set(rows) == {*names, *(["kill"] if "elect" in names else [])}
    futile = {
        name: row["error"] or row["effect"] for name, row in rows.items() if not row["took_effect"]
    }
    unhealed = {name: row["error"] for name, row in rows.items() if row["healed_ns"] is None}
    assert (futile, unhealed) == ({}, {})


def test_keys_that_a_plan_does_not_use_leave_its_payloads_as_they_were() -> None:
    """A key that was added later must not change the digest of the runs before it."""
    made = prepared()
    without = made.plan.to_json()
    for key in (
        *("compacting_producers", "impatient_producers", "offset_keepers"),
        *("repeats", "pauses", "broker_keys", "unusual_producers"),
        *("failover_at_end", "administration_at_end"),
    ):
        del without["simulated"][key]
    for key in ("topics", "client_command", "payload"):
        del without["workload"][key]
    del without["more_workloads"]
    text = json.dumps(without, sort_keys=True).encode() + made.schedule.to_json()
    expected = hashlib.blake2b(text, digest_size=8).hexdigest()
    assert Simulation(made).recording.run_id == expected
    uses = prepared(simulated={"compacting_producers": 1})
    assert Simulation(uses).recording.run_id != expected


def test_key_of_a_workload_that_a_plan_does_not_use_leaves_its_payloads_as_they_were() -> None:
    """The same of keys that further workloads got later."""
    topic = {"name": "keys", "acks": "all", "configs": {"cleanup.policy": "compact"}}
    workload = {"kind": "compacted", "client": "own", "topics": ["keys"]}
    ids = []
    for passes in ({}, {"passes_every_s": 0}, {"passes_every_s": 1}):
        made = prepared(topics=[topic], workload=[{**workload, **passes}])
        ids.append(Simulation(made).recording.run_id)
        without = made.plan.to_json()
        [each] = without["more_workloads"]
        del each["client_command"], each["passes_every_s"]
    assert ids[0] == ids[1] != ids[2]
    for section, key in ADDED_LATER:
        del without[section][key]
    text = json.dumps(without, sort_keys=True).encode() + made.schedule.to_json()
    assert hashlib.blake2b(text, digest_size=8).hexdigest() == ids[0]

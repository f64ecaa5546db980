"""Seeds of a plan: clean ones, broken brokers, processes, and what they say."""

import json
import tracemalloc
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judging import judge
from harness.plans.plan import PlanError
from harness.simulation import summary
from harness.simulation.campaign import (
    Campaign,
    Result,
    Seeds,
    Task,
    _result_of,
    apply_broker_module,
    run_seed,
)
from harness.simulation.world.world import HostDead
from nodes.replication.partition import PartitionState
from tests.support.simulation.plans import KILLS, TOPICS, small
from tests.support.tiers import at_turn

IDLE_SEED = 1
"""It draws nothing that begins within half a second."""
MUTANT = "harness.zoo.mutants.ack_before_replication"
CUT_OFF = {
    "events": [
        {
            "at_ms": 500,
            "fault": "partition.isolate-leader",
            "targets": "leader:acks-all/0",
            "duration_ms": 4_000,
        }
    ]
}


def test_clean_seed_is_not_judged_and_leaves_no_files(tmp_path: Path) -> None:
    """The screen alone decides."""
    result = run_seed(Task(plan=small(nemesis=KILLS, topics=TOPICS[1:]), root=tmp_path), 3)
    assert (result.outcome, result.screened, result.run) == ("VALID", True, None)
    assert result.acked > 20
    assert result.met["fault kill"] == 1
    assert result.met["new leader"] >= 1
    assert list(tmp_path.iterdir()) == []


def test_kept_run_is_judged_and_stays(tmp_path: Path) -> None:
    """The run directory has the nodes' log lines."""
    result = run_seed(Task(plan=small(), root=tmp_path, keep=True), 3)
    assert (result.outcome, result.screened) == ("VALID", False)
    assert result.run is not None
    assert (result.run / "nodes" / "1" / "node.log").is_file()
    assert (result.run / "verdict.json").is_file()


def test_failed_expectation_gives_unmet(tmp_path: Path) -> None:
    """The checkers judge such a seed, because the screen measures nothing."""
    expect = ["lost.acks-all = 0", "publish_p99_ms <= 0"]
    result = run_seed(Task(plan=small(expect=expect), root=tmp_path), 3)
    assert (result.outcome, result.screened) == ("UNMET", False)
    assert result.reasons[0].startswith("EXPECTATION FAILED: publish_p99_ms <= 0, measured")
    assert result.run is not None
    total = summary.CampaignSummary()
    total.add(result)
    assert total.exit_code == 1
    met = small(expect=expect[:1])
    assert run_seed(Task(plan=met, root=tmp_path), 3).outcome == "VALID"


def test_early_acknowledgement_is_found_without_any_fault(tmp_path: Path) -> None:
    """No client can see it, because nothing is lost."""
    early = small(broker_module=MUTANT)
    result = run_seed(Task(plan=early, root=tmp_path), 1)
    assert (result.outcome, result.signs) == ("INVALID", ("acknowledged-is-committed",))
    unseen = run_seed(Task(plan=early, root=tmp_path, invariants=False), 1)
    assert unseen.outcome == "VALID"


def _stays_out(*_: object) -> None:
    """A leader that never asks for a larger ISR."""


@pytest.mark.parametrize("invariants", [True, False])
def test_healed_cluster_that_does_not_settle_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invariants: bool
) -> None:
    """Nothing was damaged, so all replicas must be in sync again, and clients see whether they are.
    The whole run is recorded.
    """
    monkeypatch.setattr(PartitionState, "grown_isr", _stays_out)
    plan = small(nemesis=KILLS, settle_timeout_s=5)
    result = run_seed(Task(plan=plan, root=tmp_path, invariants=invariants), 3)
    assert (result.outcome, result.signs) == ("INVALID", ("settles",))
    assert result.run is not None
    facts = json.loads((result.run / "run.json").read_text())
    assert "collect" in facts["finished"]
    assert "has in-sync replicas [1, 3] of [1, 2, 3]" in facts["broken_invariant"]["sentence"]


def test_cluster_that_lost_power_must_settle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes come back, and agree on what is left."""
    events = [{"at_ms": 500, "fault": "power-loss", "targets": "node:1", "duration_ms": 2_000}]
    plan = small(nemesis={"events": events}, settle_timeout_s=5)
    assert run_seed(Task(plan=plan, root=tmp_path), 3).outcome == "VALID"
    monkeypatch.setattr(PartitionState, "grown_isr", _stays_out)
    result = run_seed(Task(plan=plan, root=tmp_path), 3)
    assert (result.outcome, result.signs) == ("INVALID", ("settles",))


@pytest.mark.parametrize("invariants", [True, False])
def test_cluster_with_damaged_disks_may_stay_unsettled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invariants: bool
) -> None:
    """Such a run is UNKNOWN, as with real processes."""
    monkeypatch.setattr(PartitionState, "grown_isr", _stays_out)
    events = [{"at_ms": 500, "fault": "disk.lost", "targets": "node:1", "duration_ms": 2_000}]
    plan = small(nemesis={"events": events}, settle_timeout_s=5)
    task = Task(plan=plan, root=tmp_path, invariants=invariants)
    assert run_seed(task, 3).outcome == "UNKNOWN"


def test_broken_broker_is_invalid_by_what_clients_saw(tmp_path: Path) -> None:
    """The unmodified broker is VALID."""
    workload = {"client": "own", "rate_per_s": 20}
    plan = small(nemesis=CUT_OFF, broker_module=MUTANT, workload=workload)
    result = run_seed(Task(plan=plan, root=tmp_path, invariants=False), 1)
    assert result.outcome == "INVALID"
    assert "lost-write" in result.signs
    assert result.run is not None
    sound = plan.model_copy(update={"broker_module": "nodes"})
    assert run_seed(Task(plan=sound, root=tmp_path), 1).outcome == "VALID"


def test_broken_invariant_is_invalid_and_the_run_is_judged(tmp_path: Path) -> None:
    """At the event that broke it, although no client has seen anything wrong yet; the run is judged
    and drawn as any other, now and whenever somebody asks again.
    """
    event = {"at_ms": 500, "fault": "kill", "targets": "followers:acks-all/0", "duration_ms": 4_000}
    module = "harness.zoo.mutants.isr_of_one"
    plan = small(nodes=5, nemesis={"events": [event]}, broker_module=module)
    result = run_seed(Task(plan=plan, root=tmp_path), 1)
    assert (result.outcome, result.signs) == ("INVALID", ("commits-with-enough",))
    assert "ISR of [" in result.reasons[0]
    assert result.run is not None
    assert (result.run / "report.html").is_file()
    stored = json.loads((result.run / "verdict.json").read_text())
    again = judge.check(result.run)
    assert again["anomalies"] == stored["anomalies"]
    [found] = [each for each in again["anomalies"] if each["kind"] == "commits-with-enough"]
    assert result.simulated_s == found["examples"][0]["complete_ns"] / 1e9


def test_broker_module_without_apply_is_a_plan_error() -> None:
    """A module that only starts a node cannot patch the brokers of this process."""
    with (
        pytest.raises(PlanError, match="cannot be simulated"),
        apply_broker_module("tests.harness"),
    ):
        pass
    with (
        pytest.raises(PlanError, match="cannot be simulated"),
        apply_broker_module("no.such.module"),
    ):
        pass


def test_swarm_seed_without_effective_faults_is_idle(tmp_path: Path) -> None:
    """It is not IDLE if something else is wrong, or if the faults are the plan's own."""
    task = Task(plan=small(duration_s=0.5, topics=TOPICS[1:]), root=tmp_path, seeds_are_swarms=True)
    result = run_seed(task, IDLE_SEED)
    assert (result.outcome, result.run) == ("IDLE", None)
    assert "0 of" in result.reasons[0]
    assert run_seed(replace(task, keep=True), IDLE_SEED).run is not None


@pytest.mark.slow
@at_turn(
    1,
    2,
    "harness/simulation/test_command.py::test_equal_seeds_have_equal_digests_and_a_kept_run_repeats",
)
def test_results_are_equal_in_one_process_and_in_many(tmp_path: Path) -> None:
    """Equal seeds have equal digests in any process, after any other seed."""
    task = Task(plan=small(nemesis=KILLS), root=tmp_path, seeds_are_swarms=True)
    many = {each.seed: each for each in Campaign(Seeds(task, range(1, 7)), jobs=2).results()}
    assert sorted(many) == [1, 2, 3, 4, 5, 6]
    for seed in (6, 2):
        assert run_seed(task, seed).digest == many[seed].digest


def test_stopped_campaign_begins_no_more_seeds(tmp_path: Path) -> None:
    """It starts no process."""
    campaign = Campaign(Seeds(Task(plan=small(), root=tmp_path), range(1000)), jobs=1)
    campaign.stop()
    assert list(campaign.results()) == []
    late = Campaign(Seeds(Task(plan=small(), root=tmp_path), range(1000)), jobs=1)
    assert list(late.results(until_s=0.0)) == []


def test_campaign_names_the_seeds_that_still_run(tmp_path: Path) -> None:
    """Whoever stops it knows what it waits for."""
    campaign = Campaign(Seeds(Task(plan=small(), root=tmp_path), range(1, 4)), jobs=2)
    assert campaign.begun == []
    missing = {1, 2, 3}
    for result in campaign.results():
        missing.remove(result.seed)
        assert set(campaign.begun) == missing
    assert not missing


def test_single_process_runs_no_seed_after_the_campaign_was_stopped(tmp_path: Path) -> None:
    """No seed waits for it."""
    campaign = Campaign(Seeds(Task(plan=small(), root=tmp_path), range(1, 1000)), jobs=1)
    seen = []
    for result in campaign.results():
        seen.append(result.seed)
        campaign.stop()
    assert seen == [1]


@pytest.mark.parametrize(
    ("text", "found"), [("7", range(7, 8)), ("1..3", range(1, 4)), ("5..5", range(5, 6))]
)
def test_seeds_are_parsed_as_ranges(text: str, found: range) -> None:
    """Both ends belong to the range."""
    assert summary.seeds(text) == found


def test_endless_seeds_cost_no_memory(tmp_path: Path) -> None:
    """A list of them once took more memory than the machine had."""
    tracemalloc.start()
    try:
        Campaign(Seeds(Task(plan=small(), root=tmp_path), summary.seeds("1..")), jobs=1)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_open_range_of_seeds_is_endless() -> None:
    """The time limit ends it."""
    assert len(summary.seeds("1..")) >= summary.ENDLESS - 1


@pytest.mark.parametrize("text", ["", "a", "3..1", "1..b", "-1..2", "1.5"])
def test_malformed_seeds_are_a_plan_error(text: str) -> None:
    """The message says how to write seeds."""
    with pytest.raises(PlanError, match=r"write A\.\.B"):
        summary.seeds(text)


def test_gravest_outcome_decides_the_exit_code() -> None:
    """INVALID before a failure of the harness, that before UNKNOWN; IDLE only if all seeds are."""
    total = summary.CampaignSummary()
    total.add(Result(seed=1000, outcome="IDLE", digest="i"))
    assert total.exit_code == 2
    for outcome, code in (("VALID", 0), ("UNKNOWN", 2), ("FAILED", 255), ("INVALID", 1)):
        total.add(Result(seed=code, outcome=outcome, digest=str(code), met=Counter({"x": 1})))
        assert total.exit_code == code
    assert total.met["x"] == 4
    assert "1 INVALID, 1 FAILED, 1 UNKNOWN, 1 VALID, 1 IDLE" in total.line()


def test_failure_text_has_the_replay_command() -> None:
    """It has the outcome, all reasons, the drawn options, the run directory and the command."""
    result = Result(
        seed=4,
        outcome="INVALID",
        reasons=("1 lost", "2 duplicated"),
        run=Path("r"),
        drawn="nodes = 3",
    )
    said = summary.failure(result, ["highwater", "simulate", "--seeds", "4..4"])
    assert said.splitlines() == [
        "seed 4 INVALID: 1 lost",
        "  also    2 duplicated",
        "  drawn   nodes = 3",
        "  run     r",
        "  replay  highwater simulate --seeds 4..4",
    ]


def test_seed_whose_simulation_fails_is_told_and_others_go_on() -> None:
    """HostDead is no Exception: it once ended the search without a word of the seed (96079)."""
    failed: Future[Result] = Future()
    failed.set_exception(HostDead("node-4"))
    assert _result_of(failed, 7) == Result(
        seed=7, outcome="FAILED", reasons=("HostDead('node-4')",)
    )
    told: Future[Result] = Future()
    told.set_result(Result(seed=8, outcome="VALID"))
    assert _result_of(told, 8).outcome == "VALID"

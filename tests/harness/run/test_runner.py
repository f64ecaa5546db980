"""The order of phases and what survives a failure, with fakes; and one real run."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judging import judge
from harness.plans.plan import PlanError, build
from harness.recording import journal, store
from harness.recording.journal import Journal
from harness.run import runner as runner_module
from harness.run import teardown as endings
from harness.run.prepare import Prepared, prepare
from harness.run.runner import Runner, RunOutcome
from harness.run.teardown import EndOptions
from harness.systems import choose
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.systems.refused_starts import RefusedStarts
from harness.targets import kinds
from harness.workloads.clients.access import OPEN
from nemesis.faults.fault import Ability
from nemesis.record import FaultRecord
from tests.support.nemesis.fakes import FakeMachines, FakeProcesses, FakeView, Trace
from tests.support.require import require
from tests.support.tiers import at_turn

VERDICT = {"verdict": "VALID", "reasons": [], "topics": []}


class Lab:
    """What the fakes share: the calls made, which of them fails, and what happens meanwhile."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing = ""
        self.reacting: Mapping[str, Callable[[], None]] = {}
        self.machines = FakeMachines(Trace())
        self.processes = self.machines.processes
        self.unsettled: list[str] = []
        self.left_out: list[int] = []
        self.client_problems: list[str] = []
        self.deaths: list[tuple[int, int | None]] = []

    def call(self, name: str) -> None:
        """Note a call; fail or react where told to."""
        self.calls.append(name)
        self.reacting.get(name, lambda: None)()
        if name == self.failing:
            raise OSError(f"{name} is broken")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """The runner's world replaced: machines, brokers, clients, monitor, checkers."""
    lab = Lab()

    class Target(FakeProcesses):
        links, disks, clocks = lab.machines.links, lab.machines.disks, lab.machines.clocks
        clients = lab.machines.clients
        power = lab.machines.power

        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(lab.machines, (1, 2, 3))
            lab.processes = self

        def up(self) -> None:
            lab.call("up")

        def down(self) -> None:
            lab.call("down")

        def exit_code(self, node: int) -> int:
            return 1

        def take_unexpected_exits(self) -> Sequence[tuple[int, int | None]]:
            taken, lab.deaths = lab.deaths, []
            return taken

        @contextmanager
        def in_client_netns(self) -> Iterator[None]:
            yield

    class System:
        bootstrap = "nowhere:9092"
        access = OPEN
        brokers: Mapping[int, Any] = {}
        controllers: Mapping[int, Any] = {}
        zookeepers: Mapping[int, Any] = {}

        def __init__(self, *_: object) -> None: ...

        def configure(self) -> None:
            lab.call("configure")

        def start(self) -> None:
            lab.call("start")

        def create_topics(self) -> None:
            lab.call("create topics")

        def clean_up(self) -> list[str]:
            return []

        def output(self, node: int) -> Path:
            return tmp_path / f"{node}.log"

        def stop(self) -> list[int]:
            lab.call("stop nodes")
            return []

        def collect(self, *_: object, except_nodes: Sequence[int]) -> None:
            lab.left_out = list(except_nodes)
            lab.call("collect")

    class Monitor(FakeView):
        def __init__(self, **_: object) -> None:
            super().__init__()
            self.quorum_times = QuorumTimes()

        def start(self) -> None:
            lab.call("monitor")

        def stop(self) -> None: ...

        def view(self) -> Mapping[Any, Any]:
            return {}

        def wait_settled(self, timeout_s: float, *, quiet: bool) -> list[str]:
            lab.call("settle" if quiet else "recover")
            return list(lab.unsettled) if timeout_s else ["nobody answers at once"]

        def record_epochs(self) -> list[str]:
            return []

        def stop_waiting_for(self, node: int) -> None:
            lab.call(f"stop_waiting_for {node}")

    class Workload:
        def stats(self) -> Mapping[str, Mapping[str, Any]]:
            return {"acks-1": {"acked": 1}}

        def silent(self) -> list[str]:
            return []

        def problems(self) -> list[str]:
            return lab.client_problems

        def stop(self, *, hurry: bool) -> list[str]:
            lab.call("stop clients")
            return []

    def launch(*_: object) -> Workload:
        lab.call("launch")
        return Workload()

    def final_reads(*_: object, **__: object) -> bool:
        lab.call("final reads")
        return True

    def check(_: Path) -> dict[str, Any]:
        lab.call("check")
        return VERDICT

    def write_report(run_dir: Path) -> Path:
        lab.call("report")
        return run_dir / "report.html"

    class TestJournal(Journal):
        @classmethod
        def create(cls, path: Path, **more: Any) -> Journal:
            registry = tmp_path / "registry"
            registry.mkdir(exist_ok=True)
            return Journal.create(path, **more, registry=registry)

    monkeypatch.setattr(kinds, "LocalTarget", Target)
    monkeypatch.setattr(choose, "system_of", System)
    monkeypatch.setattr(runner_module, "Monitor", Monitor)
    monkeypatch.setattr(runner_module, "Journal", TestJournal)
    monkeypatch.setattr(runner_module, "launch", launch)
    monkeypatch.setattr(runner_module.final_reads, "run_final_reads", final_reads)
    monkeypatch.setattr(judge, "check", check)
    monkeypatch.setattr(judge, "write_report", write_report)
    return lab


class Silent:
    """A display that shows nothing but remembers the phases."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.notes: list[str] = []

    def phase(self, name: str, bound_s: float | None) -> None:
        """Remember it."""
        self.phases.append(name)

    def note(self, text: str) -> None:
        """Remember it."""
        self.notes.append(text)

    def watch(self, **_: object) -> None:
        """Not shown."""


def prepared(*events: Mapping[str, Any], duration_s: float = 0.6) -> Prepared:
    """A plan that is over in a moment."""
    raw = {
        "name": "test",
        "seed": 1,
        "warmup_s": 0,
        "duration_s": duration_s,
        "settle_timeout_s": 0.1,
        "nemesis": {"events": list(events)},
    }
    return prepare(build(raw, where="test"))


KILL = {"at_ms": 0, "fault": "kill", "targets": "node:2", "duration_ms": 300}
ORDER = [
    *("up", "configure", "start", "create topics", "monitor", "launch", "recover"),
    *("stop clients", "settle", "final reads", "stop nodes", "collect", "down", "check", "report"),
]
PHASES = [
    *("deploy", "create topics", "warm up", "chaos", "heal", "recover", "stop workload"),
    *("settle", "final reads", "collect", "teardown", "check", "report"),
]


def run(tmp_path: Path, plan: Prepared, shown: Silent | None = None) -> RunOutcome:
    """Run a plan in the fake world."""
    return Runner(plan, root=tmp_path / "store", progress=shown or Silent()).run()


def record_of(outcome: RunOutcome) -> dict[str, Any]:
    """The run's run.json."""
    read: dict[str, Any] = json.loads((outcome.run.path / store.RUN_FILE).read_text())
    return read


def test_phases_run_in_order(lab: Lab, tmp_path: Path) -> None:
    """Plan and schedule are stored before anything is made."""
    shown = Silent()
    plan = prepared(KILL)
    lab.reacting = {
        "up": lambda: lab.calls.append(str(sorted(p.name for p in tmp_path.glob("store/test/*/*"))))
    }
    outcome = run(tmp_path, plan, shown)
    stored = lab.calls.pop(1)
    assert "plan.json" in stored
    assert "schedule.json" in stored
    assert lab.calls == ORDER
    assert shown.phases == PHASES
    assert record_of(outcome)["finished"] == PHASES
    assert outcome.verdict == VERDICT
    assert (outcome.run.path / "schedule.json").read_bytes() == plan.schedule.to_json()
    assert lab.machines.trace.entries == [("kill", 2), ("start", 2)]
    assert (outcome.run.path / "faults.arrows").stat().st_size > 0


@pytest.mark.parametrize("failing", ORDER[:-2])
def test_failing_phase_is_named_and_everything_is_undone(
    lab: Lab, tmp_path: Path, failing: str
) -> None:
    """Machines are removed whatever fails, and run.json says where it ended."""
    lab.failing = failing
    outcome = run(tmp_path, prepared(KILL))
    assert outcome.verdict is None
    assert str(outcome.error) == f"{failing} is broken"
    assert lab.calls.count("down") == 1
    if "launch" in lab.calls[:-1] and failing != "launch":
        assert "stop clients" in lab.calls
    stored = record_of(outcome)
    assert stored["failed_phase"] == outcome.failed_phase
    assert stored["error"] == f"OSError: {failing} is broken"
    assert "check" not in lab.calls
    kinds = [record["kind"] for record in journal.read(outcome.run.path / "journal.jsonl")]
    assert ("undone" in kinds) == (failing != "down")


def test_verdict_is_valid_without_a_report(lab: Lab, tmp_path: Path) -> None:
    """An INVALID must not be hidden by a report that cannot be written."""
    lab.failing = "report"
    shown = Silent()
    outcome = run(tmp_path, prepared(KILL), shown)
    assert outcome.verdict == VERDICT
    assert outcome.report is None
    assert "report is broken" in shown.notes[0]


@pytest.mark.parametrize(
    ("when", "phase"),
    [("settle", "settle"), ("final reads", "final reads"), ("stop nodes", "collect")],
)
def test_node_that_exited_by_itself_is_named_with_its_phase(
    lab: Lab, tmp_path: Path, when: str, phase: str
) -> None:
    """run.json says which node exited, in which phase, and how."""
    lab.reacting = {when: lambda: lab.deaths.append((2, -9))}
    shown = Silent()
    stored = record_of(run(tmp_path, prepared(KILL), shown))
    (death,) = stored["deaths"]
    assert (death["node"], death["exit_code"], death["phase"]) == (2, -9, phase)
    assert f"node 2 died by itself in phase {phase}, by SIGKILL" in death["text"]
    assert death["text"] in shown.notes
    assert death["text"] in stored["notes"]


def test_dead_client_process_ends_the_run(lab: Lab, tmp_path: Path) -> None:
    """Faults that no client saw prove nothing; faults in force are healed."""
    lab.reacting = {"launch": lambda: lab.client_problems.append("the clients of t ended")}
    outcome = run(tmp_path, prepared(KILL, duration_s=60))
    assert str(outcome.error) == "the clients of t ended"
    assert lab.calls[-1] == "down"


def test_stop_heals_and_judges_what_was_recorded(lab: Lab, tmp_path: Path) -> None:
    """A stop in the chaos phase skips long phases; the others follow in order."""
    runner = Runner(
        prepared({**KILL, "duration_ms": 50_000}, duration_s=60), root=tmp_path, progress=Silent()
    )

    def stop_when_killed() -> None:
        deadline_s = time.monotonic() + 30
        while not lab.machines.trace.of("kill") and time.monotonic() < deadline_s:
            time.sleep(0.01)
        runner.stop()

    stopper = threading.Thread(target=stop_when_killed)
    stopper.start()
    outcome = runner.run()
    stopper.join()
    assert lab.machines.trace.entries == [("kill", 2), ("start", 2)]
    assert lab.calls == [call for call in ORDER if call not in ("recover", "settle", "final reads")]
    stored = record_of(outcome)
    assert stored["unsettled"] == ["the run was stopped first"]
    assert "settle" not in stored["finished"]
    assert outcome.verdict == VERDICT


def test_cluster_can_be_left_running_and_is_judged(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stopped or removed; the journal says that the run is detached."""
    monkeypatch.setattr(endings, "describe_left_cluster", lambda *_: ["enter here"])
    ending = EndOptions.from_flags(teardown=False, heal=True)
    outcome = Runner(prepared(KILL), root=tmp_path, progress=Silent(), ending=ending).run()
    assert lab.calls == [call for call in ORDER if call not in ("stop nodes", "down")]
    assert outcome.left == ("enter here",)
    assert outcome.verdict == VERDICT
    kinds = [record["kind"] for record in journal.read(outcome.run.path / "journal.jsonl")]
    assert kinds[-1] == journal.DETACHED
    assert journal.UNDONE not in kinds
    assert record_of(outcome)["bootstrap"] == "nowhere:9092"


def test_cluster_can_be_left_with_its_faults_in_force(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is healed or read back, and the notes say so."""
    shown: list[tuple[str, ...]] = []

    def tell(*args: Any) -> list[str]:
        shown.append(args[3])
        return []

    monkeypatch.setattr(endings, "describe_left_cluster", tell)
    ending = EndOptions.from_flags(teardown=False, heal=False)
    plan = prepared({**KILL, "duration_ms": 600})
    outcome = Runner(plan, root=tmp_path, progress=Silent(), ending=ending).run()
    assert lab.machines.trace.entries == [("kill", 2)]
    skipped = ("recover", "settle", "final reads", "stop nodes", "collect", "down")
    assert lab.calls == [call for call in ORDER if call not in skipped]
    assert shown == [("kill node 2",)]
    assert record_of(outcome)["left_in_force"] == ["kill node 2"]
    assert "left with kill node 2 in force" in record_of(outcome)["notes"][-1]


def test_cluster_without_running_nodes_is_removed_in_any_case(lab: Lab, tmp_path: Path) -> None:
    """There is nothing to inspect."""
    lab.reacting = {"up": lambda: lab.processes.states.update(dict.fromkeys((1, 2, 3), ""))}
    lab.failing = "up"
    ending = EndOptions.from_flags(teardown=False, heal=True)
    outcome = Runner(prepared(KILL), root=tmp_path, progress=Silent(), ending=ending).run()
    assert lab.calls == ["up", "down"]
    assert outcome.left == ()
    with pytest.raises(PlanError, match="give --no-teardown too"):
        EndOptions.from_flags(teardown=True, heal=False)


def test_missing_abilities_of_the_target_are_recorded(lab: Lab, tmp_path: Path) -> None:
    """The report shows which faults were possible."""
    lacks = {Ability.CLOCKS: "there is no libfaketime"}
    outcome = run(tmp_path, replace(prepared(KILL), lacks=lacks))
    assert record_of(outcome)["lacking"] == {"clocks": "there is no libfaketime"}


def test_cluster_that_does_not_settle_is_read_too(lab: Lab, tmp_path: Path) -> None:
    """run.json has the reasons, dead nodes included; the checkers judge them."""
    lab.unsettled = ["t-0 has no leader"]

    def crash() -> None:
        lab.processes.states[3] = ""

    lab.reacting = {"settle": crash}
    outcome = run(tmp_path, prepared(KILL))
    stored = record_of(outcome)
    assert stored["settled"] is False
    assert stored["unsettled"] == ["t-0 has no leader", "node 3 ended by itself, exit code 1"]
    assert "settle" not in stored["finished"]
    assert "final reads" in lab.calls


def test_node_that_refuses_its_damaged_files_is_left_out(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, not waited for and not read, and the cluster can settle without it."""

    def crash() -> None:
        lab.processes.states[3] = ""

    def struck(self: RefusedStarts, record: FaultRecord) -> None:
        self._damaged[3] = record

    monkeypatch.setattr(RefusedStarts, "note", struck)
    lab.reacting = {"recover": crash}
    outcome = run(tmp_path, prepared(KILL))
    stored = record_of(outcome)
    assert [each["node"] for each in stored["refused"]] == [3]
    assert "node 3 refused its damaged files (fault 0, kill node 2)" in stored["notes"][-1]
    assert (stored["settled"], lab.left_out) == (True, [3])
    assert (
        lab.calls.index("recover")
        < lab.calls.index("stop_waiting_for 3")
        < lab.calls.index("settle")
    )


def highwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.slow
@at_turn(1, 2, "test_action.py::test_real_run_in_a_job")
def test_real_run_ends_in_a_verdict_and_can_be_replayed(tmp_path: Path) -> None:
    """A real cluster under a kill: judged twice with equal verdicts, and replayed byte for byte."""
    require("netns")
    root = str(tmp_path / "store")
    small: Sequence[str] = ("--duration", "8", "--faults", "kill", "--rate", "50", "--store", root)
    done = highwater("run", "quick", *small, "--seed", "3", "--json")
    assert done.returncode in (0, 2), done.stderr
    verdict = json.loads(done.stdout)
    run_dir = Path(verdict["run"])
    assert [topic["lost_forbidden"] for topic in verdict["topics"]] == [0, 0, 0]
    assert all(topic["acked"] for topic in verdict["topics"])
    again = highwater("check", str(run_dir), "--json", "--no-report")
    assert again.returncode == done.returncode
    replayed = highwater("run", "--replay", str(run_dir), "--store", root, "--json", "--no-report")
    assert replayed.returncode in (0, 2), replayed.stderr
    other = Path(json.loads(replayed.stdout)["run"])
    assert (other / "schedule.json").read_bytes() == (run_dir / "schedule.json").read_bytes()
    left = [r for r in (run_dir, other) if f"{r}" in Path("/proc/mounts").read_text()]
    assert left == []

"""Runs a plan from nothing to a verdict: deploy, load, break, heal, settle, read, collect, judge.

It is a thin sequence of calls into the target, the system, the workload, the monitor, the nemesis
and the checkers. Whatever happens, faults are healed, everything that was made is undone, and the
records stay. A phase that fails is named in run.json, and the run can still be judged with
`highwater check`. A stop (Ctrl-C, SIGTERM) ends the chaos early and skips long phases; the verdict
then rests on what was recorded.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.judging import judge
from harness.plans import workload_topics
from harness.recording import store
from harness.recording.clock_rows import RecordedClocks
from harness.recording.history import HistoryWriter, RowStream
from harness.recording.journal import Journal
from harness.recording.store import Run, StoreError
from harness.recording.versions import commit, versions
from harness.run import teardown
from harness.run.administration.administrator import Administrator
from harness.run.hosts import hosts_of
from harness.run.prepare import Prepared
from harness.run.progress import Progress
from harness.systems import choose
from harness.systems.base import DeployedSystem
from harness.systems.ensemble.choose import watch_of
from harness.systems.monitoring.monitor import Monitor
from harness.systems.node_roles import Layout
from harness.systems.refused_starts import RefusedStarts
from harness.systems.unexpected_exits import UnexpectedExits
from harness.targets.base import Target
from harness.targets.kinds import kind_of
from harness.targets.request import TargetRequest
from harness.workloads import final_reads
from harness.workloads.clients import libraries
from harness.workloads.launch import Workload, launch
from nemesis.executor import Nemesis
from nemesis.record import FaultRecord

log = logging.getLogger(__name__)

MONITOR_CLIENT: Final = 1
"""Client number, and writer id, of the monitor."""
NEMESIS_SLACK_S: Final = 15.0
"""How long the last heal may take. Kills and restarts are quick; this is for a hanging kernel."""
PENDING_WORK_S: Final = 60.0
"""How long the cluster may take, after the last fault, to finish and undo administrative changes
that faults made."""
SETTLE_POLL_S: Final = 2.0
"""How long the cluster is asked whether it has recovered, before refused starts are looked for."""
SCRIPT_JOIN_S: Final = 60.0
"""How long a script may take to end after a stop; its requests have bounds of their own."""
POLL_S: Final = 0.2


class RunFailed(Exception):
    """The harness could not do its work; the message says what failed, and in which phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended: a verdict, or the phase that failed and why."""

    run: Run
    verdict: dict[str, Any] | None = None
    report: Path | None = None
    failed_phase: str | None = None
    error: BaseException | None = None
    left: tuple[str, ...] = ()
    """Lines on how to enter and remove the cluster that was left running; none without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a script may act on during a run, while the workload and the faults go on."""

    run: Run
    target: Target
    system: DeployedSystem
    monitor: Monitor
    stop: threading.Event


Script = Callable[[RunContext], None]
"""Runs in the chaos phase in a thread of its own. The phase ends after it."""


class _Clock:
    """The nemesis's clock: the run's own time, and a real wait."""

    def __init__(self, run: Run) -> None:
        self.now_ns = run.now_ns

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return stop.wait(seconds)


class Runner:
    """One run. `run` may be called once; `stop` at any time, from a signal handler too."""

    def __init__(
        self,
        prepared: Prepared,
        *,
        root: Path,
        progress: Progress,
        with_report: bool = True,
        layout: Layout | None = None,
        script: Script | None = None,
        ending: teardown.EndOptions | None = None,
    ) -> None:
        """Prepare a run whose directory will be made under `root`.

        Every node is broker and controller, unless a `layout` of as many nodes says otherwise.
        Everything is healed and removed at the end, unless `ending` says otherwise.
        """
        self._plan = prepared.plan
        self._prepared = prepared
        self._root = root
        self._progress = progress
        self._with_report = with_report
        self._layout = layout or choose.layout_of(self._plan)
        self._script = script
        self._ending = ending or teardown.EndOptions()
        self._needs = prepared.schedule.needs()
        self._unhealed = self._left = tuple[str, ...]()
        self._in_force: Callable[[], tuple[str, ...]] = tuple
        self._stop = threading.Event()
        self._phase_name = "set up"

    def stop(self) -> None:
        """End the run early, with all cleanup."""
        self._stop.set()

    def run(self) -> RunOutcome:
        """Run the plan. Raises StoreError when no run directory can be made; nothing else."""
        needed = {**versions(), **choose.versions(self._plan)}
        run = store.create(self._root, self._plan.name, versions=needed, commit=commit())
        with _logging_to(run.path / "harness.log"):
            log.info("plan %s, seed %d, run %s", self._plan.name, self._plan.seed, run.run_id)
            try:
                run.write_plan(self._plan.to_json())
                (run.path / "schedule.json").write_bytes(self._prepared.schedule.to_json())
                run.update(
                    notes=list(self._prepared.notes),
                    client=libraries.names_and_versions(self._plan),
                    lacking=self._prepared.lacks,
                )
                self._on_machines(run)
                return self._judge(run)
            except BaseException as error:
                log.exception("the run failed in phase %r", self._phase_name)
                run.update(failed_phase=self._phase_name, error=f"{type(error).__name__}: {error}")
                return RunOutcome(
                    run=run, failed_phase=self._phase_name, error=error, left=self._left
                )

    # -- the phases

    def _on_machines(self, run: Run) -> None:
        """Do everything that needs the target's machines, and remove them."""
        plan = self._plan
        with Journal.create(run.path / "journal.jsonl", run_id=run.run_id) as journal:
            target = kind_of(plan).make(
                TargetRequest(
                    run_id=run.run_id,
                    run_dir=run.path,
                    nodes=self._layout.nodes,
                    journal=journal,
                    uplink=not self._ending.teardown,
                    needs=self._needs,
                    reads=choose.reads(plan),
                    program_image=workload_topics.image_of_program(plan),
                )
            )
            system = choose.system_of(plan, target, run, self._layout)
            self._exits = UnexpectedExits(nodes=target, now_ns=run.now_ns, log_of=system.output)
            try:
                with self._phase(run, "deploy"):
                    target.up()
                    system.configure()
                    system.start()
                with self._phase(run, "create topics"):
                    system.create_topics()
                with ExitStack() as streams:
                    self._under_load(run, target, system, journal, streams)
            finally:
                failed = self._phase_name
                self._end(run, target, system, journal)
                self._phase_name = failed

    def _end(self, run: Run, target: Target, system: DeployedSystem, journal: Journal) -> None:
        """Remove everything, or leave the cluster running if that was asked and there is one."""
        with suppress(OSError, StoreError):  # the run's directory may have been removed
            self._note_exits(run)
        deployed = any(target.is_running(node) for node in target.node_ids())
        if self._ending.teardown or not deployed:
            with self._phase(run, "teardown"):
                for left in system.clean_up() if self._ending.teardown else ():
                    self._note(run, left)
                target.down()
                journal.finish()
            return
        journal.detach()
        run.update(bootstrap=system.bootstrap, left_in_force=list(self._unhealed))
        described = teardown.describe_left_cluster(target, run, system.bootstrap, self._unhealed)
        self._left = tuple(described)

    def _under_load(
        self,
        run: Run,
        target: Target,
        system: DeployedSystem,
        journal: Journal,
        streams: ExitStack,
    ) -> None:
        """Do the phases from the first client to the last read, while the streams are open."""
        plan, stop = self._plan, self._stop
        cluster = run.cluster_stream(plan.rotate_s)
        streams.callback(cluster.close)
        writer = HistoryWriter(
            run.history_dir / "monitor.arrows",
            writer_id=MONITOR_CLIENT,
            base_ns=run.base_ns,
            rotate_s=plan.rotate_s,
        )
        streams.callback(writer.close)
        monitor = Monitor(
            brokers=system.brokers,
            controllers=system.controllers,
            partitions={topic.name: topic.partitions for topic in plan.topics},
            writer=writer,
            client=MONITOR_CLIENT,
            cluster=cluster,
            enter_network=target.in_client_netns,
            security=system.access.channel(),
            ensemble=watch_of(system.zookeepers, run.now_ns),
        )
        monitor.start()
        streams.callback(monitor.stop)
        workload = launch(plan, target, system.bootstrap, run, system.access, self._needs)
        try:
            self._progress.watch(counters=workload.stats, partitions=monitor.view)
            with self._phase(run, "warm up", plan.warmup_s):
                self._await_acks(run, workload)
                self._wait(run, workload, plan.warmup_s)
            context = RunContext(run=run, target=target, system=system, monitor=monitor, stop=stop)
            refusals = RefusedStarts(target, system.output)
            self._chaos(context, journal, workload, refusals, cluster)
            if not self._unhealed:
                with self._phase(run, "recover", plan.settle_timeout_s):
                    missing = self._wait_settled(run, monitor, refusals, quiet=False)
                if missing and not self._stop.is_set():
                    self._note(run, f"not recovered under load: {'; '.join(missing)}")
        finally:
            self._stop_workload(run, workload)
        if self._unhealed:
            self._note(run, f"left with {'; '.join(self._unhealed)} in force: nothing was read")
            return
        self._read_back(run, target, system, monitor, cluster, refusals)

    def _read_back(
        self,
        run: Run,
        target: Target,
        system: DeployedSystem,
        monitor: Monitor,
        cluster: RowStream,
        refusals: RefusedStarts,
    ) -> None:
        """Find out what the healed cluster has kept: settle, read every record, collect files."""
        plan = self._plan
        self._enter("settle", plan.settle_timeout_s)
        if self._settle(run, target, monitor, refusals):
            run.finish_phase("settle")
        self._note_exits(run)
        if not self._stop.is_set():
            with self._phase(run, "final reads", final_reads.TIMEOUT_S):
                complete = final_reads.run_final_reads(
                    plan,
                    target,
                    system.bootstrap,
                    run,
                    into=system.access,
                )
                run.update(final_reads_complete=complete, epoch_problems=monitor.record_epochs())
                self._note_exits(run)
        monitor.stop()
        with self._phase(run, "collect"):
            # A cluster that is left running is idle, so its files can be read while it runs.
            if self._ending.teardown and (killed := system.stop()):
                self._note(run, f"nodes {killed} did not shut down in time and were killed")
            self._note_exits(run)
            refused = [refusal.node for refusal in refusals.found]
            system.collect(cluster, monitor.quorum_times, except_nodes=refused)
        run.update(ended_ns=run.now_ns())

    def _chaos(
        self,
        context: RunContext,
        journal: Journal,
        workload: Workload,
        refusals: RefusedStarts,
        cluster: RowStream,
    ) -> None:
        """Run the schedule and the script; return when everything is healed."""
        run = context.run
        faults = run.faults_stream(self._plan.rotate_s)
        failures: list[Exception] = []
        administrator = Administrator(context.system, context.target, context.monitor)
        clocks = RecordedClocks(context.target.clocks, cluster.append_named, run.now_ns)

        def record(done: FaultRecord) -> None:
            refusals.note(done)
            faults.append_named(**done.row())
            faults.flush()
            log.info("fault %s: %s", done.label, done.error or done.effect)

        nemesis = Nemesis(
            schedule=self._prepared.schedule,
            hosts=hosts_of(context.target, context.monitor, administrator, clocks, run.path),
            view=context.monitor,
            journal=journal,
            clock=_Clock(run),
            on_done=record,
            leave=not self._ending.heal,
        )

        def run_script() -> None:
            try:
                if self._script is not None:
                    self._script(context)
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=nemesis.run, name="nemesis")
        script = threading.Thread(target=run_script, name="script", daemon=True)
        self._in_force = nemesis.in_force
        self._progress.watch(faults=nemesis.in_force)
        try:
            with self._phase(run, "chaos", self._plan.duration_s):
                thread.start()
                script.start()
                while (thread.is_alive() or script.is_alive()) and not self._stop.is_set():
                    self._watch(run, workload)
                    (thread if thread.is_alive() else script).join(POLL_S)
        finally:
            with self._phase(run, "heal"):
                nemesis.stop()
                if thread.ident is not None:
                    thread.join(nemesis.finish_s + NEMESIS_SLACK_S)
                if thread.is_alive() or (nemesis.in_force() and self._ending.heal):
                    raise RunFailed(f"faults {nemesis.in_force()} could not be healed")
                self._unhealed = nemesis.in_force()
                faults.close()
                if script.ident is not None:
                    script.join(SCRIPT_JOIN_S)
                if script.is_alive():
                    raise RunFailed(
                        f"the script has not ended {SCRIPT_JOIN_S:.0f} s after the stop"
                    )
                if self._ending.heal:
                    for pending in administrator.finish(PENDING_WORK_S):
                        self._note(run, f"not undone: {pending}")
        if failures:
            raise RunFailed(f"the script of the run failed: {failures[0]}") from failures[0]

    def _settle(self, run: Run, target: Target, monitor: Monitor, refusals: RefusedStarts) -> bool:
        """Wait until the idle cluster has recovered; note what has not. Return whether it has."""
        reasons = self._wait_settled(run, monitor, refusals, quiet=True)
        refused = [refusal.node for refusal in refusals.found]
        for node in target.node_ids():
            if not target.is_running(node) and node not in refused:
                ended = f"node {node} ended by itself, exit code {target.exit_code(node)}"
                reasons.append(": ".join(filter(None, (ended, refusals.last_line(node)))))
        run.update(settled=not reasons, unsettled=reasons)
        for reason in reasons:
            self._note(run, f"not settled: {reason}")
        return not reasons

    def _wait_settled(
        self, run: Run, monitor: Monitor, refusals: RefusedStarts, *, quiet: bool
    ) -> list[str]:
        """Wait, within the plan's time limit, until nothing is missing; return what still is.

        A node that refuses its damaged files is not waited for.
        """
        deadline_s = time.monotonic() + self._plan.settle_timeout_s
        reasons = ["the run was stopped first"]
        while not self._stop.is_set():
            for refusal in refusals.find_new():
                monitor.stop_waiting_for(refusal.node)
                self._note(run, refusal.text)
                run.update(refused=[each.as_json() for each in refusals.found])
            # Never for less: the nodes need some time to answer.
            reasons = monitor.wait_settled(SETTLE_POLL_S, quiet=quiet)
            if not reasons or time.monotonic() >= deadline_s:
                break
        return reasons

    def _stop_workload(self, run: Run, workload: Workload) -> None:
        with self._phase(run, "stop workload"):
            self._progress.watch(counters=dict, faults=tuple)
            for problem in workload.stop(hurry=self._stop.is_set()):
                self._note(run, problem)

    def _judge(self, run: Run) -> RunOutcome:
        with self._phase(run, "check"):
            verdict = judge.check(run.path)
        report = None
        if self._with_report:
            try:
                with self._phase(run, "report"):
                    report = judge.write_report(run.path)
            except Exception as error:
                # The verdict is valid without a report.
                log.exception("no report")
                self._note(run, f"the report could not be written: {error}")
        return RunOutcome(run=run, verdict=verdict, report=report, left=self._left)

    # -- small things

    @contextmanager
    def _phase(self, run: Run, name: str, bound_s: float | None = None) -> Iterator[None]:
        self._enter(name, bound_s)
        began_s = time.monotonic()
        yield
        run.finish_phase(name)
        log.info("phase %s took %.1f s", name, time.monotonic() - began_s)

    def _enter(self, name: str, bound_s: float | None) -> None:
        self._phase_name = name
        self._progress.phase(name, bound_s)
        log.info("phase %s", name)

    def _await_acks(self, run: Run, workload: Workload) -> None:
        """Wait until every topic has an acknowledgement, so that faults hit a working cluster."""
        deadline_s = time.monotonic() + self._plan.start_timeout_s
        while not self._stop.is_set():
            waiting = workload.silent()
            if not waiting:
                return
            if time.monotonic() > deadline_s:
                self._note(run, f"{', '.join(waiting)}: nothing acknowledged or written in time")
                return
            self._watch(run, workload)
            self._stop.wait(POLL_S)

    def _wait(self, run: Run, workload: Workload, seconds: float) -> None:
        deadline_s = time.monotonic() + seconds
        while not self._stop.is_set() and (left_s := deadline_s - time.monotonic()) > 0:
            self._watch(run, workload)
            self._stop.wait(min(POLL_S, left_s))

    def _watch(self, run: Run, workload: Workload) -> None:
        """Seal complete segments, note nodes that exited, and fail if a client process died."""
        store.seal_ended(run)
        if self._exits.due():
            self._note_exits(run)
        if problems := workload.problems():
            raise RunFailed("; ".join(problems))

    def _note_exits(self, run: Run) -> None:
        """Note the nodes that exited by themselves since the last call."""
        new = self._exits.find_new(self._phase_name, self._in_force())
        for each in new:
            self._note(run, each.text)
        if new:
            run.update(deaths=[each.as_json() for each in self._exits.found])

    def _note(self, run: Run, text: str) -> None:
        log.warning("%s", text)
        self._progress.note(text)
        noted = json.loads((run.path / store.RUN_FILE).read_text()).get("notes", [])
        run.update(notes=[*noted, text])


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Send the package's log records to the run's harness.log."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    harness = logging.getLogger("harness")
    harness.addHandler(handler)
    before, harness.level = harness.level, logging.INFO
    try:
        yield
    finally:
        harness.setLevel(before)
        harness.removeHandler(handler)
        handler.close()

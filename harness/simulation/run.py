"""One plan in one simulated world: the phases of `harness.run.runner`, in the world's time.

The schedule, faults, clients, watcher, administrator and files are those of a run with real
processes; only the machines are simulated. A run is a function of its plan, its schedule and the
code. `Simulation.run` always returns a recording; the recording names a phase that failed.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import harness.workloads.further.own.run  # noqa: F401 - not in the midst of a run
from harness.recording.clock_rows import RecordedClocks
from harness.recording.store import Run
from harness.run.administration.administrator import Administrator
from harness.run.prepare import Prepared
from harness.run.runner import MONITOR_CLIENT, PENDING_WORK_S, POLL_S, RunFailed
from harness.simulation import liveness, logs
from harness.simulation.at_rest.check import check_at_rest, is_asked
from harness.simulation.invariants import InvariantBroken, Invariants
from harness.simulation.invariants.refusals import Refusals
from harness.simulation.recording import History, Recording
from harness.simulation.system import SimSystem
from harness.simulation.unrecorded import UnrecordedClients
from harness.simulation.world.clocks import EPOCH_MS
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import DiskObserver, DiskSettings
from harness.simulation.world.guard import guard
from harness.simulation.world.loop import SimTask, start
from harness.simulation.world.network.link import NetworkSettings
from harness.simulation.world.synchronous import GreenletRunner
from harness.simulation.world.target import SimTarget
from harness.simulation.world.world import MS, NS, World
from harness.systems.monitoring.watcher import Watcher
from harness.systems.node_roles import Layout
from harness.workloads.clients.counts import Tally
from harness.workloads.configs import AnyConfig
from harness.workloads.environment import ClientEnvironment
from harness.workloads.final_reads import CLIENT as FINAL_READS_CLIENT
from harness.workloads.final_reads import FinalReadConfig
from harness.workloads.launch import (
    STOP_TIMEOUT_S,
    client_configs,
    compacted_configs,
    further_configs,
)
from harness.workloads.own import run_workload
from harness.workloads.own_final_reads import read_everything
from nemesis.executor import Nemesis
from nemesis.hosts import Hosts
from nemesis.record import FaultRecord

WATCH_S: Final = 0.25
"""How often each node is asked for its view: one question costs as much as many sends."""
ADDED_LATER: Final = {
    ("simulated", "compacting_producers"): 0,
    ("simulated", "impatient_producers"): 0,
    ("simulated", "offset_keepers"): 0,
    ("simulated", "repeats"): False,
    ("simulated", "pauses"): False,
    ("simulated", "broker_keys"): False,
    ("simulated", "unusual_producers"): 0,
    ("simulated", "failover_at_end"): False,
    ("simulated", "administration_at_end"): False,
    ("workload", "topics"): [],
    ("workload", "client_command"): [],
    ("workload", "payload"): "binary",
}
"""Keys of a plan's tables that were added later, with their defaults. A plan that does not use them
writes the bytes that it wrote before, so the digest of its run stays the same."""
LATER_OF_GROUPS: Final = ("topics", "inputs")
"""Keys of a further workload with a group that were added later."""
LATER_OF_KEYS: Final = "passes_every_s"
"""A key of a further workload with keys that was added later."""
MAX_OVERTIME_S: Final = 900.0
"""How much longer than its chaos a run may take, in simulated seconds."""
MAX_MORE_TIMES: Final = 4
"""How often the time to settle begins anew while replicas catch up."""


def _ns(span_ms: tuple[float, float]) -> tuple[int, int]:
    least_ms, most_ms = span_ms
    return round(least_ms * MS), round(most_ms * MS)


class _Clock:
    """The clock of the nemesis: the world's time since the run began."""

    def __init__(self, task_runner: GreenletRunner, now_ns: Callable[[], int]) -> None:
        self._task_runner = task_runner
        self.now_ns = now_ns

    def wait(self, stop: Any, seconds: float) -> bool:
        """See `nemesis.base.Clock`; nothing stops a simulated run."""
        self._task_runner.sleep(seconds)
        return bool(stop.is_set())


async def _idle() -> None:
    """The harness's own program: a loop on which coroutines can run."""
    await asyncio.get_running_loop().create_future()


class Simulation:
    """One run; `run` may be called once. A broken invariant ends the run (InvariantBroken); that
    the cluster must settle is judged at its end."""

    def __init__(
        self, prepared: Prepared, *, keep_logs: bool = False, invariants: bool = True
    ) -> None:
        plan = self._plan = prepared.plan
        self._prepared = prepared
        self._keep_logs = keep_logs
        self.world = World(plan.seed)
        layout = Layout.combined(range(1, plan.nodes + 1), plan.racks)
        self.cluster = SimCluster(
            self.world,
            layout,
            overrides=plan.resolved_broker(),
            network=NetworkSettings(
                base_ns=_ns(plan.simulated.latency_ms), jitter_ns=_ns(plan.simulated.jitter_ms)
            ),
            disk=DiskSettings(sync_ns=_ns(plan.simulated.sync_ms)),
        )
        self._base_ns = self.world.now_ns
        self.recording = Recording(
            prepared=prepared,
            run_id=_run_id(prepared),
            started_wall_ns=EPOCH_MS * MS + self._base_ns,
        )
        self._task_runner = GreenletRunner(self.world, self.cluster.harness)
        self._target = SimTarget(self.cluster, self._task_runner, self.recording.record)
        self._system = SimSystem(self.cluster, self._target, self._task_runner)
        self._watcher = Watcher(
            brokers=self.cluster.brokers,
            controllers=self.cluster.controllers,
            partitions={topic.name: topic.partitions for topic in plan.topics},
            writer=self._history("monitor", MONITOR_CLIENT),
            client=MONITOR_CLIENT,
            cluster=self.recording.cluster,
            poll_s=WATCH_S,
        )
        self._watching: SimTask | None = None
        self._configs: list[AnyConfig] = []
        self._tallies: dict[str, list[Tally]] = {}
        """By the name of the clients' configuration."""
        self._stop_clients = asyncio.Event()
        self._clients: SimTask | None = None
        self._unrecorded = UnrecordedClients(
            plan,
            self._client_environment,
            self._unless_excused,
            self._surely,
            clocks_changed=lambda: self.cluster.clocks_changed,
        )
        self._seen: list[InvariantBroken] = []
        """What unrecorded clients saw in a run without invariants."""
        self._certain: list[InvariantBroken] = []
        """The same, where no fault excuses it."""
        self._refusals = Refusals(self.now_ns)
        self._phase_name = "set up"
        self.invariants = Invariants(self.cluster) if invariants else None
        if self.invariants is not None:
            self._target.disks.on_damage = self.invariants.damaged

    def run(self) -> Recording:
        """Run the plan. Raises only what is not part of the world (KeyboardInterrupt)."""
        recording, world = self.recording, self.world
        kept = recording.logs if self._keep_logs else None
        with guard(world), logs.captured(world, kept):
            try:
                self.cluster.harness.boot(_idle)
                self._task_runner.run_main(self._phases, self._plan.duration_s + MAX_OVERTIME_S)
            except Exception as error:
                self._failed(error)
            finally:
                world.collect()  # an exception that nobody retrieved is reported by its finalizer
                recording.digest = world.trace.digest()
                recording.events = world.trace.events
                recording.simulated_s = self.now_ns() / NS
                recording.troubles = [str(each) for each in world.troubles]
                if self.invariants is not None:
                    recording.facts["excused"] = self.invariants.excused
                self._close()
        return recording

    def _failed(self, error: Exception) -> None:
        self.recording.failure = error
        facts: dict[str, Any] = {
            "failed_phase": self._phase_name,
            "error": f"{type(error).__name__}: {error}",
        }
        if isinstance(error, InvariantBroken):
            facts["broken_invariant"] = {
                "name": error.name,
                "sentence": error.sentence,
                "at_ns": self.now_ns(),
            }
        self.recording.facts |= facts

    def _close(self) -> None:
        for host in self.cluster.nodes.values():
            assert host.disk is not None
            host.disk.observer = DiskObserver()  # the end of the run is not checked
        self._task_runner.close()
        self.cluster.close()

    # -- the phases

    def _phases(self) -> None:
        with self._phase("deploy"):
            self._system.start()
        with self._phase("create topics"):
            self._system.create_topics((*self._plan.topics, *self._unrecorded.topics()))
        self._watching = self._on_harness(self._watcher.watch())
        self._configs = self._client_configs()
        self._tallies = {config.name: [] for config in self._configs}
        self._clients = self.cluster.run_client(self._client_program)
        with self._phase("warm up"):
            self._await_acks()
            self._task_runner.sleep(self._plan.warmup_s)
        self._chaos()
        with self._phase("recover"):
            self._note("not recovered under load", self._cluster_problems(quiet=False))
        with self._phase("stop workload"):
            self._end_clients()
        self._settle()
        if is_asked(self._plan):
            with self._phase("check at rest"):
                check_at_rest(
                    self.recording,
                    self.cluster,
                    self._system,
                    self._watcher,
                    self._task_runner,
                    settle=self._settle,
                )
        self._check_unrecorded()
        with self._phase("final reads"):
            self.recording.facts["final_reads_complete"] = self._final_reads()
            self.recording.facts["epoch_problems"] = self._task_runner.call(
                self._watcher.record_final_epochs
            )
        unsettled = self._why_unsettled()
        self._watcher.stop()
        self._wait_for(self._watching, STOP_TIMEOUT_S)
        with self._phase("collect"):
            self._collect()
        self.recording.facts["ended_ns"] = self.now_ns()
        if unsettled:
            raise InvariantBroken("settles", unsettled)

    def _chaos(self) -> None:
        recording = self.recording
        administrator = Administrator(self._system, self._target, self._watcher, self._task_runner)
        target = self._target

        def record(done: FaultRecord) -> None:
            recording.faults.append_named(**done.row())

        nemesis = Nemesis(
            schedule=self._prepared.schedule,
            hosts=Hosts(
                processes=target,
                clients=target.clients,
                links=target.links,
                disks=target.disks,
                clocks=RecordedClocks(target.clocks, recording.cluster.append_named, self.now_ns),
                power=target.power,
                cluster=administrator,
                view=self._watcher,
                task_runner=self._task_runner,
            ),
            view=self._watcher,
            journal=recording,
            clock=_Clock(self._task_runner, self.now_ns),
            on_done=record,
        )
        with self._phase("chaos"):
            nemesis.run()
        with self._phase("heal"):
            if nemesis.in_force():
                raise RunFailed(f"faults {nemesis.in_force()} could not be healed")
            self._note(liveness.NOT_TAKEN_BACK, administrator.finish(PENDING_WORK_S))

    def _settle(self) -> None:
        """Wait until the idle cluster is healthy; record what is not."""
        self._phase_name = "settle"
        reasons = self._problems_at_rest()
        for node in self._target.node_ids():
            if not self._target.is_running(node):
                code = self._target.exit_code(node)
                reasons.append(f"node {node} ended by itself, exit code {code}")
        self.recording.facts |= {"settled": not reasons, "unsettled": reasons}
        self._note("not settled", reasons)
        if not reasons and "settle" not in self.recording.finished:
            self.recording.finished.append("settle")

    def _check_unrecorded(self) -> None:
        """Judge all answers, and what unrecorded clients wrote if no fault may have damaged it."""
        self._refusals.check(self.recording.faults.named())
        if self._certain:
            raise self._certain[0]
        if not liveness.is_undamaged(self.recording):
            return
        if self._seen:
            raise self._seen[0]
        if self._unrecorded.wrote:
            self._task_runner.call(partial(self._unrecorded.check, self._system.bootstrap))

    def _unless_excused(self, broken: InvariantBroken) -> None:
        """End the run, unless records were lost with permission: then anything may be missing.

        Without invariants nobody knows that before the end of the run.
        """
        if self.invariants is None:
            self._seen.append(broken)
        elif not self.invariants.excused:
            self.world.fail(broken)

    def _surely(self, broken: InvariantBroken) -> None:
        """End the run; without invariants, judge it in the end."""
        if self.invariants is None:
            self._certain.append(broken)
        else:
            self.world.fail(broken)

    def _why_unsettled(self) -> str:
        """Return why the cluster has not settled although it must, also after more time."""
        deadline_s = self._task_runner.now_s() + self._plan.settle_timeout_s
        while found := liveness.problem(self.recording, self.invariants):
            if self._task_runner.now_s() > deadline_s or not self.recording.facts["settled"]:
                break
            self._task_runner.sleep(POLL_S)
        return found

    def _problems_at_rest(self) -> list[str]:
        """Return what is not healthy after the plan's time to settle, and after more of it while
        replicas catch up: over a slow network that takes as long as there is to copy.
        """
        ends = self._log_ends()
        problems = self._cluster_problems(quiet=True)
        for _ in range(MAX_MORE_TIMES):
            before, ends = ends, self._log_ends()
            if not problems or not liveness.moved_on(before, ends):
                break
            problems = self._cluster_problems(quiet=True)
        return problems

    def _log_ends(self) -> liveness.LogEnds:
        hosts = self.cluster.nodes.values()
        return liveness.log_ends(host.disk for host in hosts if host.disk is not None)

    def _cluster_problems(self, *, quiet: bool) -> list[str]:
        timeout_s = self._plan.settle_timeout_s
        return self._task_runner.call(lambda: self._watcher.settled(timeout_s, quiet=quiet))

    def _final_reads(self) -> bool:
        config = FinalReadConfig.of(self._plan, self._system.bootstrap, self._unstored())
        history = self._history("final-reads", FINAL_READS_CLIENT)
        client_world = self._client_environment("final reads")
        return self._task_runner.call(lambda: read_everything(config, history, client_world))

    def _collect(self) -> None:
        recording = self.recording
        recording.stopping_ns = self.now_ns()
        if killed := self._system.stop():
            recording.notes.append(f"nodes {killed} did not shut down in time and were killed")
        recording.quorum_times = self._watcher.quorum_times
        for node, host in self.cluster.nodes.items():
            assert host.disk is not None
            recording.disks[node] = host.disk.content
            recording.properties[node] = self.cluster.properties[node]

    # -- the clients

    async def _client_program(self) -> None:
        """The clients of all topics and further workloads, in one process."""
        async with asyncio.TaskGroup() as group:
            for each in self._unrecorded.work(self._system.bootstrap, self._stop_clients):
                group.create_task(each)
            for config in self._configs:
                name = config.name
                history = self._history(f"{name}.{config.first_client}", config.first_client)
                tallies = self._tallies[name]
                client_world = self._client_environment(name)
                group.create_task(
                    run_workload(config, history, client_world, self._stop_clients, tallies)
                )

    def _client_configs(self) -> list[AnyConfig]:
        bootstrap, run = self._system.bootstrap, self._unstored()
        return [
            *client_configs(self._plan, bootstrap, run),
            *(config for _, config in compacted_configs(self._plan, bootstrap, run)),
            *further_configs(self._plan, bootstrap, run),
        ]

    def _unstored(self) -> Run:
        return Run(
            path=Path("simulated"),
            run_id=self.recording.run_id,
            started_wall_ns=self.recording.started_wall_ns,
            base_ns=self._base_ns,
        )

    def _client_environment(self, purpose: str) -> ClientEnvironment:
        rng = self.world.stream("clients", purpose)
        return ClientEnvironment(
            rng=rng,
            wall_clock_ms=self.cluster.clients.clock.ms,
            on_answer=self._refusals.answered,
        )

    def _await_acks(self) -> None:
        deadline_s = self._task_runner.now_s() + self._plan.start_timeout_s
        while waiting := [
            config.name
            for config in self._configs
            if config.writes and not any(tally.acked for tally in self._tallies[config.name])
        ]:
            if self._task_runner.now_s() > deadline_s:
                self._note("no send was acknowledged in time", waiting)
                return
            self._task_runner.sleep(POLL_S)

    def _end_clients(self) -> None:
        assert self._clients is not None
        self._stop_clients.set()
        if not self._wait_for(self._clients, STOP_TIMEOUT_S):
            self.cluster.clients.kill()
            self.recording.notes.append("the clients did not end and were killed")
        elif (error := self._clients.exception()) is not None:
            raise RunFailed(f"the clients ended with {error!r}") from error

    # -- helpers

    def _history(self, name: str, writer_id: int) -> History:
        made = History(name, writer_id, self.now_ns)
        self.recording.histories.append(made)
        return made

    def now_ns(self) -> int:
        """Return the world's time since the run began."""
        return self.world.now_ns - self._base_ns

    def _on_harness(self, work: Any) -> SimTask:
        loop = self.cluster.harness.loop
        assert loop is not None
        return start(loop, work, "watcher")

    def _wait_for(self, task: SimTask, within_s: float) -> bool:
        deadline_s = self._task_runner.now_s() + within_s
        while not task.done() and self._task_runner.now_s() < deadline_s:
            self._task_runner.sleep(POLL_S)
        return task.done()

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._phase_name = name
        self.recording.record("phase", phase=name, at_ns=self.now_ns())
        yield
        self.recording.finished.append(name)
        if self._watching is not None and self._watching.done() and name != "collect":
            raise RunFailed(f"the watcher ended: {self._watching.exception()!r}")

    def _note(self, what: str, reasons: Any) -> None:
        self.recording.notes += [f"{what}: {reason}" for reason in reasons]


def _run_id(prepared: Prepared) -> str:
    """Return an id for payloads, made of the plan and its schedule: equal runs write
    equal bytes.
    """
    plan = prepared.plan.to_json()
    for (section, key), default in ADDED_LATER.items():
        if plan[section][key] == default:
            del plan[section][key]
    for each in plan["more_workloads"]:
        if not each["client_command"]:
            del each["client_command"]
        if each.get("isolation") == "read_committed":
            del each["isolation"]
        if each.get("topics_each") == 1:
            del each["topics_each"]
        if not each.get(LATER_OF_KEYS, True):
            del each[LATER_OF_KEYS]
        for name in LATER_OF_GROUPS:
            if each["kind"] in ("group", "copy") and not each.get(name, True):
                del each[name]
    if not plan["more_workloads"]:
        del plan["more_workloads"]
    text = json.dumps(plan, sort_keys=True).encode()
    both = text + prepared.schedule.to_json()
    return hashlib.blake2b(both, digest_size=8).hexdigest()

"""Starts the workload's client processes on a target, follows their counters, and stops them.

There is one process per topic, so that acks modes do not slow each other down inside one
interpreter, and a process that dies ends only the clients of one topic. Each further workload has a
process, too.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.plans import workload_topics
from harness.plans.plan import Plan, Topic
from harness.plans.workload_kind import WorkloadKind
from harness.plans.workloads import CompactedWorkload, FurtherWorkload
from harness.recording.exit_reason import read_exit_reason
from harness.recording.store import Run
from harness.targets.base import CLIENTS, Target
from harness.workloads.app.outputs.base import FINAL_S
from harness.workloads.app.processes import FOLDER, RESULT, ProgramProcesses
from harness.workloads.clients import libraries
from harness.workloads.clients.access import OPEN, Access
from harness.workloads.config import CLIENTS_PER_PROCESS, ClientConfig
from harness.workloads.configs import AnyConfig
from harness.workloads.further_config import FurtherConfig
from nemesis.faults.fault import Ability

PROGRAM: Final = "harness.workloads.program"
"""The module of a process whose clients a program runs."""
MODULES: Final[Mapping[str, str]] = {
    "librdkafka": "harness.workloads.librdkafka",
    "own": "harness.workloads.own",
    "kafka-python": "harness.workloads.kafka_python",
    "aiokafka": "harness.workloads.aiokafka",
    "java": PROGRAM,
    "program": PROGRAM,
}
"""The module that a process runs, by the plan's client; a client that is not here is a program."""
OF_OTHERS: Final = "harness.workloads.plugged"
"""The module of a process with the clients of a workload whose kind another package declares."""
SUPERVISOR: Final = "harness.workloads.app"
"""The module of the process that supervises a tested program."""

PASS_S: Final = 5.0
"""How long producers go on for a tested program when everything is healed. So the program has later
inputs, and what it lost before can be told from what it has not read yet."""
STOP_TIMEOUT_S: Final = 25.0
"""Longer than a process's own time limit for its end."""


@dataclass(slots=True)
class ClientProcess:
    """One running process and the last line of counters that it printed."""

    config: AnyConfig
    process: subprocess.Popen[bytes]
    log_path: Path
    stat: Mapping[str, Any]
    program: Path | None = None
    """The folder of the program that the process supervises."""

    @property
    def result(self) -> Mapping[str, Any]:
        """What the supervisor of a program said at its end: problem, notes."""
        if self.program is None:
            return {}
        try:
            found = json.loads((self.program / RESULT).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def stop_timeout_s(self) -> float:
        """How long the process may take to end after a stop."""
        app = self.config.app if isinstance(self.config, FurtherConfig) else None
        # A program gets its time, the input is read first, and the output at last.
        return STOP_TIMEOUT_S + (2 * app.lag_s + app.stop_s + FINAL_S if app is not None else 0)

    def follow(self) -> None:
        """Read the process's lines until it ends."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                try:
                    self.stat = json.loads(line)
                except ValueError:
                    continue  # incomplete, because the process died


class Workload:
    """The client processes of a run."""

    def __init__(self, clients: list[ClientProcess]) -> None:
        self._clients = clients
        self._readers = [
            threading.Thread(target=client.follow, name=client.config.name, daemon=True)
            for client in clients
        ]
        for reader in self._readers:
            reader.start()

    def stats(self) -> dict[str, Mapping[str, Any]]:
        """Return each process's last counters: sent, acked, failed, info, read, p50_ms, p99_ms."""
        return {client.config.name: client.stat for client in self._clients}

    def processes(self) -> dict[str, subprocess.Popen[bytes]]:
        """Return each process by its name."""
        return {client.config.name: client.process for client in self._clients}

    def silent(self) -> list[str]:
        """Return the processes with producers and without an acknowledgement, by name."""
        return [
            client.config.name
            for client in self._clients
            if client.config.writes and not client.stat.get("acked")
        ]

    def problems(self) -> list[str]:
        """Return the processes that ended with an error, in words."""
        return [
            client.result.get("problem") or _ended(client)
            for client in self._clients
            if client.process.poll() not in (None, 0)
        ]

    def stop(self, *, hurry: bool = False) -> list[str]:
        """End all clients in order: outstanding sends get their outcome, or `info` at the bound.
        Then a tested program may finish, unless there is no time (`hurry`), and ends.

        Returns what went wrong, in words. A process that hangs is killed; its history has no end.
        """
        programs = [client for client in self._clients if client.program is not None]
        others = [client for client in self._clients if client.program is None]
        if programs and not hurry and not self.problems():
            time.sleep(PASS_S)
        hung = _end(others)
        if hurry:
            for client in programs:
                client.process.terminate()
        hung += _end(programs)
        for reader in self._readers:
            reader.join(1.0)
        notes = [note for client in programs for note in client.result.get("notes", ())]
        return [*(hung or self.problems()), *notes]


def _ended(client: ClientProcess) -> str:
    code, reason = client.process.returncode, read_exit_reason(client.log_path)
    return (
        f"the clients of {client.config.name} ended with code {code}"
        f"{f': {reason}' if reason else ''}; see {client.log_path}"
    )


def _end(clients: Sequence[ClientProcess]) -> list[str]:
    """End these processes, and return which had to be killed, in words."""
    for client in clients:
        if client.process.stdin is not None:
            client.process.stdin.close()
    begun_s = time.monotonic()
    hung = []
    for client in clients:
        left_s = begun_s + client.stop_timeout_s - time.monotonic()
        try:
            client.process.wait(max(0.1, left_s))
        except subprocess.TimeoutExpired:
            client.process.kill()
            client.process.wait()
            if client.program is not None:
                ProgramProcesses(client.program).end()
            hung.append(f"the clients of {client.config.name} did not end and were killed")
    return hung


def launch(
    plan: Plan,
    target: Target,
    bootstrap: str,
    run: Run,
    access: Access = OPEN,
    needs: Collection[str] = (),
) -> Workload:
    """Start the plan's clients on the target's client machine. `needs`: the abilities that the
    run's faults need; only faults of its clocks give a tested program clocks of its own."""
    folder = run.path / "clients"
    folder.mkdir(exist_ok=True)
    clients = []
    wanted: list[tuple[str, AnyConfig]] = [
        *(
            (MODULES.get(plan.workload.client, PROGRAM), each)
            for each in client_configs(plan, bootstrap, run)
        ),
        *(
            (MODULES.get(workload.client, PROGRAM), each)
            for workload, each in compacted_configs(plan, bootstrap, run)
        ),
        *((_module(each), each) for each in further_configs(plan, bootstrap, run)),
    ]
    for module, config in wanted:
        if isinstance(config, FurtherConfig) and config.app is not None:
            config = _with_means(config, target, needs)
        path = folder / f"{config.name}.json"
        config.save(path)
        clients.append(_spawn(module, config, target, path, access))
    return Workload(clients)


def _with_means(config: FurtherConfig, target: Target, needs: Collection[str]) -> FurtherConfig:
    """Return the configuration of a tested program with what its faults need."""
    config = replace(config, clocks=Ability.PROGRAM_CLOCKS in needs)
    if (namespace := target.clients.program_namespace) is None:
        return config
    return replace(config, namespace=str(namespace), address=target.address(CLIENTS))


def _module(config: FurtherConfig) -> str:
    if config.app is not None:
        return SUPERVISOR
    if isinstance(config.wanted, WorkloadKind):
        return OF_OTHERS
    return PROGRAM if config.command else MODULES[config.wanted.client]


def client_configs(plan: Plan, bootstrap: str, run: Run) -> list[ClientConfig]:
    """Return the configuration of each topic's client process, in the plan's order of topics."""
    workload, transactional = plan.workload, workload_topics.transactional(plan)
    used = workload_topics.of_producers(plan)
    return [
        _client_config(
            plan, bootstrap, run, topic,
            producers=workload.producers,
            consumers=workload.consumers,
            rate_per_s=workload.rate_per_s,
            value_bytes=workload.value_bytes,
            sends_per_producer=workload.sends_per_producer,
            insists=workload.insists,
            zombie_batches=workload.zombie_batches,
            text=workload.payload == "text",
            read_committed=topic.name in transactional,
            command=libraries.command(workload),
        )
        for topic in plan.topics
        if topic in used
    ]  # fmt: skip


def compacted_configs(
    plan: Plan, bootstrap: str, run: Run
) -> list[tuple[CompactedWorkload, ClientConfig]]:
    """Return the configuration of each compacted topic's client process, with its workload."""
    topics = {topic.name: topic for topic in plan.topics}
    return [
        (
            workload,
            _client_config(
                plan, bootstrap, run, topics[name],
                producers=workload.producers,
                consumers=0,
                rate_per_s=workload.rate_per_s,
                value_bytes=workload.value_bytes,
                keys=[workload.keys, workload.sends_per_key, workload.delete_share],
                passes_every_s=workload.passes_every_s,
                command=libraries.command(workload),
            ),
        )
        for workload in plan.more_workloads
        if isinstance(workload, CompactedWorkload)
        for name in workload.topics
    ]  # fmt: skip


def _client_config(
    plan: Plan, bootstrap: str, run: Run, topic: Topic, **of_workload: Any
) -> ClientConfig:
    """Return the configuration of a topic's client process. of_workload: the other fields."""
    return ClientConfig(
        run_id=run.run_id,
        base_ns=run.base_ns,
        history_dir=str(run.history_dir),
        first_client=(plan.topics.index(topic) + 1) * CLIENTS_PER_PROCESS,
        bootstrap=bootstrap,
        topic=topic.name,
        partitions=topic.partitions,
        acks=topic.acks,
        idempotence=topic.idempotence,
        max_in_flight=plan.workload.max_in_flight,
        linger_ms=plan.workload.linger_ms,
        message_timeout_ms=plan.workload.message_timeout_ms,
        rotate_s=plan.rotate_s,
        **of_workload,
    )


def further_configs(plan: Plan, bootstrap: str, run: Run) -> list[FurtherConfig]:
    """Return the configuration of each further workload's process, in the plan's order. Compacted
    topics have client processes of their own: see `compacted_configs`."""
    transactional = workload_topics.transactional(plan)
    found = []
    for index, workload in enumerate(plan.more_workloads):
        if isinstance(workload, CompactedWorkload):
            continue
        topics = workload_topics.of(plan, workload)
        found.append(
            FurtherConfig(
                run_id=run.run_id,
                base_ns=run.base_ns,
                history_dir=str(run.history_dir),
                first_client=(len(plan.topics) + index + 1) * CLIENTS_PER_PROCESS,
                bootstrap=bootstrap,
                name=f"{workload.kind}@{index + 1}",
                workload=workload.model_dump(mode="json"),
                partitions={topic.name: topic.partitions for topic in topics},
                transactional=[t.name for t in topics if t.name in transactional],
                **_of_others(workload, topics),
                rotate_s=plan.rotate_s,
                command=libraries.command(workload),
            )
        )
    return found


def _of_others(workload: FurtherWorkload, topics: Sequence[Topic]) -> dict[str, Any]:
    """Return how the producers of another package's workload write to its topics."""
    if not isinstance(workload, WorkloadKind):
        return {}
    return {
        "topic_acks": {topic.name: topic.acks for topic in topics},
        "idempotent": [topic.name for topic in topics if topic.idempotence],
    }


def _spawn(
    module: str, config: AnyConfig, target: Target, path: Path, access: Access
) -> ClientProcess:
    log_path = path.with_suffix(".log")
    # The kernel closes the process's standard input when the harness dies, and then the clients
    # end by themselves. The target's own way of starting clients has no such pipe.
    with log_path.open("ab") as log, target.in_client_netns():
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(path)],
            env=access.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    target.clients.adopt(process)
    supervises = isinstance(config, FurtherConfig) and config.app is not None
    return ClientProcess(
        config=config,
        process=process,
        log_path=log_path,
        stat={},
        program=path.parent.parent / FOLDER if supervises else None,
    )

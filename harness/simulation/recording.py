"""What a simulated run recorded: rows in memory, and the run directory of any other run.

Times are ns of the world since the run began. No time comes from anywhere else, so equal seeds give
equal rows.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkers.history.history import CLUSTER, FAULTS, HISTORY
from harness.brokers.built_in import BuiltIn
from harness.recording import store
from harness.recording.history import OperationWriter, Row, RowStream
from harness.recording.store import Run
from harness.run.prepare import Prepared
from harness.systems.collect import collect_decisions, collect_replicas
from harness.systems.monitoring.quorum_times import QuorumTimes
from nodes.storage.memory import MemoryDisk


class Rows:
    """Rows with named columns, in memory."""

    def __init__(self, names: list[str]) -> None:
        self.rows: list[Row] = []
        self.append = self.rows.append
        self._names = names

    def append_named(self, **columns: Any) -> None:
        """See `RowStream.append_named`."""
        unknown = columns.keys() - set(self._names)
        assert not unknown, f"no such columns: {sorted(unknown)}"
        self.append(tuple(columns.get(name) for name in self._names))

    def flush(self) -> int:
        """Do nothing: the rows are in memory."""
        return 0

    def named(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries by column name."""
        return [dict(zip(self._names, row, strict=True)) for row in self.rows]


class History(Rows, OperationWriter):
    """The operations of one client process."""

    def __init__(self, name: str, writer_id: int, now_ns: Callable[[], int]) -> None:
        Rows.__init__(self, HISTORY.names)
        OperationWriter.__init__(self, writer_id)
        self.name = name
        self._now_ns = now_ns

    def now_ns(self) -> int:
        """See `Operations`: the world's time."""
        return self._now_ns()


@dataclass(slots=True, kw_only=True)
class Recording:
    """Everything that a run recorded."""

    prepared: Prepared
    run_id: str
    histories: list[History] = field(default_factory=list)
    cluster: Rows = field(default_factory=lambda: Rows(CLUSTER.names))
    faults: Rows = field(default_factory=lambda: Rows(FAULTS.names))
    journal: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """More entries for run.json."""
    disks: dict[int, MemoryDisk] = field(default_factory=dict)
    """The nodes' files after their stop."""
    properties: dict[int, Mapping[str, str]] = field(default_factory=dict)
    logs: dict[int, list[str]] = field(default_factory=dict)
    """The nodes' log lines, if they were kept."""
    quorum_times: QuorumTimes = field(default_factory=QuorumTimes)
    started_wall_ns: int = 0
    """The world's wall clock, which stamps the metadata log."""
    stopping_ns: int = 1 << 62
    """When the nodes were asked to stop."""
    failure: BaseException | None = None
    """The error that ended the run early."""
    troubles: list[str] = field(default_factory=list)
    """Exceptions that no code caught, in live programs."""
    digest: str = ""
    events: int = 0
    simulated_s: float = 0.0

    def record(self, kind: str, /, **fields: object) -> None:
        """Append to the journal. See `nemesis.base.Journal`."""
        self.journal.append({"kind": kind, **fields})

    def phase_ns(self, name: str) -> int:
        """Return when a phase began; 0 if the run ended before it."""
        began = (each["at_ns"] for each in self.journal if each.get("phase") == name)
        return next(began, 0)

    def store(self, root: Path, *, versions: Mapping[str, str], commit: str | None) -> Run:
        """Write the recording as a run directory below `root`. Raises StoreError."""
        plan = self.prepared.plan
        all_versions = {**versions, **BuiltIn(plan.broker_module).versions()}
        run = store.create(
            root, plan.name, versions=all_versions, commit=commit, run_id=self.run_id
        )
        run.write_plan(plan.to_json())
        (run.path / "schedule.json").write_bytes(self.prepared.schedule.to_json())
        lines = "".join(json.dumps(entry, sort_keys=True) + "\n" for entry in self.journal)
        (run.path / "simulation.jsonl").write_text(lines)
        for history in self.histories:
            _write(RowStream(run.history_dir / f"{history.name}.arrows", HISTORY), history)
        _write(run.faults_stream(), self.faults)
        cluster = run.cluster_stream()
        for row in self.cluster.rows:
            cluster.append(row)
        if self.disks:
            self._collect(run, cluster)
        cluster.close()
        run.update(
            finished=self.finished,
            notes=[*self.prepared.notes, *self.notes],
            simulation={
                "digest": self.digest,
                "events": self.events,
                "seconds": round(self.simulated_s, 3),
                "troubles": self.troubles,
            },
            **self.facts,
        )
        return run

    def _collect(self, run: Run, cluster: RowStream) -> None:
        log_dirs = {node: _files(run, node, disk) for node, disk in self.disks.items()}
        for node, properties in self.properties.items():
            text = "".join(f"{name}={value}\n" for name, value in properties.items())
            (run.node_dir(node) / "server.properties").write_text(text)
        for node, log_lines in self.logs.items():
            (run.node_dir(node) / "node.log").write_text("".join(f"{line}\n" for line in log_lines))
        collect_replicas(run, self.prepared.plan.topics, log_dirs)
        collect_decisions(
            cluster,
            log_dirs,
            self.quorum_times,
            started_wall_ns=self.started_wall_ns,
            until_ns=self.stopping_ns,
        )


def _write(stream: RowStream, rows: Rows) -> None:
    for row in rows.rows:
        stream.append(row)
    stream.close()


def _files(run: Run, node: int, disk: MemoryDisk) -> Path:
    """Write a disk's files as real files; return their folder."""
    root = run.node_dir(node) / "data" / "log"
    root.mkdir(parents=True)
    for path, _ in disk.files():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.read(path))
    return root

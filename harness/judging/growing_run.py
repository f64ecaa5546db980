"""Reads a running run for the checkers that follow it: every row once, and kept in short form.

The rows about the cluster and about faults are read on from the position of the last call. The
history is not read here: its files hold what was recorded so far.
"""

from pathlib import Path

import pyarrow as pa

from checkers.following.memory import ClusterMemory
from checkers.history.history import FAULTS, RunSources, load_table, table
from checkers.history.run_file import read_run_file
from harness.judging import judge
from harness.recording import journal
from harness.recording.cursor import Cursor
from harness.recording.journal_faults import JournalledFaults


class FollowedRun:
    """One run, followed from its beginning. All methods raise HistoryError for damaged files.

    `over` says whether the run had ended at the last read, by its journal. A run that never had a
    journal is over.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._journal = journal.JournalTail(run_dir / "journal.jsonl")
        self._cluster = Cursor(run_dir, "cluster")
        self._faults = Cursor(run_dir, "faults")
        self._unfinished = JournalledFaults()
        self.remembered = ClusterMemory()
        self.over = False

    def read_new(self) -> None:
        """Read what was recorded since the last call."""
        for rows in self._cluster.read_new():
            self.remembered.take_cluster(rows)
        recorded: set[object] = set()
        for rows in self._faults.read_new():
            self.remembered.take_faults(rows)
            recorded.update(rows["fault_id"].to_pylist())
        # The journal is read after the table, so it is complete for every fault in the table.
        self._unfinished.remove(recorded)
        for entry in self._journal.read_new():
            if entry.get("fault_id") not in recorded:
                self._unfinished.add([entry])
            self.over = self.over or entry["kind"] == journal.UNDONE
        self.over = self.over or self._journal.empty

    def sources(self) -> RunSources:
        """Return what a suspected anomaly is judged by: everything that is recorded by now.

        When the run is over, the files themselves are returned.
        """
        if self.over:
            return judge.current_sources(self._run_dir)
        self.read_new()
        faults = [self.remembered.faults(), table(FAULTS, self._unfinished.rows())]
        return RunSources(
            history=load_table(self._run_dir, "history"),
            cluster=(self.remembered.cluster(),),
            faults=(pa.concat_tables(faults),),
            replicas=(),
            replica_ends=(),
            run_file=read_run_file(self._run_dir),
        )

"""A run that goes on, read as its follower needs it: every row once, and remembered in short.

What the cluster said and which faults struck is read on from where the last look ended. The history
is only named: what was recorded by now is in its files.
"""

from pathlib import Path

import pyarrow as pa

from checkers.following.memory import Remembered
from checkers.history.history import FAULTS, RunSources, load_table, table
from checkers.history.run_file import read_run_file
from harness.judging import judge
from harness.recording import journal
from harness.recording.cursor import Cursor
from harness.recording.journal_faults import Journalled


class FollowedRun:
    """One run, followed from its beginning on. All methods raise HistoryError for damaged files.

    over: whether it had ended at the last look, by its journal; a run that never had one is over.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._journal = journal.Tail(run_dir / "journal.jsonl")
        self._cluster = Cursor(run_dir, "cluster")
        self._faults = Cursor(run_dir, "faults")
        self._unfinished = Journalled()
        self.remembered = Remembered()
        self.over = False

    def look(self) -> None:
        """Read what was recorded since the last look."""
        for rows in self._cluster.look():
            self.remembered.take_cluster(rows)
        recorded: set[object] = set()
        for rows in self._faults.look():
            self.remembered.take_faults(rows)
            recorded.update(rows["fault_id"].to_pylist())
        # After the record: so it has what was said of every fault that is in the record by now.
        self._unfinished.forget(recorded)
        for entry in self._journal.look():
            if entry.get("fault_id") not in recorded:
                self._unfinished.take([entry])
            self.over = self.over or entry["kind"] == journal.UNDONE
        self.over = self.over or self._journal.empty

    def sources(self) -> RunSources:
        """What a suspect is judged by: all that is recorded by now, and once the run is over all
        of it as it is."""
        if self.over:
            return judge.live_sources(self._run_dir)
        self.look()
        faults = [self.remembered.faults(), table(FAULTS, self._unfinished.rows())]
        return RunSources(
            history=load_table(self._run_dir, "history"),
            cluster=(self.remembered.cluster(),),
            faults=(pa.concat_tables(faults),),
            replicas=(),
            replica_ends=(),
            run_file=read_run_file(self._run_dir),
        )

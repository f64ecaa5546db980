"""The process that supervises a tested program: its start, its counters and its end.

    python -m harness.workloads.app CONFIG.json

It runs until its standard input closes, so that a dead harness leaves no program behind, and then
lets the program finish. SIGTERM ends that wait. `result.json` beside the program's logs says what
went wrong. Exit code 0, or 1 when the run is useless.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from harness.plans.app_workload import AppWorkload
from harness.recording.history import FLUSH_INTERVAL_S, FLUSH_ROWS, HistoryWriter
from harness.workloads.app.outputs.topic import NoTopic
from harness.workloads.app.processes import FOLDER, RESULT
from harness.workloads.app.supervisor import Supervisor
from harness.workloads.client_histories import open_history
from harness.workloads.configs import load
from harness.workloads.counters import STAT_INTERVAL_S, print_stat
from harness.workloads.further_config import FurtherConfig


class _Turns:
    """Flushes the history and prints the counters when they are due."""

    def __init__(
        self, config: FurtherConfig, supervisor: Supervisor, writer: HistoryWriter
    ) -> None:
        self._config = config
        self._supervisor = supervisor
        self._writer = writer
        self._flush_s = self._stat_s = 0.0

    def __call__(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._flush_s or len(self._writer) > FLUSH_ROWS:
            self._writer.flush()
            self._flush_s = now_s + FLUSH_INTERVAL_S
        if now_s >= self._stat_s:
            print_stat(self._config, [self._supervisor.tally], self._writer)
            self._stat_s = now_s + STAT_INTERVAL_S


def main(argv: list[str]) -> int:
    """Run the process; `argv` has the path of its configuration. Return the exit code."""
    config = load(Path(argv[1]))
    assert isinstance(config, FurtherConfig)
    wanted = config.wanted
    assert isinstance(wanted, AppWorkload)
    stop, hurry = threading.Event(), threading.Event()

    def watch_stdin() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        stop.set()

    def end_early() -> None:
        hurry.set()
        stop.set()

    # In another thread: the handler may interrupt this thread inside the event's own lock.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=end_early).start())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness handles Ctrl-C and stops its clients
    threading.Thread(target=watch_stdin, name="stdin", daemon=True).start()
    writer = open_history(config)
    notes: list[str] = []
    try:
        supervisor = Supervisor(config, wanted, writer)
    except (NoTopic, ValueError, OSError) as error:
        problem: str | None = str(error)
    else:
        turn = _Turns(config, supervisor, writer)
        problem = supervisor.run(stop.is_set, turn)
        problem = supervisor.finish(problem, hurry.is_set, turn)
        notes = supervisor.notes
        turn()
    writer.close()
    folder = Path(config.history_dir).parent / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / RESULT).write_text(json.dumps({"problem": problem, "notes": notes}) + "\n")
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))

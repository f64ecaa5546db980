"""Background jobs: work on a cluster under faults that cannot be done at once.

A job is tried again after every error, until it is done or dropped. One task tries the jobs in
turn, so no two jobs run at the same time. At the end, the jobs that are not done are reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.concurrency import BackgroundTask, TaskRunner, ThreadTaskRunner

POLL_S: Final = 0.2
"""The pause between two tries of a job."""

Step = Callable[[], bool]
"""Does the next step; true when everything is done. After an error it is called again."""


@dataclass(slots=True, kw_only=True, eq=False)
class BackgroundJob:
    """One piece of work, for a layer of changes."""

    layer: str
    text: str
    step: Step
    last_error: str = ""

    def try_once(self) -> bool:
        """Do the next step; return whether the job is done."""
        try:
            return self.step()
        except Exception as error:
            self.last_error = str(error) or type(error).__name__
            return False

    def __str__(self) -> str:
        return f"{self.text} ({self.last_error})" if self.last_error else self.text


class BackgroundJobs:
    """All jobs of a run, and the task that does them. Any task may call."""

    def __init__(self, task_runner: TaskRunner | None = None) -> None:
        self._task_runner = task_runner or ThreadTaskRunner()
        self._mutex = self._task_runner.mutex()
        self._running = self._task_runner.mutex()
        self._open: list[BackgroundJob] = []
        self._ended = False
        self._task: BackgroundTask | None = None

    def add(self, job: BackgroundJob) -> None:
        """Add a job."""
        with self._mutex:
            self._open.append(job)
            if self._task is None:
                self._task = self._task_runner.spawn(self._run, "errands")

    def drop(self, layer: str) -> None:
        """Drop a layer's jobs; none of them runs any more when this returns."""
        with self._running, self._mutex:
            self._open = [each for each in self._open if each.layer != layer]

    def pending(self, layer: str | None = None) -> Sequence[str]:
        """Return the jobs that are not done, of a layer or of all, with their last errors."""
        with self._mutex:
            return [str(each) for each in self._open if layer in (None, each.layer)]

    def finish(self, timeout_s: float) -> Sequence[str]:
        """Wait until all jobs are done, or none was done for `timeout_s`; return what is left."""
        last_s, before = self._task_runner.now_s(), len(self.pending())
        while (left := self.pending()) and self._task_runner.now_s() < last_s + timeout_s:
            if len(left) < before:
                last_s, before = self._task_runner.now_s(), len(left)
            self._task_runner.sleep(POLL_S)
        return left

    def close(self) -> None:
        """Start no more jobs, and wait for the running one."""
        self._ended = True
        if self._task is not None:
            self._task.wait()

    def _run(self) -> None:
        while not self._ended:
            self._task_runner.sleep(POLL_S)
            with self._mutex:
                waiting = list(self._open)
            for job in waiting:
                with self._running:
                    with self._mutex:
                        dropped = job not in self._open
                    if not dropped and not self._ended and job.try_once():
                        with self._mutex:
                            self._open.remove(job)

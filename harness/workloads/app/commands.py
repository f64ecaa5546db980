"""Instances that are commands of this machine: each leads a session and a process group."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.targets.linux import processes
from harness.targets.linux.network.namespaces import entered
from harness.workloads.app.started import ProgramFailed


class StartedCommand:
    """A process. See `Started`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """See the protocol."""
        return self._process.pid

    @property
    def output(self) -> IO[bytes]:
        """See the protocol."""
        assert self._process.stdout is not None
        return self._process.stdout

    def poll(self) -> int | None:
        """See the protocol."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int:
        """See the protocol."""
        return self._process.wait(timeout_s)

    def signal(self, number: signal.Signals) -> None:
        """See the protocol."""
        processes.signal_group(self.pid, number)

    def clean_up(self) -> None:
        """See the protocol."""
        processes.signal_group(self.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Starts commands. See `Starter`."""

    command: Callable[[int], Sequence[str]]
    """The command of an instance."""
    environment: Callable[[int], Mapping[str, str]]
    """The whole environment of an instance."""
    directory: Path
    namespace: Path | None
    """The network namespace in which the processes run, if there is one."""

    def __call__(self, number: int) -> StartedCommand:
        """Start an instance. Raises ProgramFailed."""
        command = self.command(number)
        try:
            with nullcontext() if self.namespace is None else entered(self.namespace):
                process = subprocess.Popen(
                    command,
                    cwd=self.directory,
                    env=self.environment(number),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ProgramFailed(
                f"the program cannot be started: {command[0]}: {error.strerror or error}"
            ) from error
        return StartedCommand(process)

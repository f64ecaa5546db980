"""The process that keeps faults in force on a detached cluster, and heals them on request.

    python -m harness.run.by_hand.keeper RUN

`reach` starts it for the first fault; it ends by itself soon after the last fault is healed, or at
once if another command wants to change the cluster then. While it runs it holds the cluster's
journal. If it is killed, its faults are still in the journal: the
next keeper takes them over and heals them, and `highwater cluster down` removes all.
"""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Final

from harness.recording import journal
from harness.run.by_hand.client import BreakerClient
from harness.run.by_hand.protocol import FAILURE, Refused
from harness.targets.linux.clean import has_living_process, is_detached_and_alive

READY: Final = b"ready\n"
LOG: Final = "faults.log"
POLL_S: Final = 0.2
IDLE_S: Final = 2.0
"""How long a keeper without faults and connections lives."""


def reach(run_dir: Path) -> BreakerClient:
    """Connect to the breaker of a running cluster; start a keeper if it has none. Raises Refused.

    A cluster in the foreground has a breaker of its own.
    """
    client = BreakerClient.of_run(run_dir)
    if client is not None:
        return client
    if not is_detached_and_alive(journal.read(run_dir / "journal.jsonl")):
        raise Refused(f"{run_dir}: this cluster is not up, or it is just being started or ended")
    with (
        (run_dir / LOG).open("ab") as log,
        subprocess.Popen(
            [sys.executable, "-m", "harness.run.by_hand.keeper", str(run_dir)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        ready = _first_line(process.stdout)
        process.stdout.close()
        process.returncode = 0  # it lives on: nobody waits for it
    client = BreakerClient.of_run(run_dir) if ready == READY else None
    if client is None:
        said = ready.decode(errors="replace").strip() or f"see {run_dir / LOG}"
        raise Refused(f"the faults of this cluster have no keeper: {said}", FAILURE)
    return client


def _first_line(output: IO[bytes]) -> bytes:
    return output.readline()


def keep(run_dir: Path, ready: Callable[[], None]) -> None:
    """Answer requests until nothing is in force any more. Raises ClusterError, OSError."""
    from harness.run.by_hand.attached import Attached
    from harness.run.by_hand.handlers import BreakingHandlers
    from harness.run.by_hand.server import Listener
    from harness.run.cluster_membership import locked_cluster

    end = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        end.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with locked_cluster(run_dir) as locked:
        breaking = BreakingHandlers(
            Attached(
                run=locked.run, target=locked.target, system=locked.system, journal=locked.journal
            )
        )
        ended: list[str] = []

        def heal_and_end() -> list[str]:
            ended.extend(breaking.close())
            end.set()
            return ended

        def end_if_idle() -> bool:
            if not breaking.in_force():
                end.set()
            return end.is_set()

        answers = {**breaking.handlers(), "end": heal_and_end, "end-if-idle": end_if_idle}
        listener = Listener(locked.run.path, answers)
        try:
            ready()
            idle_s = 0.0
            while idle_s < IDLE_S and not end.wait(POLL_S):
                busy = listener.connections or breaking.in_force()
                idle_s = 0.0 if busy else idle_s + POLL_S
                if not has_living_process(locked.journal.records()):
                    break  # the cluster is gone, and its faults with it
        finally:
            listener.close()
            breaking.close()


def main(argument: str) -> int:
    """Run a keeper; its first line of output says `ready`, or why there is none."""
    import nodes.kio_alone  # noqa: F401 - before anything imports kio

    def ready() -> None:
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()

    try:
        keep(Path(argument), ready)
    except Exception as error:
        print(str(error) or type(error).__name__, flush=True)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

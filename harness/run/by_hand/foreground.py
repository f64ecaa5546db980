"""Lets people break a cluster that runs in the foreground; its own process holds the breaker."""

from collections.abc import Iterator
from contextlib import contextmanager

from harness.recording.journal import Journal
from harness.recording.store import Run
from harness.run.by_hand.attached import Attached
from harness.run.by_hand.handlers import BreakingHandlers
from harness.run.by_hand.server import Listener
from harness.systems.base import DeployedSystem
from harness.targets.base import Target


@contextmanager
def serving(run: Run, target: Target, system: DeployedSystem, journal: Journal) -> Iterator[None]:
    """Answer requests for faults in the block, and heal everything at its end."""
    attached = Attached(run=run, target=target, system=system, journal=journal)
    breaking = BreakingHandlers(attached)
    listener = Listener(run.path, breaking.handlers())
    try:
        yield
    finally:
        listener.close()
        breaking.close()

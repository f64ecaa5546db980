"""What is checked of one log on a disk that no fault damaged: its leader epochs, its indexes, and
what compaction removed.
"""

from collections.abc import Callable

from harness.simulation.invariants.compaction import CompactionChecker
from harness.simulation.invariants.indexes import IndexChecker
from harness.simulation.invariants.leader_epochs import LeaderEpochChecker
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.wall_clock import Clock
from harness.simulation.world.disk import SimDisk
from nodes.log.log import Log


class SoundLogChecker:
    """See the module. `note` is called when there is something to check; `clock` returns the
    node's wall clock.
    """

    def __init__(
        self,
        copy: Copy,
        log: Log,
        disk: SimDisk,
        note: Callable[[], None],
        clock: Callable[[], Clock],
    ) -> None:
        self._copy = copy
        self._log = log
        self.epochs = LeaderEpochChecker(copy, log, note)
        self.indexes = IndexChecker(copy, log, disk)
        self.compactions = CompactionChecker(copy, log, clock)

    def check(self) -> None:
        """Check what may have changed; the copy was read before. Raises InvariantBroken.

        A log that failed a write may contradict itself; it is not used any more.
        """
        if not self._copy.unreadable and not self._log.offline:
            self.epochs.check()
            self.indexes.check()
            self.compactions.check()

"""Members of a consumer group that read topics, each in a thread.

They do the same as our own clients, see `harness.workloads.further.own.groups`.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from harness.plans.workloads import GroupWorkload
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.further.rules import COMMIT_S, READ_AT_A_TIME, leaves, positions_behind
from harness.workloads.further.threads.library import Library, Subscribed
from harness.workloads.further.threads.members import Members
from harness.workloads.further_config import FurtherConfig
from nodes.ids import TopicPartition

POLL_S: Final = 0.1


class Readers:
    """The members of the group; `tally` makes the counters of one."""

    def __init__(
        self,
        config: FurtherConfig,
        wanted: GroupWorkload,
        library: Library,
        histories: FurtherHistories,
        stop: threading.Event,
        tally: Callable[[], Tally],
    ) -> None:
        self._wanted = wanted
        self._members = Members(config, wanted, library, histories, stop, tally)

    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """Return what each thread does until the stop, with its name."""
        return [(f"member-{n}", partial(self._in_turn, n)) for n in range(self._wanted.members)]

    def _in_turn(self, index: int) -> None:
        """Be one member after the other until the stop."""
        members, tally = self._members, self._members.tally()
        while not members.stop.is_set():
            reader = _Reader(at_most_once=self._wanted.processing == "at-most-once")
            subscribed, end_s = members.subscribe(index, tally, reader.before_revocation)
            reader.subscribed = subscribed
            while members.goes_on(subscribed, end_s):
                reader.read()
            subscribed.close(leave=leaves(members.stop, members.rng) and not subscribed.over)


class _Reader:
    """What one member does with its records."""

    subscribed: Subscribed

    def __init__(self, *, at_most_once: bool) -> None:
        self._at_most_once = at_most_once
        self._committed: dict[TopicPartition, int] = {}
        self._due_s = 0.0

    def read(self) -> None:
        """Take what is there, and commit when it is time."""
        subscribed = self.subscribed
        taken = subscribed.take(READ_AT_A_TIME, POLL_S)
        if not self._at_most_once:
            subscribed.record(taken)
            if time.monotonic() >= self._due_s:
                self._due_s = time.monotonic() + COMMIT_S
                self._commit(subscribed.positions)
            return
        if not taken:
            return
        results = subscribed.commit(positions_behind(taken))
        got = [each for each in taken if results[each.place] is Outcome.OK]
        subscribed.record(got)
        if len(got) < len(taken) and not subscribed.over:
            # Its positions are behind records that nobody got, and the next commit would pass them.
            subscribed.over = not subscribed.go_back()

    def before_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Commit the positions of partitions that the member gives up."""
        if not self._at_most_once:
            positions = self.subscribed.positions
            self._commit({p: positions[p] for p in partitions})

    def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the positions that have changed."""
        offsets = {p: n for p, n in positions.items() if self._committed.get(p) != n and n > 0}
        if offsets:
            results = self.subscribed.commit(offsets)
            self._committed |= {p: offsets[p] for p, r in results.items() if r is Outcome.OK}

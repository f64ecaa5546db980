"""Members of a consumer group: one takes the place of the other until the stop."""

import random
import threading
import time
from collections.abc import Callable

from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.further.rules import member_life_s
from harness.workloads.further.threads.library import (
    BeforeRevocation,
    Group,
    Library,
    Subscribed,
)
from harness.workloads.further_config import FurtherConfig


class Members:
    """The members of one group, of which each reads the topics of `wanted`; `tally` makes the
    counters of one."""

    def __init__(
        self,
        config: FurtherConfig,
        wanted: Group,
        library: Library,
        histories: FurtherHistories,
        stop: threading.Event,
        tally: Callable[[], Tally],
    ) -> None:
        self.config = config
        self.histories = histories
        self.stop = stop
        self.tally = tally
        self.library = library
        self.rng = random.Random()
        self._wanted = wanted

    def subscribe(
        self, index: int, tally: Tally, before_revocation: BeforeRevocation
    ) -> tuple[Subscribed, float]:
        """Make the member number `index`, under the next client number; return also when it ends,
        in seconds of the monotonic clock."""
        wanted, histories = self._wanted, self.histories
        client = histories.next_client()
        reads = histories.member_reads(client, wanted.read_topics, tally, wanted.group)
        membership = histories.membership(client, wanted.group, tally)
        made = self.library.member(wanted, index, reads, membership, before_revocation)
        return made, self._end_s(client)

    def _end_s(self, client: int) -> float:
        """Return when a member that begins now ends. The last clients that have a number stay."""
        replaceable = self.histories.is_replaceable(client)
        life_s = member_life_s(self._wanted.member_life_s, self.rng, replaceable=replaceable)
        return time.monotonic() + life_s

    def goes_on(self, subscribed: Subscribed, end_s: float) -> bool:
        """Return whether a member takes part any longer."""
        return not (self.stop.is_set() or subscribed.over or time.monotonic() >= end_s)

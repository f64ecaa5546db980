"""What a partition's leader knows of one follower, from its fetches in the current leader epoch.

A partition whose follower is caught up and idle is not named in its incremental fetches (KIP-227),
yet every one of them says again that the follower has everything below the offset that it named
last. So the leader notes the time of a fetch once for the whole session (its Pulse), and a
caught-up follower's progress refers to it. Pure; times are monotonic milliseconds.
"""

from dataclasses import dataclass

from nodes.ids import NO_OFFSET, BrokerEpoch, Offset


@dataclass(slots=True)
class Pulse:
    """When the follower last fetched in one fetch session."""

    fetched_ms: float = 0.0


@dataclass(slots=True)
class FollowerProgress:
    """One follower; `caught_up_ms` is when it was last known to have all that the leader had."""

    log_end: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)  # noqa: RUF009 - an int
    caught_up_ms: float = 0.0
    _fetched_ms: float = 0.0
    _leader_end_then: Offset = NO_OFFSET
    _pulse: Pulse | None = None

    def fetched(
        self,
        offset: Offset,
        leader_end: Offset,
        now_ms: float,
        *,
        pulse: Pulse | None = None,
    ) -> None:
        """The follower asks for `offset`: it has all below. `pulse`: of its session, if it has one.

        It is caught up at the time of a fetch that reaches the leader's end, or of the fetch
        before, if this one reaches what the end was then (so a follower of a busy leader is not
        lagging by definition).
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_then != NO_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end = offset
        self._fetched_ms = now_ms
        self._leader_end_then = leader_end
        self._pulse = pulse

    def leader_grows(self, leader_end: Offset) -> None:
        """The leader is about to append at `leader_end`: from then on a pulse proves less.

        Until now every pulse repeated that the follower had everything; the last one counts.
        """
        if self._pulse is not None and self.log_end >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self._pulse.fetched_ms)

    def left_session(self, pulse: Pulse, leader_end: Offset) -> None:
        """The session of `pulse` does not hold the partition any more."""
        if self._pulse is pulse:
            self.leader_grows(leader_end)
            self._pulse = None

    def lags(self, leader_end: Offset, lag_max_ms: float, now_ms: float) -> bool:
        """Whether it is behind the leader's end and has not been at it for `lag_max_ms`."""
        return self.log_end < leader_end and now_ms - self.caught_up_ms > lag_max_ms

"""The progress of one follower, as the leader sees it from fetches in the current leader epoch.

Incremental fetches (KIP-227) omit a partition that is idle and whose follower is caught up. Each of
them still means that the follower has everything below the offset that it named last. So the leader
stores the time of a fetch once for the whole session (SessionActivity), and the progress of a
caught-up follower refers to it. Pure; times are monotonic milliseconds.
"""

from dataclasses import dataclass

from nodes.ids import NO_OFFSET, BrokerEpoch, Offset


@dataclass(slots=True)
class SessionActivity:
    """The time of a follower's last fetch in one fetch session."""

    fetched_ms: float = 0.0


@dataclass(slots=True)
class FollowerProgress:
    """One follower; `caught_up_ms` is when it last had all records of the leader."""

    log_end: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    broker_epoch: BrokerEpoch = BrokerEpoch(-1)  # noqa: RUF009 - an int
    caught_up_ms: float = 0.0
    _fetched_ms: float = 0.0
    _leader_end_then: Offset = NO_OFFSET
    _activity: SessionActivity | None = None

    def fetched(
        self,
        offset: Offset,
        leader_end: Offset,
        now_ms: float,
        *,
        activity: SessionActivity | None = None,
    ) -> None:
        """The follower fetches from `offset`: it has all below. `activity` is its session's, if
        any.

        The follower is caught up at the time of this fetch if `offset` is the leader's end. If
        `offset` reaches the end at the previous fetch, it was caught up at that fetch; so a
        follower of a busy leader does not always lag.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_then != NO_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end = offset
        self._fetched_ms = now_ms
        self._leader_end_then = leader_end
        self._activity = activity

    def before_append(self, leader_end: Offset) -> None:
        """The leader is about to append at `leader_end`.

        Until now every fetch of the session meant that the follower had everything; the time of the
        last one is kept. Later fetches of the session no longer mean that.
        """
        if self._activity is not None and self.log_end >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self._activity.fetched_ms)

    def left_session(self, activity: SessionActivity, leader_end: Offset) -> None:
        """The session of `activity` no longer contains the partition."""
        if self._activity is activity:
            self.before_append(leader_end)
            self._activity = None

    def lags(self, leader_end: Offset, lag_max_ms: float, now_ms: float) -> bool:
        """Whether the follower is behind the leader's end, and not caught up for `lag_max_ms`."""
        return self.log_end < leader_end and now_ms - self.caught_up_ms > lag_max_ms

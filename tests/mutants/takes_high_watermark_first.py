"""A new follower takes over the leader's high watermark before it has cut its own tail.

The answer that tells it where the logs part tells the leader's high watermark as well. For as long
as the tail is there, consumers who read from this replica are given it as committed (KAFKA-14704).
"""

from typing import Any

from nodes.ids import Offset
from nodes.server.fetcher import Fetcher
from nodes.server.following import Followed
from nodes.server.replica import Replica
from tests.mutants.patching import Undo, patch, run

BUG = "the leader's high watermark before the truncation"
SOURCES = ("KAFKA-14704",)
SHOWS = ("truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = Fetcher._take_part

    def take_part(self: Fetcher, replica: Replica, followed: Followed, answer: Any) -> bool:
        """The high watermark, then the rest."""
        leader_hw = Offset(answer.high_watermark)
        if replica.state.follow_high_watermark(leader_hw, replica.log.end_offset):
            replica.watchers.committed()
        return sound(self, replica, followed, answer)

    return patch(Fetcher, _take_part=take_part)


if __name__ == "__main__":
    run(apply)

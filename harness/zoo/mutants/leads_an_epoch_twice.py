"""A quorum leader that restarts goes on leading its epoch, though its log may have lost a tail.

What others fetched of it before it was flushed is theirs; what it appends next is another record at
the same epoch and offset (KAFKA-10527).
"""

from dataclasses import replace

from harness.zoo.mutants.patching import Undo, patch, run, together
from nodes.raft.elections import Elections
from nodes.raft.roles import Role

BUG = "a quorum leader keeps its epoch after a restart"
SOURCES = ("KAFKA-10527",)
SHOWS = ("lost-write", "unavailable")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound_ask, sound_transition = Elections._ask_around, Elections.transition

    def ask_around(self: Elections, now_ms: float) -> None:
        """Nobody is asked whom one has led."""
        if self.role is not Role.RESIGNED:
            sound_ask(self, now_ms)
            return
        self._persist(replace(self._state, voted_for=self.node_id))
        self._lead(now_ms)

    def transition(self: Elections, role: Role) -> None:
        """RESIGNED may lead as well."""
        if self.role is Role.RESIGNED and role is Role.LEADER:
            self.role = role
        else:
            sound_transition(self, role)

    return together(patch(Elections, _ask_around=ask_around, transition=transition))


if __name__ == "__main__":
    run(apply)

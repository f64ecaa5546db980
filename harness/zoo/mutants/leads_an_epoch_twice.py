"""A restarted quorum leader leads its epoch again, although its log may have lost its tail.

Other nodes keep what they fetched before it was flushed; the leader's next record is another record
at the same epoch and offset (KAFKA-10527).
"""

from dataclasses import replace

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.raft.elections import Elections
from nodes.raft.roles import Role

BUG = "a quorum leader keeps its epoch after a restart"
SOURCES = ("KAFKA-10527",)
SHOWS = ("lost-write", "unavailable")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original_ask, original_transition = Elections._start_pre_vote, Elections.transition

    def start_pre_vote(self: Elections, now_ms: float) -> None:
        """Lead again at once, without an election."""
        if self.role is not Role.RESIGNED:
            original_ask(self, now_ms)
            return
        self._persist(replace(self._state, voted_for=self.node_id))
        self._become_leader(now_ms)

    def transition(self: Elections, role: Role) -> None:
        """Also permit the transition from RESIGNED to LEADER."""
        if self.role is Role.RESIGNED and role is Role.LEADER:
            self.role = role
        else:
            original_transition(self, role)

    return undo_all(patch(Elections, _start_pre_vote=start_pre_vote, transition=transition))


if __name__ == "__main__":
    run(apply)

"""A vote is answered before it is on disk.

A voter that loses power right after it forgets it, and may vote for another in the same epoch: two
nodes lead one epoch, each by a majority.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.raft.election_state import FILE_NAME, encode
from nodes.raft.messages import Action, Persist
from nodes.server.quorum.member import DIRECTORY, QuorumMember

BUG = "a vote that is not persisted"
SOURCES = ("Raft, figure 2", "KIP-595")
SHOWS = ("lost-write", "unavailable")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = QuorumMember._execute

    def execute(self: QuorumMember, action: Action) -> None:
        """Write the file, and leave its way to the disk to the kernel."""
        if isinstance(action, Persist):
            data = encode(action.state, self.log.voters)
            self._disk.write_atomic(f"{DIRECTORY}/{FILE_NAME}", data, durable=False)
        else:
            sound(self, action)

    return patch(QuorumMember, _execute=execute)


if __name__ == "__main__":
    run(apply)

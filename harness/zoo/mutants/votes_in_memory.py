"""A voter answers before its vote is on the disk.

A voter that loses power right afterwards forgets its vote, and may vote for another candidate in
the same epoch: two nodes lead one epoch, each with a majority.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.raft.election_state import FILE_NAME, encode
from nodes.raft.messages import Action, Persist
from nodes.server.quorum.member import DIRECTORY, QuorumMember

BUG = "a vote that is not persisted"
SOURCES = ("Raft, figure 2", "KIP-595")
SHOWS = ("lost-write", "unavailable")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = QuorumMember._execute

    def execute(self: QuorumMember, action: Action) -> None:
        """Write the file, but do not flush it."""
        if isinstance(action, Persist):
            data = encode(action.state, self.log.voters)
            self._disk.write_atomic(f"{DIRECTORY}/{FILE_NAME}", data, durable=False)
        else:
            original(self, action)

    return patch(QuorumMember, _execute=execute)


if __name__ == "__main__":
    run(apply)

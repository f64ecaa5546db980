"""A voter is identified by its node id, whatever disk it is on.

A voter that returns with an empty disk counts as the voter that promised to keep what was
committed, and votes for a candidate that lacks it (KAFKA-14077).
"""

from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.ids import NodeId
from nodes.raft.elections import Elections
from nodes.raft.leadership import Leadership
from nodes.raft.voters import ReplicaKey, Voter

BUG = "a voter returns empty"
SOURCES = ("KAFKA-14077", "KIP-853")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def is_replica(self: Voter, key: ReplicaKey) -> bool:
    """Compare the node id only."""
    return key.node_id == self.node_id


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original_check, original_voter = Elections._check_voters, Leadership._voter

    def check_voters(
        self: Elections, now_ms: float, sender: NodeId, addressed: UUID | None
    ) -> ErrorCode:
        """Ignore the directory that the request names."""
        return original_check(self, now_ms, sender, None)

    def voter(self: Leadership, replica: ReplicaKey) -> object:
        """Return the voter's progress, whichever directory it fetches for."""
        if replica.node_id in self.voters:
            self.voters[replica.node_id].directory_id = replica.directory_id
        return original_voter(self, replica)

    return undo_all(
        patch(Voter, is_replica=is_replica),
        patch(Elections, _check_voters=check_voters),
        patch(Leadership, _voter=voter),
    )


if __name__ == "__main__":
    run(apply)

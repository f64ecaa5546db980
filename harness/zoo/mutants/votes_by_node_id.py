"""A voter is its number, whatever disk it is on.

A voter that returns with an empty disk counts as the one that promised to keep what was committed,
and votes for a candidate that lacks it (KAFKA-14077).
"""

from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run, together
from nodes.ids import NodeId
from nodes.raft.elections import Elections
from nodes.raft.leadership import Leadership
from nodes.raft.voters import ReplicaKey, Voter

BUG = "a voter returns empty"
SOURCES = ("KAFKA-14077", "KIP-853")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def is_replica(self: Voter, key: ReplicaKey) -> bool:
    """By its number."""
    return key.node_id == self.node_id


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound_check, sound_voter = Elections._check_voters, Leadership._voter

    def check_voters(
        self: Elections, now_ms: float, sender: NodeId, addressed: UUID | None
    ) -> ErrorCode:
        """Whichever directory was meant."""
        return sound_check(self, now_ms, sender, None)

    def voter(self: Leadership, replica: ReplicaKey) -> object:
        """The voter's progress, from whatever directory it fetches."""
        if replica.node_id in self.voters:
            self.voters[replica.node_id].directory_id = replica.directory_id
        return sound_voter(self, replica)

    return together(
        patch(Voter, is_replica=is_replica),
        patch(Elections, _check_voters=check_voters),
        patch(Leadership, _voter=voter),
    )


if __name__ == "__main__":
    run(apply)

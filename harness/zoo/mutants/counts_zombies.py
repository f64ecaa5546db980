"""A follower's fetch in an older epoch is refused, but what it claims to have is counted.

Offsets mean something only together with an epoch. The follower's records at those offsets are of
another leader: the new one commits records that this follower does not have, and that it will cut
what it has instead does not help when it is elected first.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.replicas.replica import Replica
from nodes.server.requests.fetch.partitions import Part
from nodes.server.requests.fetch.read import PartReader, Reader

BUG = "the high watermark by an old epoch's fetch"
SOURCES = ("KIP-101", "KIP-595")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = PartReader.agreeing

    def agreeing(self: PartReader, part: Part, reader: Reader) -> Replica | None:
        """Also the replica of whose present epoch the follower has not heard."""
        found = sound(self, part, reader)
        replica = part.replica
        if found is not None or replica is None or reader.node not in replica.state.followers:
            return found
        behind = 0 <= part.leader_epoch < replica.state.leader_epoch
        return replica if behind and part.offset <= replica.log.end_offset else None

    return patch(PartReader, agreeing=agreeing)


if __name__ == "__main__":
    run(apply)

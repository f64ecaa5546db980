"""The controller adds a replica to the ISR by its number, whichever life of it was in sync.

A leader's request to add a follower may arrive when that follower has died and come back with an
empty disk (KIP-903). In the ISR it may be elected, and the others cut everything.
"""

from dataclasses import replace

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller import isr
from nodes.controller.isr import ANY_BROKER_EPOCH, IsrRequest
from nodes.metadata.image import ClusterImage, PartitionImage

BUG = "a stale AlterPartition"
SOURCES = ("KIP-903", "KAFKA-15221")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = isr._check_members

    def check_members(image: ClusterImage, partition: PartitionImage, request: IsrRequest) -> None:
        """Every epoch will do."""
        anyhow = tuple((node, ANY_BROKER_EPOCH) for node, _ in request.isr)
        sound(image, partition, replace(request, isr=anyhow))

    return patch(isr, _check_members=check_members)


if __name__ == "__main__":
    run(apply)

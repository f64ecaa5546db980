"""The controller adds a replica to the ISR by its node id, whichever incarnation was in sync.

A leader's request to add a follower may arrive after the follower died and came back without its
log (KIP-903). As an ISR member it may be elected, and the others truncate everything.
"""

from dataclasses import replace

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller import isr
from nodes.controller.isr import ANY_BROKER_EPOCH, AlterIsrRequest
from nodes.metadata.image import ClusterImage, PartitionImage

BUG = "a stale AlterPartition"
SOURCES = ("KIP-903", "KAFKA-15221")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = isr._check_members

    def check_members(
        image: ClusterImage, partition: PartitionImage, request: AlterIsrRequest
    ) -> None:
        """Accept each broker epoch."""
        anyhow = tuple((node, ANY_BROKER_EPOCH) for node, _ in request.isr)
        original(image, partition, replace(request, isr=anyhow))

    return patch(isr, _check_members=check_members)


if __name__ == "__main__":
    run(apply)

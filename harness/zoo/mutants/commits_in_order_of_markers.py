"""The offset of a committed transaction replaces one that was committed after it was sent.

Compaction keeps the later record of the two, so the next coordinator remembers another offset than
this one: the committed offset goes back, or forward.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups.offsets import Offsets
from nodes.coordinators.machine import ProducerStamp

BUG = "offsets of transactions count in the order of the markers"
SOURCES = ("KIP-98",)
SHOWS = ("lost-commit", "delivered-again")


def end_transaction(self: Offsets, producer: ProducerStamp, *, commit: bool) -> None:
    """Let each offset of the transaction count."""
    for key, value in self._pending.pop(producer.producer_id, {}).items():
        self._close(key, producer.producer_id)
        if commit:
            topics = self._committed.setdefault(key.group_id, {})
            topics.setdefault(key.topic, {})[key.partition] = value


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Offsets, end_transaction=end_transaction)


if __name__ == "__main__":
    run(apply)

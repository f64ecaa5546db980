"""Chooses batches of ended producer epochs that are sent again, as a zombie would. Pure.

A broker must refuse every batch of an earlier epoch (KIP-98). It is easily refused by its sequence
too. So the chosen batch has the sequence that the broker expects next of the present epoch: only
the epoch shows that it is old. Its records have their outcomes already, so a broker that appends it
again makes duplicates, which the history shows.
"""

from dataclasses import dataclass, field
from typing import Final

from harness.workloads.clients.own.partition_queue import Batch

KEPT_BATCHES: Final = 20
"""How many batches of an epoch are kept, the first ones."""


@dataclass(slots=True)
class _Epochs:
    """The appended batches of two epochs of one partition, by their first sequence."""

    epoch: int = -1
    present: dict[int, Batch] = field(default_factory=dict)
    ended: dict[int, Batch] = field(default_factory=dict)


class Zombies:
    """See the module; for one producer."""

    def __init__(self) -> None:
        self._epochs: dict[int, _Epochs] = {}

    def appended(self, partition: int, batch: Batch) -> Batch | None:
        """Record that a broker has appended a batch; return a batch to send again, once for each
        ended epoch.
        """
        if batch.sequence < 0:
            return None
        epochs = self._epochs.setdefault(partition, _Epochs())
        if batch.epoch > epochs.epoch:
            epochs.epoch, epochs.ended, epochs.present = batch.epoch, epochs.present, {}
        if len(epochs.present) < KEPT_BATCHES:
            epochs.present[batch.sequence] = batch
        zombie = epochs.ended.get(batch.sequence + len(batch.messages))
        if zombie is not None:
            epochs.ended = {}
        return zombie

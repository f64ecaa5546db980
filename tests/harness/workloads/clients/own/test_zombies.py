"""Which batches of an ended epoch are sent again."""

from harness.workloads.clients.own.partition_queue import Batch, Message
from harness.workloads.clients.own.zombies import KEPT_BATCHES, Zombies


def batch(epoch: int, sequence: int, count: int = 1) -> Batch:
    """An appended batch."""
    messages = [Message(sequence + index, b"", 0.0) for index in range(count)]
    return Batch(number=1, messages=messages, epoch=epoch, sequence=sequence)


def test_batch_of_the_ended_epoch_with_the_next_sequence_is_sent_again_once() -> None:
    """Only its epoch shows that it is old."""
    zombies = Zombies()
    old = [batch(0, 0, 2), batch(0, 2), batch(0, 3)]
    assert [zombies.appended(0, each) for each in old] == [None, None, None]
    assert zombies.appended(0, batch(1, 0)) is None  # sequence 1 began no batch
    assert zombies.appended(0, batch(1, 1)) is old[1]
    assert zombies.appended(0, batch(1, 2)) is None
    assert zombies.appended(0, batch(2, 0, 2)) is not None


def test_partitions_have_zombies_of_their_own() -> None:
    """An epoch of one partition ends no epoch of another."""
    zombies = Zombies()
    zombies.appended(0, batch(0, 0))
    zombies.appended(0, batch(0, 1))
    assert zombies.appended(1, batch(1, 0)) is None


def test_batches_without_sequences_and_late_batches_are_not_kept() -> None:
    """There is a bound, and a producer without idempotence has no epochs."""
    zombies = Zombies()
    assert zombies.appended(0, batch(-1, -1)) is None
    for sequence in range(KEPT_BATCHES + 1):
        zombies.appended(0, batch(0, sequence))
    assert zombies.appended(0, batch(1, 0, KEPT_BATCHES)) is None

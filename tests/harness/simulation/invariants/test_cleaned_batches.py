"""Which batches of a partition's history a batch of a compacted log stands for."""

from contextlib import nullcontext
from itertools import pairwise

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import Batch, PartitionHistory, Sequences
from nodes.ids import Epoch, Offset
from nodes.log.batch import BatchHeader, assemble, read_header
from nodes.log.cleaning.fillers import filler
from nodes.log.log import Log
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.cleaning import COMPACTED, keyed

E1, E2 = 1, 2


def header(base: int, epoch: int, value: bytes = b"1") -> BatchHeader:
    """The header of a batch with one record."""
    return read_header(keyed((b"a", value), base_offset=base, epoch=epoch))


def history() -> tuple[PartitionHistory, list[Batch]]:
    """A compacted partition with batches at 0 and 1 of one epoch, and at 2 of the next."""
    made = PartitionHistory("t-0")
    made.compact()
    batches: list[Batch] = []
    for base, epoch in ((0, E1), (1, E1), (2, E2)):
        before = batches[-1] if batches else None
        batches.append(made.appended(1, header(base, epoch), before, Sequences()))
    assert all(later.before is earlier for earlier, later in pairwise(batches))
    return made, batches


def empty(start: int, end: int, epoch: int) -> BatchHeader:
    """The header of an empty batch that stands for removed ones."""
    return filler(Offset(start), Offset(end), Epoch(epoch))


def test_empty_batch_stands_for_all_batches_of_its_offsets() -> None:
    made, batches = history()
    assert made.cleaned(2, empty(0, 2, E1), None) == batches[:2]
    assert made.cleaned(2, empty(2, 3, E2), batches[1]) == batches[2:]


def test_batch_with_other_records_stands_for_the_batch_of_its_offsets() -> None:
    made, batches = history()
    assert made.cleaned(2, header(1, E1, b"other"), batches[0]) == [batches[1]]


def test_batch_as_it_was_appended_stands_for_nothing_else() -> None:
    made, batches = history()
    assert made.cleaned(2, header(1, E1), batches[0]) == []
    assert made.cleaned(2, header(3, E2), batches[2]) == []


def test_empty_batch_of_another_epoch_stands_for_nothing() -> None:
    made, _ = history()
    assert made.cleaned(2, empty(0, 2, E2), None) == []


def test_empty_batch_that_begins_inside_of_another_epoch_is_found() -> None:
    made, batches = history()
    with pytest.raises(InvariantBroken, match="log-matching"):
        made.cleaned(2, empty(1, 3, E2), batches[0])


def test_empty_batch_behind_another_batch_is_found() -> None:
    made, batches = history()
    other = Batch(0, 1, 0, 7, None)
    with pytest.raises(InvariantBroken, match="log-matching"):
        made.cleaned(2, empty(1, 2, E1), other)
    assert batches[1].before is batches[0]


def replica(made: PartitionHistory, node: int, batches: list[bytes]) -> tuple[Log, Copy]:
    """The log of a replica that has these batches from its leader, and what is known of it."""
    log = Log.open(MemoryDisk(), "t-0", COMPACTED, clean=True)
    for each in batches:
        log.append_as_follower(each)
    copy = Copy(made, node)
    copy.open(log)
    return log, copy


def test_empty_batch_is_truncated_as_a_whole() -> None:
    """If what it stands for was lost in part, with permission, the rest is gone without a record.
    If nothing was lost, the truncation is wrong.
    """
    made = PartitionHistory("t-0")
    records = [keyed((b"a", b"1"), base_offset=base, epoch=E1) for base in range(3)]
    _, leader = replica(made, 1, records)
    assert leader.last is not None
    made.commit(leader.last, E1, 1)
    for lost in (False, True):
        if lost:
            made.reset(leader.batches[2], E2)
        log, follower = replica(made, 2, [assemble(empty(0, 3, E1), b"")])
        assert list(follower.batches) == [1, 2, 3]
        log.truncate_to(Offset(2))
        with nullcontext() if lost else pytest.raises(InvariantBroken, match="committed-stays"):
            follower.read()
        assert follower.end == 0

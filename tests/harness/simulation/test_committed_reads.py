"""A final read has all that was committed when it began, whoever leads meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.simulation import committed_reads, keyed_work
from harness.simulation.committed_reads import StaysOpen
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.keyed_values import KeyedValues
from harness.workloads.clients.own.committed_reads import Stable
from harness.workloads.clients.own.offsets import BoundsUnknown, Found
from nodes.log.batch import Record
from tests.support.nodes import virtual_time

CLUSTER: Any = SimpleNamespace(topic="t")


class Leaders:
    """Answers of one leader after the other: `known` is up to where each knows of commits."""

    def __init__(self, known: list[int]) -> None:
        self.known = known
        self.asked = 0

    async def find(self, *_: object) -> Found:
        """A new leader does not tell where the log ends (KIP-207); the others do."""
        self.asked += 1
        if self.asked == 1:
            raise BoundsUnknown("OFFSET_NOT_AVAILABLE")
        return Found(3, -1)

    async def read_on(self, cluster: object, partition: int, offset: int) -> Stable:
        """Return what is committed, as far as the present leader knows."""
        known = self.known.pop(0) if len(self.known) > 1 else self.known[0]
        records = [Record(offset=at) for at in range(offset, known)]
        return Stable(records, max(offset, known), known, known)


def read(monkeypatch: pytest.MonkeyPatch, leaders: Leaders) -> list[int]:
    monkeypatch.setattr(committed_reads, "find", leaders.find)
    monkeypatch.setattr(committed_reads, "read_on", leaders.read_on)
    records = virtual_time.run(committed_reads.read_committed(CLUSTER, 0))
    return [each.offset for each in records]


def test_new_leader_that_knows_of_fewer_commits_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(monkeypatch, Leaders([1, 1, 2, 3])) == [0, 1, 2]


def test_leader_that_never_knows_of_all_commits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StaysOpen, match="offset is 2, the high watermark 3"):
        read(monkeypatch, Leaders([2]))


class Unavailing(Leaders):
    """No leader ever tells where the log ends."""

    async def find(self, *_: object) -> Found:
        raise BoundsUnknown("OFFSET_NOT_AVAILABLE")


@pytest.mark.parametrize(
    ("leaders", "ends_stay", "accused"),
    [
        (Leaders([2]), True, True),
        (Leaders([2]), False, False),
        (Unavailing([2]), False, True),
    ],
)
def test_keys_are_not_judged_behind_a_transaction_whose_end_may_be_gone(
    monkeypatch: pytest.MonkeyPatch, leaders: Leaders, *, ends_stay: bool, accused: bool
) -> None:
    """Its end and its producer were compacted away before a replica that lagged got them. A leader
    that does not answer is accused in any case.
    """

    async def refused(*_: object) -> None:
        """A record without a key."""

    monkeypatch.setattr(committed_reads, "find", leaders.find)
    monkeypatch.setattr(committed_reads, "read_on", leaders.read_on)
    monkeypatch.setattr(keyed_work, "_check_refusal", refused)
    monkeypatch.setattr(keyed_work, "RawProducer", lambda *_: None)
    values = KeyedValues(ends_stay=ends_stay)
    values.begin().values[b"k"] = b"1"

    def judge() -> None:
        virtual_time.run(keyed_work.check_keys(CLUSTER, values, lambda: 0))

    if accused:
        with pytest.raises(InvariantBroken):
            judge()
    else:
        judge()

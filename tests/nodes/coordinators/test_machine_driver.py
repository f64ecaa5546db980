"""The fake shell that tests of coordinators share."""

from dataclasses import dataclass, field

import pytest

from nodes.coordinators.machine import Effects, Now, Position, ProducerStamp, Token
from nodes.coordinators.records import CoordinatorRecord
from tests.support.nodes.machine_driver import Appended, MachineDriver, Marker, compact

PRODUCER = ProducerStamp(producer_id=7, epoch=0)


@dataclass
class Registers:
    """A machine with named values; a set value ends after 100 ms, and is then removed."""

    values: dict[bytes, bytes] = field(default_factory=dict)
    staged: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    ends: dict[bytes, float] = field(default_factory=dict)

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        if position.producer is not None:
            assert record.value is not None
            self.staged.setdefault(position.producer.producer_id, {})[record.key] = record.value
        elif record.value is None:
            self.values.pop(record.key, None)
        else:
            self.values[record.key] = record.value

    def end_transaction(self, producer: ProducerStamp, position: Position, *, commit: bool) -> None:
        staged = self.staged.pop(producer.producer_id, {})
        if commit:
            self.values.update(staged)

    def loaded(self, now: Now) -> Effects:
        self.ends = dict.fromkeys(self.values, now.ms + 100)
        return Effects()

    def deadline_ms(self) -> float | None:
        return min(self.ends.values(), default=None)

    def tick(self, now: Now) -> Effects:
        due = [key for key, end in self.ends.items() if end <= now.ms]
        for key in due:
            del self.ends[key]
        return Effects(records=tuple(CoordinatorRecord(key, None) for key in due))

    def abandoned(self, token: Token) -> None:
        pass

    def set(self, key: bytes, token: Token, now: Now) -> Effects:
        self.ends[key] = now.ms + 100
        return Effects((CoordinatorRecord(key, b"set"),), ((token, {"key": key}),))

    def stage(self, key: bytes) -> Effects:
        return Effects((CoordinatorRecord(key, b"staged"),), producer=PRODUCER)


def test_an_operation_is_appended_replayed_and_answered() -> None:
    """Also at once, if its Effects hold the answer."""
    driver = MachineDriver(Registers)
    assert driver.ask(lambda m, token, now: m.set(b"a", token, now)) == {"key": b"a"}
    assert driver.machine.values == {b"a": b"set"}
    assert [each.record.key for each in driver.log if isinstance(each, Appended)] == [b"a"]


def test_ticks_come_at_their_deadlines() -> None:
    """The clock stops at each deadline on its way."""
    driver = MachineDriver(Registers)
    driver.perform(lambda m, token, now: m.set(b"a", token, now))
    driver.advance(99)
    assert driver.machine.values
    driver.advance(1)
    assert not driver.machine.values


def test_a_deadline_that_never_moves_fails() -> None:
    """A tick that leaves its deadline would hold the broker's event loop for ever."""

    class Stuck(Registers):
        def tick(self, now: Now) -> Effects:
            return Effects()

    driver = MachineDriver(Stuck)
    driver.perform(lambda m, token, now: m.set(b"a", token, now))
    with pytest.raises(AssertionError, match="does not move"):
        driver.advance(100)


def test_a_new_leader_has_what_was_appended() -> None:
    """Also when the log was compacted first."""
    driver = MachineDriver(Registers)
    driver.perform(lambda m, token, now: m.set(b"a", token, now))
    driver.perform(lambda m, token, now: m.set(b"b", token, now))
    driver.perform(lambda m, token, now: m.stage(b"b"))
    driver.end_transaction(PRODUCER, commit=True)
    driver.perform(lambda m, token, now: m.stage(b"c"))
    live = driver.machine.values
    assert live == {b"a": b"set", b"b": b"staged"}
    assert driver.rebuilt().values == driver.rebuilt(compacted=True).values == live
    assert driver.rebuilt(compacted=True).staged == {7: {b"c": b"staged"}}
    driver.fail_over()
    driver.advance(100)
    assert not driver.machine.values


def test_compaction_keeps_what_an_aborted_record_would_hide() -> None:
    """And leaves out tombstones, older values, and nothing above an open transaction."""
    driver = MachineDriver(Registers)
    driver.perform(lambda m, token, now: m.set(b"a", token, now))
    driver.perform(lambda m, token, now: m.set(b"b", token, now))
    driver.advance(100)
    driver.perform(lambda m, token, now: m.set(b"a", token, now))
    driver.perform(lambda m, token, now: m.stage(b"a"))
    driver.end_transaction(PRODUCER, commit=False)
    driver.perform(lambda m, token, now: m.stage(b"d"))
    driver.perform(lambda m, token, now: m.set(b"a", token, now))
    kept = [
        (each.position.offset, each.record.key)
        for each in compact(driver.log)
        if isinstance(each, Appended)
    ]
    assert kept == [(4, b"a"), (7, b"d"), (8, b"a")]
    assert sum(isinstance(each, Marker) for each in compact(driver.log)) == 1

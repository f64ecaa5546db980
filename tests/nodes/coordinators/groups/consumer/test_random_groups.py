"""Random lives of consumer groups: members, lost answers, failovers, topics that change.

After every step: no partition has two owners, neither in the coordinator's view nor in that of the
members; epochs only grow. Now and then: the live state is what the log says, also compacted. In the
end everybody sends heartbeats in peace: the group becomes stable, every partition is read.
"""

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.groups import RECORD_NUMBERS
from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.machine import Position, Token
from nodes.coordinators.records import CoordinatorRecord, RecordError
from nodes.ids import Offset
from tests.support.nodes.consumer_group import (
    GROUP,
    Consumer,
    ConsumerGroupsMachine,
    by_topic,
    driver_of,
    settle,
)
from tests.support.nodes.group_topics import FakeTopics
from tests.support.nodes.machine_driver import START

NAMES = ("t", "u", "x1", "x2", "y")
SUBSCRIPTIONS = (("t",), ("t",), ("t", "u"), ("u", "y"), ())
REGEXES = (None, None, "x.", "t|y")


class Life:
    """One run. `step` does something, and checks."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topics = FakeTopics(t=4, u=3)
        self.driver = driver_of(self.topics, ConsumerSettings(max_size=6))
        self.consumers: list[Consumer] = []
        self.epochs = (0, 0)
        self.made = 0

    def step(self) -> None:
        """Do one random thing."""
        steps = [self.join] + [self.beat] * 8 + [self.slow, self.change_topics, self.pass_time]
        steps += [
            self.lose,
            self.lose,
            self.leave,
            self.come_back,
            self.fail_over,
            self.resubscribe,
        ]
        self.random.choice(steps)()
        self.check()

    def pick(self) -> Consumer | None:
        return self.random.choice(self.consumers) if self.consumers else None

    def join(self) -> None:
        if len(self.consumers) >= 5:
            return
        self.made += 1
        self.consumers.append(
            Consumer(
                self.driver,
                f"m{self.made}",
                self.random.choice(SUBSCRIPTIONS),
                self.random.choice(REGEXES),
                self.random.choice([None, None, f"i{self.made}"]),
                self.random.choice([None, "range", "uniform"]),
                rebalance_timeout_ms=self.random.choice([5_000, 60_000]),
            )
        )
        self.consumers[-1].join()

    def beat(self) -> None:
        if each := self.pick():
            each.beat(full=self.random.random() < 0.2)

    def lose(self) -> None:
        if each := self.pick():
            each.beat(lose_answer=True)

    def slow(self) -> None:
        if each := self.pick():
            each.revokes_at_once = not each.revokes_at_once

    def leave(self) -> None:
        if each := self.pick():
            self.consumers.remove(each)
            if self.random.random() < 0.7:  # otherwise it is killed
                each.leave()

    def come_back(self) -> None:
        each = self.pick()
        if each and each.instance_id:
            each.leave(-2)
            self.made += 1
            each.member_id = f"m{self.made}"
            each.join()

    def resubscribe(self) -> None:
        if each := self.pick():
            each.topics = self.random.choice(SUBSCRIPTIONS)
            each.regex = "" if each.regex is None else self.random.choice(("", "x.", "t|y"))
            each.beat(full=True)

    def fail_over(self) -> None:
        self.driver.fail_over()

    def pass_time(self) -> None:
        self.driver.advance(self.random.choice([100, 3_000, 11_000]))

    def change_topics(self) -> None:
        name = self.random.choice(NAMES)
        topic = self.topics.topic(name)
        if topic is None:
            self.topics.create(name, self.random.randint(1, 5))
        elif self.random.random() < 0.3:
            self.topics.delete(name)
        else:
            self.topics.grow(name, topic.partitions + 1)

    def check(self) -> None:
        """What must hold at all times."""
        group = self.driver.machine.groups.get(GROUP)
        if group is None:
            return
        owners: dict[tuple[UUID, int], str] = {}
        for member in group.members.values():
            for topic, partitions in member.current.holdings():
                for partition in partitions:
                    other = owners.setdefault((topic, partition), member.member_id)
                    assert other == member.member_id, "two members of the group have it"
                    assert group.holder(topic, partition) == member.member_id
            assert member.current.epoch <= group.assignment_epoch
        assert {(t, p): m for t, p, m in group.holdings()} == owners
        readers: dict[tuple[UUID, int], str] = {}
        for each in self.consumers:
            if each.member_id in group.members:
                for pair in each.has:
                    assert readers.setdefault(pair, each.member_id) == each.member_id, "two read it"
                    assert owners.get(pair) == each.member_id, "the coordinator may give it away"
        assert group.assignment_epoch <= group.epoch
        epochs = (group.epoch, group.assignment_epoch)
        assert epochs >= self.epochs
        self.epochs = epochs

    def check_log(self) -> None:
        """The machine's property."""
        live = self.driver.machine.remembered()
        assert self.driver.rebuilt().remembered() == live
        assert self.driver.rebuilt(compacted=True).remembered() == live

    def end_in_peace(self) -> None:
        """Convergence, and nothing more is written afterwards."""
        for each in self.consumers:
            each.revokes_at_once = True
        self.driver.advance(11_000)  # regular expressions may be refreshed again
        settle(self.consumers, rounds=4)
        self.driver.advance(40_000)
        settle(self.consumers, rounds=1)
        self.driver.advance(40_000)  # who was killed is gone
        settle(self.consumers, rounds=6)
        self.check()
        group = self.driver.machine.groups.get(GROUP)
        if group is None or not self.consumers:
            return
        assert group.state.value == "Stable"
        assert group.members.keys() == {each.member_id for each in self.consumers}
        expected = set()
        for name in group.subscribed_names():
            topic = self.topics.topic(name)
            if topic is not None:
                expected |= {(topic.topic_id, each) for each in range(topic.partitions)}
        assert set().union(*(each.has for each in self.consumers)) == expected
        size = len(self.driver.log)
        settle(self.consumers, rounds=1)
        assert len(self.driver.log) == size


@pytest.mark.parametrize("seed", range(30))
def test_a_random_life_is_safe_and_ends_stable(seed: int) -> None:
    """See the module."""
    life = Life(seed)
    for count in range(150):
        life.step()
        if count % 25 == 0:
            life.check_log()
    life.check_log()
    life.end_in_peace()
    life.check_log()


def small_text() -> st.SearchStrategy[str]:
    return st.sampled_from(["", " ", "a", "b", "i", "é", "(", "x" * 300, "y" * 32_768])


@st.composite
def heartbeats(draw: st.DrawFn) -> Heartbeat:
    """Anything that the wire can carry, mostly about the same few names."""
    maybe = st.one_of(st.none(), small_text())
    numbers = st.sampled_from([-(2**31), -3, -2, -1, 0, 1, 2, 3, 2**31 - 1])
    pairs = st.sets(st.tuples(st.sampled_from([UUID(int=1), UUID(int=0xA << 120 | 1)]), numbers))
    owned: st.SearchStrategy[Assignment | None] = st.one_of(
        st.none(), st.just({}), st.builds(by_topic, pairs)
    )
    return Heartbeat(
        group_id=draw(st.sampled_from([GROUP, "other", ""])),
        member_id=draw(small_text()),
        member_epoch=draw(numbers),
        instance_id=draw(maybe),
        rack_id=draw(maybe),
        rebalance_timeout_ms=draw(numbers),
        topic_names=draw(st.one_of(st.none(), st.lists(small_text()).map(tuple))),
        topic_regex=draw(st.one_of(maybe, st.sampled_from([".*", "(a*)*", "t"]))),
        assignor=draw(st.sampled_from([None, None, "range", "none"])),
        owned=draw(owned),
        client_id=draw(small_text()),
        version=draw(st.integers(0, 1)),
    )


@given(st.lists(heartbeats(), max_size=12))
@settings(deadline=None, max_examples=150)
def test_any_heartbeat_is_answered(requests: list[Heartbeat]) -> None:
    """Nothing is raised, and the log still says what the machine remembers."""
    driver = driver_of(FakeTopics(t=2, a=1))
    for request in requests:
        driver.ask(lambda m, token, now, r=request: m.heartbeat(r, token, now))  # type: ignore[misc]
        driver.advance(1)
    live = driver.machine.remembered()
    assert driver.rebuilt(compacted=True).remembered() == live
    for group_id in (GROUP, "other"):
        driver.machine.describe(group_id)
    list(driver.machine.listing())
    driver.advance(100_000_000)


@given(st.sampled_from(RECORD_NUMBERS), st.binary(max_size=40), st.binary(max_size=60))
@settings(deadline=None, max_examples=300)
def test_a_damaged_record_raises_nothing_but_record_error(
    number: int, key: bytes, value: bytes
) -> None:
    """The shell refuses the log then."""
    machine = driver_of(FakeTopics()).machine
    assert isinstance(machine, ConsumerGroupsMachine)
    record = CoordinatorRecord(number.to_bytes(2, "big") + key, b"\0\0" + value)
    try:
        machine.replay(record, Position(Offset(0), 0, None))
    except RecordError:
        return
    machine.loaded(START)
    machine.tick(START)
    request = Heartbeat(GROUP, "m", 0, rebalance_timeout_ms=1, topic_names=("t",), owned={})
    machine.heartbeat(request, Token(1), START)

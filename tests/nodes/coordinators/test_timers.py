"""Deadlines by key."""

from random import Random

from nodes.coordinators.timers import Timers


def test_the_earliest_deadline_comes_first() -> None:
    """Keys become due in the order of their deadlines; equal ones in the order of scheduling."""
    timers: Timers[str] = Timers()
    for key, at in (("late", 30), ("first", 10), ("second", 10)):
        timers.schedule(key, at)
    assert timers.next_ms() == 10
    assert list(timers.due(29)) == ["first", "second"]
    assert timers.next_ms() == 30


def test_a_deadline_that_moves_counts_once() -> None:
    """A deadline that was moved later or earlier is due at its last time only."""
    timers: Timers[str] = Timers()
    timers.schedule("later", 10)
    timers.schedule("later", 20)
    timers.schedule("earlier", 20)
    timers.schedule("earlier", 10)
    assert list(timers.due(10)) == ["earlier"]
    assert list(timers.due(20)) == ["later"]
    assert timers.next_ms() is None


def test_a_cancelled_deadline_is_never_due() -> None:
    """Also if the key is scheduled again, only the new deadline counts."""
    timers: Timers[str] = Timers()
    timers.schedule("key", 10)
    timers.cancel("key")
    assert timers.next_ms() is None
    timers.schedule("key", 10)
    timers.cancel("key")
    timers.schedule("key", 20)
    assert list(timers.due(15)) == []
    assert list(timers.due(20)) == ["key"]


def test_what_is_scheduled_meanwhile_waits_for_the_next_call() -> None:
    """A key that is scheduled again at once does not keep its caller for ever."""
    timers: Timers[str] = Timers()
    timers.schedule("again", 0)
    seen = []
    for key in timers.due(5):
        seen.append(key)
        timers.schedule(key, 0)
    assert seen == ["again"]
    assert timers.next_ms() == 0


def test_a_key_that_is_cancelled_meanwhile_is_not_due() -> None:
    """The caller may cancel others that are due in the same call."""
    timers: Timers[str] = Timers()
    timers.schedule("one", 1)
    timers.schedule("other", 2)
    seen = []
    for key in timers.due(5):
        seen.append(key)
        timers.cancel("other")
    assert seen == ["one"]


def test_random_deadlines_are_due_as_in_a_plain_dict() -> None:
    """Against a dict that is searched: the same keys are due at the same times."""
    random = Random(3)
    timers: Timers[int] = Timers()
    plain: dict[int, float] = {}
    now = 0.0
    for _ in range(3_000):
        key = random.randrange(20)
        if random.random() < 0.7:
            at = now + random.randrange(50)
            timers.schedule(key, at)
            plain[key] = at
        elif random.random() < 0.3:
            timers.cancel(key)
            plain.pop(key, None)
        now += random.randrange(4)
        assert timers.next_ms() == min(plain.values(), default=None)
        due = {key for key, at in plain.items() if at <= now}
        assert set(timers.due(now)) == due
        plain = {key: at for key, at in plain.items() if key not in due}
        assert len(timers) == len(plain)

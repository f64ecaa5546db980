"""What needs a repeated request, of sends that their clients may have repeated or not."""

from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.story import NONE, ONE, S, Story, v

TWICE, BACK = ("duplicate", "answered-at-once"), ("reordered-send", "answered-at-once")
MS = 1_000_000


def _known_client(s: Story, client: str = "librdkafka") -> None:
    """The producers use a client that waits 40 ms or longer before it repeats a request."""
    s.plan["workload"]["client"] = client


def _twice(s: Story, topic: str = ONE, *, at_s: float = 30, took_ms: int = 1, **more: str) -> None:
    """A send whose record is in the log twice."""
    s.send(topic, 99, 20, at_s, complete_ns=round(at_s * S) + took_ms * MS, **more)
    for offset in (20, 21):
        s.read_in_the_end(topic, offset, v(topic, 99))


def _back(s: Story, *, offset: int = 20, took_ms: int = 2) -> None:
    """Two sends of which the later one is in the log first, at `offset`. took_ms: how long the
    earlier one took."""
    s.send(ONE, 97, offset + 1, 31, complete_ns=31 * S + took_ms * MS)
    s.send(ONE, 98, offset, 31.0005)
    s.read_in_the_end(ONE, offset, v(ONE, 98))
    s.read_in_the_end(ONE, offset + 1, v(ONE, 97))


@golden("INVALID", {TWICE: (F, 1)})
def record_is_there_twice_and_nobody_repeated_it(s: Story) -> None:
    """acks=1 without idempotence permits the repetitions of a client, and no others."""
    _known_client(s)
    _twice(s)


@golden("VALID", {("duplicate", None): (P, 1)})
def record_is_there_twice_and_may_have_been_repeated(s: Story) -> None:
    """Near miss: the send took as long as a client waits."""
    _known_client(s)
    _twice(s, took_ms=36)


@golden("VALID", {("duplicate", None): (P, 1)})
def record_is_there_twice_and_its_client_is_unknown(s: Story) -> None:
    """Near miss: a program may repeat its requests at once."""
    _known_client(s, "program")
    _twice(s)


@golden("VALID", {("duplicate", None): (P, 1)})
def record_is_there_twice_and_one_client_is_unknown(s: Story) -> None:
    """Near miss: the second workload may write to the topic, too."""
    _known_client(s)
    s.plan["more_workloads"] = [{"kind": "copy", "client": "java", "output": ONE}]
    _twice(s)


@golden("VALID", {("duplicate", None): (P, 1)})
def record_is_there_twice_near_a_new_leader(s: Story) -> None:
    """Near miss: a client that is told of a new leader does not wait."""
    _known_client(s)
    _twice(s, at_s=17)


@golden("UNKNOWN", {TWICE: (U, 1)}, because="leaders are not recorded")
def record_is_there_twice_and_leaders_are_not_recorded(s: Story) -> None:
    """Near miss: there may have been a new leader."""
    _known_client(s)
    _twice(s)
    s.cluster = [row for row in s.cluster if row.get("topic") != ONE]


@golden("VALID", {("duplicate", None): (P, 1)})
def record_is_there_twice_and_was_not_acknowledged(s: Story) -> None:
    """Near miss: the client gave up, and its request may have been repeated."""
    _known_client(s)
    _twice(s, type="info")


@golden("VALID", {("duplicate", None): (P, 1)})
def record_is_there_twice_without_an_answer(s: Story) -> None:
    """Near miss: acks=0 has no answers, so none came at once."""
    _known_client(s)
    _twice(s, NONE)


@golden("INVALID", {BACK: (F, 1)})
def later_send_is_there_first_and_nobody_repeated_the_earlier(s: Story) -> None:
    """One client sends in order but for its repetitions."""
    _known_client(s)
    _back(s)


@golden("VALID", {("reordered-send", None): (P, 1)})
def later_send_is_there_first_and_the_earlier_may_have_been_repeated(s: Story) -> None:
    """Near miss: that the later send was acknowledged at once means nothing."""
    _known_client(s)
    _back(s, took_ms=36)


@golden("INVALID", {TWICE: (F, 1), BACK: (F, 1)})
def nobody_repeated_any_send(s: Story) -> None:
    """Both at once."""
    _known_client(s)
    _twice(s)
    _back(s, offset=22)

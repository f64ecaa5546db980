"""The sends of a producer of a compacted topic: which keys it writes, and what its rows say."""

from collections import Counter

from harness.workloads.clients.keyed_sends import KeyedSends, Keys, key_number
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import value_of
from tests.support.clients.recorded import CODEC, Recorded

KEYS = Keys(at_a_time=4, sends_each=50, delete_share=0.25)


def keyed(keys: Keys = KEYS) -> tuple[Recorded, KeyedSends]:
    """The sends of a producer, and where they are recorded."""
    seen = Recorded()
    return seen, seen.keyed_sends(keys)


def test_producer_writes_a_few_keys_and_leaves_the_lowest_one_after_some_sends() -> None:
    """So most keys have their last record long before the end."""
    for sequence in (1, 49, 50, 5_000):
        first = sequence // 50
        assert first <= KEYS.number(value_of(9, sequence)) < first + 4
    early = Counter(KEYS.number(value_of(9, sequence)) for sequence in range(1, 50))
    assert sorted(early) == [0, 1, 2, 3]


def test_another_producer_writes_the_same_keys_with_other_choices() -> None:
    """Both write between each other."""
    one, other = (
        [KEYS.number(value_of(client, sequence)) for sequence in range(1, 50)] for client in (1, 2)
    )
    assert set(one) == set(other)
    assert one != other


def test_share_of_deletions_is_kept() -> None:
    """As nearly as chance allows; none and all are exact."""
    values = [value_of(3, sequence) for sequence in range(1, 2_001)]
    assert 400 < sum(map(KEYS.deletes, values)) < 600
    assert not any(map(KEYS._replace(delete_share=0.0).deletes, values))
    assert all(map(KEYS._replace(delete_share=1.0).deletes, values))


def test_row_of_a_write_has_its_key_and_its_value() -> None:
    """The payload has the value, and the record has the key."""
    seen, sends = keyed(KEYS._replace(delete_share=0.0))
    value, payload = sends.begin(3)
    assert CODEC.decode(payload) == (value, None)
    number = KEYS.number(value)
    assert key_number(sends.key(value, 3)) == number
    sends.end(value, Outcome.OK, at_ns=100, offset=7)
    columns = ("type", "partition", "value", "offset", "key")
    assert seen.writer.of("keyed-write", *columns) == [("ok", 3, value, 7, number)]
    assert seen.writer.of("send", "key") == []


def test_row_of_a_deletion_has_a_value_of_its_own_and_the_record_has_none() -> None:
    """A tombstone has no payload."""
    seen, sends = keyed(KEYS._replace(delete_share=1.0))
    value, payload = sends.begin(0)
    assert payload is None
    sends.end(value, Outcome.INFO, at_ns=None)
    assert seen.writer.of("keyed-delete", "type", "value", "key") == [
        ("info", value, KEYS.number(value))
    ]


def test_keys_that_no_producer_writes_have_no_number() -> None:
    """Such a record is foreign."""
    assert key_number(b"12") == 12
    assert [key_number(key) for key in (None, b"", b"-1", b"a", b"1" * 19)] == [None] * 5


def test_configuration_without_keys_means_ordinary_sends() -> None:
    """Of a topic that is not compacted."""
    assert Keys.of(()) is None
    assert Keys.of([4.0, 50.0, 0.25]) == KEYS

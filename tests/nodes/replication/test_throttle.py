"""The token bucket."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.replication.throttle import TokenBucket


def test_a_new_bucket_has_the_bytes_of_one_second() -> None:
    """Then as much as time earns, and never more than a second's worth again."""
    bucket = TokenBucket(1000, 0)
    bucket.spend(999, 0)
    assert not bucket.spent(0)
    bucket.spend(501, 0)
    assert bucket.spent(0)
    assert 500 < bucket.ready_ms(0) <= 502
    assert bucket.spent(499)
    assert not bucket.spent(bucket.ready_ms(499))
    assert not bucket.spent(10_000_000)
    bucket.spend(1000, 10_000_000)
    assert bucket.spent(10_000_000), "an hour without use does not buy an hour's worth"


def test_a_debt_is_paid_to_the_byte() -> None:
    """One token is enough to send again."""
    bucket = TokenBucket(1000, 0)
    bucket.spend(2000, 0)
    assert bucket.ready_ms(0) == 1001
    assert bucket.ready_ms(500) == 1001
    assert bucket.spent(1000)
    assert not bucket.spent(1001)
    assert bucket.ready_ms(2000) == 2000


def test_what_is_used_late_is_not_earned_afterwards() -> None:
    """The bucket is full when it is used again, and no time passes then."""
    bucket = TokenBucket(1000, 0)
    bucket.spend(600, 0)
    bucket.spend(600, 10_000)
    bucket.spend(500, 10_000)
    assert bucket.spent(10_000)


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 5000)), max_size=60))
def test_the_rate_holds_in_the_long_run(steps: list[tuple[int, int]]) -> None:
    """Whoever asks first uses at most the rate, a second's worth, and one piece over it."""
    bucket, now_ms, used, largest = TokenBucket(1000, 0), 0.0, 0, 0
    for passes_ms, size in steps:
        now_ms += passes_ms
        if not bucket.spent(now_ms):
            bucket.spend(size, now_ms)
            used, largest = used + size, max(largest, size)
        assert used <= 1000 + now_ms + largest
